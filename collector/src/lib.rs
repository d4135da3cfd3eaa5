//! Collects operator performance through TVM.

pub mod config;
pub mod doctor;
pub mod plan;
pub mod render;
pub mod stats;
