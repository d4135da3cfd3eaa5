//! Whether TVM's passes leave bfloat16 as GPUs have it.
//!
//! By default they compute in single precision and store integers of 16 bits, which is right everywhere, and keeps sums of
//! bfloat16 more exact than the type is. Tensor cores have no fragments of such integers: for programs with fragments of
//! bfloat16 the passes are told that the GPU knows the type, by the functions with which they ask TVM's Python package.

use std::cell::Cell;

use tvm_ffi::Any;

use crate::call::{Obj, elements, field, register as register_global};
use crate::dtype::DType;
use crate::error::Result;
use crate::inspect::{any_statement, string};
use crate::ir::{IrModule, type_key};

thread_local! {
    /// Whether the passes that run on this thread keep it.
    static KEPT: Cell<bool> = const { Cell::new(false) };
}

/// Registers what the passes ask: the compute capability of a target, and whether that one has bfloat16.
///
/// # Errors
/// Something else has registered these functions.
pub(crate) fn register() -> Result<()> {
    register_global("tvm.support.nvcc.get_compute_version", |_| {
        // It is only handed on to the function below.
        Ok(Any::from(tvm_ffi::String::from("8.0")))
    })?;
    register_global("tvm.support.nvcc.supports_bf16", |_| {
        Ok(Any::from(KEPT.get()))
    })
}

/// While it lives, passes on this thread keep bfloat16 if the module has fragments of it.
pub(crate) struct Guard(());

impl Guard {
    /// For a module that is not lowered yet.
    ///
    /// # Errors
    /// TVM's.
    pub fn for_module(module: &IrModule) -> Result<Guard> {
        KEPT.set(has_fragments(module)?);
        Ok(Guard(()))
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        KEPT.set(false);
    }
}

/// Whether a block of the module allocates fragments of bfloat16.
fn has_fragments(module: &IrModule) -> Result<bool> {
    any_statement(module, |statement| {
        if type_key(statement) != Some("s_tir.SBlock") {
            return Ok(false);
        }
        for buffer in elements(&field(statement, "alloc_buffers")?)? {
            if is_fragment(&buffer)? {
                return Ok(true);
            }
        }
        Ok(false)
    })
}

fn is_fragment(buffer: &Obj) -> Result<bool> {
    let of_type = field(buffer, "ty")?;
    let dtype = field(&field(&of_type, "dtype")?, "dtype")?;
    let dtype = dtype.0.try_as().and_then(DType::from_dl);
    Ok(dtype == Some(DType::BFloat16)
        && string(&field(&of_type, "storage_scope")?)?.starts_with("wmma."))
}
