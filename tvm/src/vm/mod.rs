//! Whole models on the Relax virtual machine, with a hook around every call where one is wanted.
//!
//! [`generate`] takes a module whose Relax `main` calls TensorIR functions and plans its memory. Linked with kernels
//! that were compiled elsewhere it becomes a [`VirtualMachine`], or a [`WatchedMachine`]. The pass list is that of
//! `tvm.relax` in the wheel (0.27), without the operator legalisation that import has already done.

mod instrument;

pub use instrument::{Call, Moment, TensorFacts};
use instrument::{Hook, with_globals, with_wrappers};

use std::path::{Path, PathBuf};

use tvm_ffi::{Any, AnyView, Function};

use crate::call::{
    Obj, array, boolean, call, int, invoke, map, module_function, none, packed, value,
};
use crate::device::Device;
use crate::error::{Error, Result};
use crate::ir::IrModule;
use crate::kernel::KernelModule;
use crate::pack::{self, DeviceCompiler};
use crate::pass::{Context, make, run, run_all};
use crate::target::Target;
use crate::tensor::Tensor;

const PASSES: [&str; 9] = [
    "relax.transform.RewriteDataflowReshape",
    "relax.transform.ToNonDataflow",
    "relax.transform.RemovePurityChecking",
    "relax.transform.CallTIRRewrite",
    "relax.transform.StaticPlanBlockMemory",
    "relax.transform.LowerAllocTensor",
    "relax.transform.KillAfterLastUse",
    "relax.transform.LowerRuntimeBuiltin",
    "relax.transform.ComputePrimValue",
];

/// The machine's function that runs another one on the inputs set.
pub const RUN: &str = "invoke_stateful";

/// A model being run.
pub struct VirtualMachine {
    module: Obj,
    /// The function that runs it, if not the machine itself.
    run: Option<Function>,
}

/// The parts of a model between its Relax program and a running machine.
pub struct Linked {
    builder: Obj,
    /// Names of the kernels that the program calls.
    symbols: Vec<String>,
}

/// Plans memory and generates the virtual machine's code; the TensorIR functions left are returned to be compiled.
///
/// # Errors
/// Fails if a pass refuses the module.
pub fn generate(module: &IrModule, target: &Target) -> Result<(Linked, IrModule)> {
    let _context = Context::enter(&[])?;
    call("target.TargetEnterScope", &[&target.handle])?;
    let planned = plan(module);
    call("target.TargetExitScope", &[&target.handle])?;
    let builder = call("relax.ExecBuilderCreate", &[])?;
    let rest = IrModule {
        handle: call("relax.VMCodeGen", &[&builder, &planned?])?,
    };
    let functions: Vec<(Obj, Obj)> = rest
        .entries()?
        .into_iter()
        .filter(|(_, f)| crate::ir::is_prim_func(f))
        .collect();
    let kernels = IrModule::of_functions(&functions)?;
    let symbols = kernels.function_names()?;
    Ok((Linked { builder, symbols }, kernels))
}

fn plan(module: &IrModule) -> Result<Obj> {
    let planned = run_all(&PASSES, module.handle.clone())?;
    // Adds shape checks whose errors name the argument.
    let lowered = run(
        &make("relax.transform.VMShapeLower", &[&boolean(true)])?,
        &planned,
    )?;
    run_all(&["relax.transform.AttachGlobalSymbol"], lowered)
}

impl Linked {
    /// Starts a machine whose tensors lie on `device` and whose calls can be watched.
    ///
    /// # Errors
    /// Fails if a kernel is missing, or the device is missing.
    pub fn start_watched(
        &self,
        kernels: &[KernelModule],
        device: Device,
    ) -> Result<WatchedMachine> {
        let hook = Hook::default();
        let executable = call("relax.ExecBuilderGet", &[&self.builder])?;
        // If a kernel is missing, the machine's own error names it.
        let functions = self.symbols.iter().filter_map(|symbol| {
            let kernel = kernels.iter().find_map(|m| m.function(symbol).ok())?;
            Some((symbol.clone(), kernel.into_function()))
        });
        let functions = functions.collect();
        let machine = with_wrappers(&hook, functions, || start(&executable, device))?;
        Ok(WatchedMachine { machine, hook })
    }

