//! Collects operator performance through TVM.

pub mod app;
pub mod cli;
pub mod compare;
pub mod config;
pub mod doctor;
pub mod merge;
pub mod night;
pub mod plan;
pub mod preview;
pub mod propose;
pub mod render;
pub mod replay;
pub mod report;
pub mod run;
pub mod sweep;
pub mod tpu;
