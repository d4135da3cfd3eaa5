//! Collects operator performance through TVM.

pub mod config;
pub mod plan;
pub mod stats;
