//! Matching: gives each record (what an engine did) its command (what the program asked for).
//!
//! A dump goes through these steps:
//! - [`order`] sorts the records of one engine by time and sets impossible ones aside.
//! - [`sync`] finds the marks that frame a profile.
//! - [`sections`] cuts records and commands where their ids fall.
//! - `repair` and `shift` undo what lost nodes did to sections.
//! - `certain` pairs sections and says whether the pairing is certain: by order (`embed`), by what another engine did at the time
//!   ([`timeline`]), or, where commands are lost, because no other pairing comes near (`doubted`, `strict`).
//! - [`bind`] gives each record of a [`stream`] its command by id; [`cdma`] does so for ports, which several cores feed.
//!
//! `proof` states what a certain pairing has to satisfy.

pub mod bind;
pub mod cdma;
mod certain;
mod doubted;
mod embed;
pub mod event;
pub mod order;
mod proof;
mod repair;
pub mod sections;
mod shift;
pub mod stream;
mod strict;
pub mod sync;
pub mod timeline;
