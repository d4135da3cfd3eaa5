//! Records in their order in time, and each with its command.
//!
//! [`order`] brings the records of one engine into order and sets aside what cannot be; [`sections`] cuts records and
//! commands where ids fall; `certain` says which sections belong together and whether that is certain, by order
//! (`embed`), by what another engine did at the time ([`timeline`]), and after `repair` put right what lost nodes did,
//! or by what nothing else comes near where commands are lost (`doubted`, `strict`); `proof` says what all of that must hold;
//! [`bind`] gives each record of a [`stream`] its command by id; [`sync`] knows the marks that frame a profile; [`cdma`] does the same
//! for ports, which several cores feed.

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
