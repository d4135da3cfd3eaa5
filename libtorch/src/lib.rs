//! Runs a model by libtorch, beside TVM: the messages to the program `optorch`, and the table of its record.
//!
//! The program (feature `libtorch`, `src/program/`) loads TorchScript through `tch` and records operators through Kineto,
//! the profiler inside libtorch. This library needs neither: [`protocol`] is what parent and program say, and [`client`]
//! starts the program and talks to it. [`tree`] finds which event is inside which. [`lines`] makes the lines of the table,
//! [`stacks`] the stacks of a flame graph. [`kinds`] says what an operator of libtorch computes. It never prints.

pub mod client;
pub mod kinds;
pub mod lines;
pub mod protocol;
pub mod stacks;
mod tree;
