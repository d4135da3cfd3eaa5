//! Worker processes: where kernels are built, checked and timed.
//!
//! A kernel can crash, hang or eat memory, so it runs in a child process that costs its own row and a restart, never the
//! run. The parent's side is [`lab`] (which keeps a worker alive and sorts out who was to blame) on top of [`process`];
//! the child's side is [`serve`], with [`build`] and [`bench`] for single operators and [`network`] for whole models. They speak
//! [`protocol`] over the child's standard input and output. Nothing is forked: workers are started with exec, because
//! TVM's thread pool does not survive a fork.

mod arguments;
mod bench;
mod build;
pub mod lab;
mod network;
pub mod process;
pub mod protocol;
mod serve;

pub use serve::serve;
