//! NVIDIA's run-time compiler: CUDA source in, a cubin and the assembler's log out.
//!
//! It runs in child processes, because a kernel can keep it busy for minutes and nothing stops it but the end of its
//! process. [`Nvrtc`] keeps as many as there are threads that compile; [`serve`] is the child. [`toolkit`] finds the
//! libraries and headers that `scripts/setup --with cuda` installs.

mod child;
mod library;
mod pool;
mod toolkit;

pub(super) use child::{serve, version};
pub(super) use pool::{Cubin, Nvrtc};
pub(super) use toolkit::{HOW_TO_GET_IT, Toolkit, ToolkitMissing, runtime};
