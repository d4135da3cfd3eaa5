//! Reading the files of a dump: `global.profile`, the containers, PMU records, command nodes and descriptors.
//!
//! Owns bytes and their meaning one by one. [`crate::matching`] handles order in time, ids, and the command of each
//! record.

pub mod container;
pub mod core;
mod descriptors;
pub(crate) mod details;
pub mod folder;
pub mod global;
pub mod layers;
mod markers;
pub mod nodes;
mod order;
mod pairing;
pub mod pmu;
pub(crate) mod regular;
pub mod source;
pub(crate) mod words;
