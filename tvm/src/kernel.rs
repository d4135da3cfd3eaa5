//! Compiled functions in memory, and calling them with tensors.
//!
//! A call costs some tens of nanoseconds beyond the kernel itself. Whether arguments are checked is decided when a
//! module is compiled ([`crate::compile::Asserts`]).

use std::path::Path;

use tvm_ffi::{AnyView, Function};

use crate::call::{Obj, call, module_function, text};
use crate::error::{Error, Result};
use crate::libs::Libraries;
use crate::tensor::Tensor;

/// A module of compiled functions; functions keep it alive.
#[derive(Debug, Clone)]
pub struct KernelModule {
    pub(crate) handle: Obj,
}

impl KernelModule {
    /// Loads a shared library of compiled kernels; TVM's runtime is enough for it.
    ///
    /// # Errors
    /// There is none, or it is no such library.
    pub fn load(library: &Path) -> Result<KernelModule> {
        Libraries::load_runtime()?;
        let path = text(&library.to_string_lossy());
        let handle = call("ffi.ModuleLoadFromFile", &[&path])?;
        Ok(KernelModule { handle })
    }

    /// The function with this exported symbol; compiled to machine code at the first request.
    ///
    /// # Errors
    /// There is none.
    pub fn function(&self, name: &str) -> Result<Kernel> {
        Ok(Kernel {
            function: module_function(&self.handle, name)?,
            name: name.to_owned(),
            _module: self.handle.clone(),
        })
    }
}

/// One compiled function.
#[derive(Clone)]
pub struct Kernel {
    function: Function,
    name: String,
    /// The function's machine code lives in its module.
    _module: Obj,
}

// SAFETY: a packed function of generated code holds no thread-bound state; TVM itself calls them from pool threads.
unsafe impl Send for Kernel {}

impl std::fmt::Debug for Kernel {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Kernel({})", self.name)
    }
}

impl Kernel {
    /// Prepares a call with these arguments, outputs last.
    pub fn bind<'a>(&'a self, arguments: &'a [Tensor]) -> BoundKernel<'a> {
        BoundKernel {
            kernel: self,
            views: arguments.iter().map(|t| AnyView::from(&t.handle)).collect(),
        }
    }
}

/// A kernel with its arguments laid out, so that a call is nothing but the call.
pub struct BoundKernel<'a> {
    kernel: &'a Kernel,
    views: Vec<AnyView<'a>>,
}

impl BoundKernel<'_> {
    /// Runs the kernel once.
    ///
    /// # Errors
    /// The kernel reported one (a failed assertion, out of memory).
    #[inline]
    pub fn call(&self) -> Result<()> {
        match self.kernel.function.call_packed(&self.views) {
            Ok(_) => Ok(()),
            Err(e) => Err(Error::from_tvm(&self.kernel.name, &e)),
        }
    }
}
