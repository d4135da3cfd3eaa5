//! Taking the time of a kernel whose output has been checked.
//!
//! [`fill`] makes the seeded arguments, and [`check`] compares outputs with those of plain loops. [`sampling`] takes the samples with a [`Timer`], a
//! [`CacheControl`] brings the caches into their state, and [`quiet`] samples whole models; [`counters`] counts in calls of their own. Which timer, counters
//! and caches there are is the device's to say; [`mock`] has scripted ones. [`load`] tells what other processes took of the machine. Statistics on the
//! samples are [`crate::stats`]'s.

pub mod caches;
pub mod check;
pub mod counters;
pub mod fill;
#[cfg(any(test, feature = "testing"))]
pub mod mock;
pub mod sampling;
pub mod timer;

pub use caches::CacheControl;
pub use counters::CounterSource;
pub use opdata::contract::TimingPolicy;
pub use timer::{Marks, Timer};
