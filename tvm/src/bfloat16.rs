//! Makes TVM's passes keep bfloat16 for GPUs that support it.
//!
//! By default they compute in single precision and store integers of 16 bits. That is right everywhere, and keeps sums
//! of bfloat16 more exact than the type is. Tensor cores have no fragments of such integers. For programs with
//! fragments of bfloat16, this module answers the passes' query of TVM's Python package: the GPU supports the type.

use std::cell::Cell;

use tvm_ffi::Any;

use crate::call::register as register_global;
use crate::dtype::DType;
use crate::error::Result;
use crate::fragments::has_fragments;
use crate::ir::IrModule;

thread_local! {
    /// Whether the passes that run on this thread keep it.
    static KEPT: Cell<bool> = const { Cell::new(false) };
}

/// Registers the functions that TVM's passes call: for the compute capability of a target, and for whether that one has
/// bfloat16.
///
/// # Errors
/// Fails if something else has registered these functions.
pub(crate) fn register() -> Result<()> {
    register_global("tvm.support.nvcc.get_compute_version", |_| {
        // TVM passes this value only to the function below.
        Ok(Any::from(tvm_ffi::String::from("8.0")))
    })?;
    register_global("tvm.support.nvcc.supports_bf16", |_| {
        Ok(Any::from(KEPT.get()))
    })
}

/// While it lives, passes on this thread keep bfloat16 if the module has fragments of it.
pub(crate) struct Guard(());

impl Guard {
    /// Keeps the types of a module that is not lowered yet.
    ///
    /// # Errors
    /// Fails if TVM does.
    pub fn for_module(module: &IrModule) -> Result<Guard> {
        KEPT.set(has_fragments(module, |of| of == Some(DType::BFloat16))?);
        Ok(Guard(()))
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        KEPT.set(false);
    }
}
