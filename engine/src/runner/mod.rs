//! The parent's side of measuring: keeps a worker alive and turns whatever happens to it into outcomes of single points.
//!
//! A kernel can crash, hang or eat memory, so it runs in a child process ([`crate::worker`]) that costs its own row and a
//! restart, never the run. [`process`] sorts out who was to blame, on top of [`child`], one process. Nothing is forked:
//! workers are started with exec, because TVM's thread pool does not survive a fork.

pub mod child;
pub mod process;

pub use opdata::contract::WorkerPolicy;
