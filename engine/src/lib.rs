//! From an operator and a schedule to a checked measurement.
//!
//! Owns the machine's facts ([`env`]), its calibration ([`calibrate`]), schedules ([`schedule`]), the time and the check
//! of a kernel ([`measure`], [`stats`]), and the workers that run kernels ([`runner`] in the parent, [`worker`] in the
//! child, [`protocol`] between them), and this machine as a server for others ([`serve`]). It knows no command line, renders nothing and plans no run.

pub mod calibrate;
pub mod device;
pub mod env;
pub mod interference;
pub mod interrupt;
pub mod measure;
mod nvidia;
pub mod protocol;
pub mod runner;
pub mod schedule;
pub mod serve;
pub mod stats;
pub mod worker;
