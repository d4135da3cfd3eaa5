//! Functions in memory, compiled by TVM or written in Rust, and calling them with tensors.
//!
//! A call costs some tens of nanoseconds beyond the kernel itself. Whether arguments are checked is decided when a
//! module is compiled ([`crate::compile::Asserts`]).

use std::path::Path;

use tvm_ffi::{Any, AnyView, Function};

use crate::call::{Obj, call, module_function, packed, text};
use crate::error::{Error, Result};
use crate::libs::Libraries;
use crate::tensor::Tensor;

/// A module of functions; functions keep it alive.
#[derive(Debug, Clone)]
pub struct KernelModule {
    /// The compiled functions. `None` if all are native.
    pub(crate) handle: Option<Obj>,
    natives: Vec<Kernel>,
}

impl KernelModule {
    /// Loads a shared library of compiled kernels; TVM's runtime is enough for it.
    ///
    /// # Errors
    /// Fails if there is no file, or if it is not such a library.
    pub fn load(library: &Path) -> Result<KernelModule> {
        Libraries::load_runtime()?;
        let path = text(&library.to_string_lossy());
        let handle = call("ffi.ModuleLoadFromFile", &[&path])?;
        Ok(KernelModule::compiled(handle))
    }

    pub(crate) fn compiled(handle: Obj) -> KernelModule {
        KernelModule {
            handle: Some(handle),
            natives: Vec::new(),
        }
    }

    /// Writes compiled functions as an object file.
    ///
    /// # Errors
    /// Fails if there are no compiled functions, or if the file cannot be written.
    pub(crate) fn write_object(&self, file: &Path) -> Result<()> {
        let missing = || Error::unexpected("KernelModule::write_object", "nothing compiled");
        let handle = self.handle.as_ref().ok_or_else(missing)?;
        let path = text(&file.to_string_lossy());
        call("ffi.ModuleWriteToFile", &[handle, &path, &text("o")]).map(drop)
    }

    /// Functions written in Rust, by their names, beside the compiled ones of `module`, if any.
    pub fn with_natives(module: Option<KernelModule>, natives: Vec<Kernel>) -> KernelModule {
        KernelModule {
            handle: module.and_then(|module| module.handle),
            natives,
        }
    }

    /// The native functions with their names.
    pub(crate) fn natives(&self) -> impl Iterator<Item = (String, Function)> + '_ {
        self.natives
            .iter()
            .map(|kernel| (kernel.name.clone(), kernel.function.clone()))
    }

    /// The function with this exported symbol; compiled to machine code at the first request.
    ///
    /// # Errors
    /// Fails if there is none.
    pub fn function(&self, name: &str) -> Result<Kernel> {
        if let Some(native) = self.natives.iter().find(|kernel| kernel.name == name) {
            return Ok(native.clone());
        }
        let missing =
            || Error::unexpected("KernelModule::function", format!("no function `{name}`"));
        let handle = self.handle.as_ref().ok_or_else(missing)?;
        Ok(Kernel {
            function: module_function(handle, name)?,
            name: name.to_owned(),
            _module: handle.clone(),
        })
    }
}

/// One function.
#[derive(Clone)]
pub struct Kernel {
    function: Function,
    name: String,
    /// The function's machine code lives in its module.
    _module: Obj,
}

// SAFETY: a packed function of generated code holds no thread-bound state, and a native one is `Send`; TVM itself calls
// them from pool threads.
unsafe impl Send for Kernel {}

impl std::fmt::Debug for Kernel {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Kernel({})", self.name)
    }
}

impl Kernel {
    /// A function written in Rust, which is given its arguments, outputs last. An error, or a panic, becomes TVM's error.
    pub fn native(
        name: &str,
        function: impl Fn(&mut [Tensor]) -> std::result::Result<(), String> + Send + 'static,
    ) -> Kernel {
        let own = name.to_owned();
        let called = move |arguments: &[AnyView<'_>]| {
            let tensors = arguments.iter().map(Tensor::of_argument);
            let mut tensors = tensors
                .collect::<Option<Vec<Tensor>>>()
                .ok_or_else(|| format!("an argument of {own} is no tensor"))?;
            function(&mut tensors)?;
            Ok(Any::default())
        };
        Kernel {
            function: packed(name.to_owned(), called),
            name: name.to_owned(),
            _module: Obj::default(),
        }
    }

    /// The kernel with these arguments, outputs last, for whoever runs it later.
    pub fn prepare(self, arguments: Vec<Tensor>) -> PreparedCall {
        PreparedCall {
            kernel: self,
            arguments,
        }
    }

    pub(crate) fn into_function(self) -> Function {
        self.function
    }

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
    /// Fails if the kernel reported one (a failed assertion, out of memory).
    #[inline]
    pub fn call(&self) -> Result<()> {
        match self.kernel.function.call_packed(&self.views) {
            Ok(_) => Ok(()),
            Err(e) => Err(Error::from_tvm(&self.kernel.name, &e)),
        }
    }
}

/// A kernel that owns its arguments, so that any thread can run it.
#[derive(Debug)]
pub struct PreparedCall {
    kernel: Kernel,
    arguments: Vec<Tensor>,
}

// SAFETY: kernels are re-entrant, and TVM's objects count their references atomically. Two calls at the same time must
// not write what the other uses. A caller on several threads checks the order of their dependencies first.
unsafe impl Send for PreparedCall {}
// SAFETY: as above.
unsafe impl Sync for PreparedCall {}

impl PreparedCall {
    /// Runs the kernel once.
    ///
    /// # Errors
    /// As for [`BoundKernel::call`].
    pub fn run(&self) -> Result<()> {
        self.kernel.bind(&self.arguments).call()
    }
}
