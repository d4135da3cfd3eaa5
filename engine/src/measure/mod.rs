//! Taking the time of a kernel whose output has been checked.
//!
//! [`fill`] makes the seeded arguments, and [`check`] compares outputs with those of plain loops. [`sampling`] takes
//! the samples with a [`Timer`], and a [`CacheControl`] brings the caches into their state. [`counters`] counts in
//! calls of its own. The device chooses the timer, the counters and the caches; `mock` has scripted ones for tests.
//! [`crate::interference`] samples whole models and measures the load by other processes. [`crate::stats`] has the
//! statistics of the samples.

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
