//! Matching: gives each record (what an engine did) its command (what the program asked for).
//!
//! A dump goes through these steps:
//! - [`order`] sorts the records of one engine by time and sets impossible ones aside.
//! - [`sync`] finds the marks that frame a profile.
//! - [`sections`] cuts records and commands where their ids fall.
//! - `pairing` pairs sections of records and of commands, which correspond one to one in a whole dump. For other dumps
//!   `recovery` pairs as many sections as possible, and marks the certain pairs.
//! - [`bind`] gives each record of a [`stream`] its command by id; [`cdma`] does so for ports, which several cores feed.
//! - [`timeline`] compares two engines of a core by the times of their commands.

pub mod bind;
pub mod cdma;
pub mod event;
pub mod order;
mod pairing;
mod recovery;
pub mod sections;
pub mod stream;
pub mod sync;
pub mod timeline;
