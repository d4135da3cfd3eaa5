//! Taking the time of a kernel whose output has been checked.
//!
//! [`fill`] makes the seeded arguments, [`check`] compares outputs with the unscheduled kernel's, [`timer`] takes the
//! samples hot or with flushed caches ([`flush`]), and [`sentinel`] tells how far the machine has drifted since the run
//! began, [`load`] what other processes took of it. Statistics on the samples are [`crate::stats`]'s.

pub mod check;
pub mod fill;
pub mod flush;
pub mod load;
pub mod sentinel;
pub mod timer;

pub use opdata::contract::TimingPolicy;
