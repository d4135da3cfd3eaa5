//! Reading the files of a dump: `global.profile`, the containers, PMU records, command nodes and descriptors.
//!
//! Owns bytes and their meaning one by one. Order in time, ids and which command belongs to which record are the
//! business of [`crate::matching`].

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
