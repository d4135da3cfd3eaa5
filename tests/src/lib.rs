//! What the end-to-end tests share: a bench that runs the real programs, and models to feed them.
//!
//! The tests drive the release binaries of `target/release`, which `scripts/setup` builds (another folder can be named
//! by `OPBENCH_BINARIES`), each in a folder of its own. They check what a person or a script sees: output, exit codes,
//! files. They never check how fast something was.

mod bench;
mod browser;
mod group;
pub mod installed;
mod onnx;
mod outcome;
pub mod predict;
mod sandbox;
mod stand_in;

pub use bench::{Bench, Started, opcollect};
pub use browser::Browser;
pub use group::Group;
pub use onnx::{Node, Tensor, model, relu};
pub use optestkit::skip;
pub use outcome::Outcome;
pub use sandbox::Disk;
pub use stand_in::StandInGpu;