    /// Links the compiled kernels and starts a machine whose tensors lie on `device`.
    ///
    /// # Errors
    /// Fails if a kernel is missing, or the device is missing.
    pub fn start(
        self,
        kernels: &[KernelModule],
        target: &Target,
        device: Device,
    ) -> Result<VirtualMachine> {
        let executable = self.link(kernels, target)?;
        let natives = kernels.iter().flat_map(KernelModule::natives).collect();
        with_globals(natives, || start(&executable, device))
    }
}

impl Linked {
    /// Writes the program with its kernels as objects of one shared library into a folder; returns the files. `compile` is
    /// asked for the machine code of a device's kernels, if there are any.
    ///
    /// # Errors
    /// Fails if TVM cannot write for the target, or the folder cannot be written.
    pub fn export(
        self,
        kernels: &[KernelModule],
        target: &Target,
        folder: &Path,
        compile: &mut DeviceCompiler<'_>,
    ) -> Result<Vec<PathBuf>> {
        let mut files = Vec::new();
        for (place, kernels) in kernels.iter().filter(|k| k.handle.is_some()).enumerate() {
            let file = folder.join(format!("kernels{place}.o"));
            kernels.write_object(&file)?;
            files.push(file);
        }
        let executable = self.link(kernels, target)?;
        let file = folder.join("program.o");
        pack::write(&executable, target.host(), compile, &file)?;
        files.push(file);
        Ok(files)
    }

    /// The program with the compiled kernels.
    fn link(self, kernels: &[KernelModule], target: &Target) -> Result<Obj> {
        let handles: Vec<&Obj> = kernels.iter().filter_map(|k| k.handle.as_ref()).collect();
        let (first, others) = match handles[..] {
            [] => (none(), array([])?),
            [first, ref others @ ..] => (first.clone(), array(others.iter().copied())?),
        };
        call(
            "relax.VMLink",
            &[&self.builder, &target.handle, &first, &others, &map([])?],
        )
    }
}

/// Runs a function of a machine by name. The last argument runs it without instrumentation.
pub type RunBy = dyn Fn(&KernelModule, &str, &dyn Fn() -> Result<()>) -> Result<()>;

impl VirtualMachine {
    /// A machine on `device` whose program lies in a library that was loaded there. Its runs are made by `run_by`, which
    /// is given the machine, the function's name and what runs it plainly.
    ///
    /// # Errors
    /// Fails if the library has no program, or the device is missing.
    pub fn of_library(
        library: &KernelModule,
        device: Device,
        run_by: Box<RunBy>,
    ) -> Result<VirtualMachine> {
        let executable = library.handle.clone().unwrap_or_default();
        let machine = start(&executable, device)?;
        let module = KernelModule::compiled(machine.module.clone());
        let plain = module_function(&machine.module, RUN)?;
        let run = packed(RUN.to_owned(), move |arguments| {
            let name = arguments
                .first()
                .and_then(AnyView::try_as::<tvm_ffi::String>);
            let name = name.ok_or("a function's name is expected")?;
            let run = || match plain.call_packed(arguments) {
                Ok(_) => Ok(()),
                Err(error) => Err(Error::from_tvm(RUN, &error)),
            };
            run_by(&module, name.as_str(), &run).map_err(|error| error.to_string())?;
            Ok(Any::default())
        });
        Ok(VirtualMachine {
            run: Some(run),
            ..machine
        })
    }
}

