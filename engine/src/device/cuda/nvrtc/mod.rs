//! NVIDIA's run-time compiler: CUDA source in, a cubin and the assembler's log out.
//!
//! It runs in child processes, because a kernel can keep it busy for minutes, and only the end of its process stops it.
//! [`Nvrtc`] keeps one for each compiling thread; [`serve`] is the child. [`toolkit`] finds the libraries and headers
//! that `scripts/setup --with cuda` installs.

mod child;
mod library;
mod pool;
mod toolkit;

pub(super) use child::{serve, version};
pub(super) use pool::{Cubin, Nvrtc};
pub(super) use toolkit::{HOW_TO_GET_IT, Toolkit, ToolkitMissing, runtime};
