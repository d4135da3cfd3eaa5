//! From an operator and a schedule to a checked measurement.
//!
//! Owns the machine's facts ([`mod@env`]), its calibration ([`calibrate`]), schedules ([`schedule`]), and the time and
//! the check of a kernel ([`measure`], [`stats`]). Workers run the kernels: [`runner`] is the parent's side, [`worker`]
//! the child's, and they talk by [`protocol`]. [`serve`] makes this machine a server for others. It knows no command
//! line, renders nothing and plans no run.

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
