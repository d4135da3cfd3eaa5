//! Records in their order in time, and each with its command.
//!
//! [`order`] brings the records of one engine into order and sets aside what cannot be; [`sections`] cuts records and
//! commands where ids fall and aligns the two lists, coming back into step after lost, doubled or swapped ones;
//! [`bind`] gives each record its command by id, after `repair` put right what lost nodes did; [`sync`] knows the marks that frame a profile; [`cdma`] does the same
//! for ports, which several cores feed.

pub mod bind;
pub mod cdma;
pub mod event;
pub mod order;
mod repair;
pub mod sections;
pub mod sync;
