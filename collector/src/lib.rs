//! Collects operator performance through TVM.

pub mod app;
pub mod calibrate;
pub mod cli;
pub mod compare;
pub mod config;
pub mod doctor;
pub mod env;
pub mod interrupt;
pub mod measure;
pub mod merge;
pub mod night;
pub mod plan;
pub mod render;
pub mod run;
pub mod schedule;
pub mod stats;
pub mod sweep;
pub mod tpu;
pub mod worker;