/// Starts a machine, which looks up all functions that it will call.
fn start(executable: &Obj, device: Device) -> Result<VirtualMachine> {
    const LOAD: &str = "vm_load_executable";
    let module = invoke(LOAD, &module_function(executable, LOAD)?, &[])?;
    /// TVM's pooled allocator, as a server would use.
    const POOLED: i64 = 2;
    const INIT: &str = "vm_initialization";
    // Shapes are computed on the host, which must stand among the devices, last.
    let host = Some(Device::cpu()).filter(|_| !device.kind.is_host());
    let arguments: Vec<Obj> = [Some(device), host]
        .into_iter()
        .flatten()
        .flat_map(|d| [int(d.kind.code()), int(d.id.into()), int(POOLED)])
        .collect();
    invoke(
        INIT,
        &module_function(&module, INIT)?,
        &arguments.iter().collect::<Vec<_>>(),
    )?;
    Ok(VirtualMachine { module, run: None })
}

/// A machine that tells a hook of every call that it makes of a kernel or of one of its own functions.
pub struct WatchedMachine {
    /// The machine itself.
    pub machine: VirtualMachine,
    hook: Hook,
}

impl WatchedMachine {
    /// Calls `hook` before and after every call of each later run.
    ///
    /// The hook runs on the thread of the machine and must be quick: it is part of the measurement.
    pub fn watch(&self, hook: impl Fn(&Call<'_>) + 'static) {
        self.hook.set(Some(Box::new(hook)));
    }

    /// Takes the hook out again.
    pub fn unwatch(&self) {
        self.hook.set(None);
    }
}

impl VirtualMachine {
    /// Sets the arguments of the function `name` for [`VirtualMachine::run`].
    ///
    /// # Errors
    /// Fails if number, shapes or types differ from the function's.
    pub fn set_inputs(&self, name: &str, inputs: &[Tensor]) -> Result<()> {
        let mut args = vec![crate::call::text(name)];
        args.extend(inputs.iter().map(|t| Obj(Any::from(t.handle.clone()))));
        self.invoke("set_input", &args.iter().collect::<Vec<_>>())
            .map(drop)
    }

    /// A handle that runs `name` on the inputs set, without looking anything up.
    ///
    /// # Errors
    /// Fails if TVM does.
    pub fn runner(&self, name: &str) -> Result<Runner> {
        Ok(Runner {
            function: match &self.run {
                Some(run) => run.clone(),
                None => module_function(&self.module, RUN)?,
            },
            name: crate::call::text(name),
        })
    }

    /// The outputs of the last run of `name`, in order.
    ///
    /// # Errors
    /// Fails if the function has not run, or returned something else than tensors.
    pub fn outputs(&self, name: &str) -> Result<Vec<Tensor>> {
        let name = crate::call::text(name);
        const ARITY: &str = "get_output_arity";
        let arity: i64 = value(ARITY, self.invoke(ARITY, &[&name])?)?;
        // An arity of -1 means one tensor; else the outputs are a tuple of that length.
        let parts = match arity {
            -1 => vec![self.invoke("get_output", &[&name])?],
            n => (0..n)
                .map(|i| self.invoke("get_output", &[&name, &int(i)]))
                .collect::<Result<_>>()?,
        };
        parts
            .iter()
            .map(|o| {
                Tensor::from_obj(o)
                    .ok_or_else(|| Error::unexpected("get_output", "not a contiguous tensor"))
            })
            .collect()
    }

    fn invoke(&self, name: &str, args: &[&Obj]) -> Result<Obj> {
        invoke(name, &module_function(&self.module, name)?, args)
    }
}

/// Runs one function of a machine again and again.
pub struct Runner {
    function: Function,
    name: Obj,
}

impl Runner {
    /// Runs the function once on the inputs set.
    ///
    /// # Errors
    /// Fails if an operator failed.
    #[inline]
    pub fn run(&self) -> Result<()> {
        invoke(RUN, &self.function, &[&self.name]).map(drop)
    }
}
