//! `opcollect doctor`: is this machine fit to build, run and measure, and if not, what to do.

mod check;

pub use check::{Check, CheckStatus};
