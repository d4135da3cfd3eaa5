//! TVM through its FFI, safely and without Python in the process.
//!
//! This crate owns every call into TVM: finding and loading its libraries, IR in JSON, devices and targets, schedule
//! primitives, lowering and code generation. It also owns compiled kernels, tensors, the thread pool and the Relax
//! virtual machine with its instrument hook. It owns no policy: its callers decide what to schedule, measure or keep.
//!
//! [`mod@compile`] describes the path from an operator to a running kernel, and the cost of each step. Errors raised inside
//! TVM arrive as [`Error::Tvm`], reduced to the sentence that a user needs. A panic in a Rust callback becomes a TVM
//! error and never unwinds through C++.

pub mod algorithm;
pub mod annotate;
mod async_copy;
mod bfloat16;
mod call;
pub mod clock;
pub mod compile;
pub mod cuda;
pub mod database;
pub mod device;
mod dtype;
pub mod error;
pub mod evolution;
mod fragments;
pub mod inspect;
pub mod ir;
pub mod kernel;
pub mod launch;
pub mod layout;
pub mod libs;
pub mod llvm;
pub mod lower;
pub mod nest;
mod outline;
pub mod pack;
pub mod pass;
mod reducers;
mod rest;
pub mod rpc;
pub mod schedule;
pub mod space;
mod stack;
pub mod target;
pub mod tasks;
pub mod tensor;
pub mod tensorize;
pub mod threads;
pub mod trace;
mod unroll;
mod unscheduled;
pub mod vm;

pub use compile::{Compiled, StageTimes, compile};
pub use device::{Device, DeviceKind};
pub use dtype::DType;
pub use error::{Error, Result};
pub use inspect::BlockInfo;
pub use ir::{IrModule, PrimFunc};
pub use kernel::{Kernel, KernelModule, PreparedCall};
pub use launch::KernelLaunch;
pub use libs::Libraries;
pub use schedule::{Block, Loop, Schedule};
pub use space::DesignSpace;
pub use target::Target;
pub use tensor::Tensor;
pub use trace::Trace;
pub use vm::VirtualMachine;
