//! Collects operator performance through TVM.

pub mod cli;
pub mod config;
pub mod doctor;
pub mod env;
pub mod measure;
pub mod plan;
pub mod progress;
pub mod render;
pub mod schedule;
pub mod stats;
