//! Interference: other processes and virtual machines that slow a measurement down.
//!
//! | module | for |
//! | --- | --- |
//! | [`reference_kernel`] | how much slower a kernel of known time runs now: the *slowdown*, 1 on an idle machine |
//! | [`quiet`] | samples of something long, with readings of the reference kernel between them |
//! | [`load`] | the share of CPU time that other processes took |
//! | [`remeasure`] | whether to measure again, and how long |
//!
//! It measures and decides. The bounds are the dataset's ([`opdata::contract::interference`]), as every reader of rows
//! needs them too.

pub mod load;
pub mod quiet;
pub(crate) mod reference_kernel;
pub mod remeasure;

/// Bytes of a cache line on the processors that can be targets.
pub(crate) const LINE_BYTES: usize = 64;
