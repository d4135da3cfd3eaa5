//! What the threads of TVM's pool do: begin and end of every task of the kernels' parallel loops.
//!
//! Compiled kernels start parallel loops through `TVMBackendParallelLaunch`, whose address they are given when they are
//! loaded. [`install`] has kernels that are loaded later call a function here instead, which passes the loop on and, only
//! while [`record`] says so, takes the time of each task on its thread.

use std::cell::RefCell;
use std::ffi::c_void;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, OnceLock};
use std::time::Instant;

use tvm_ffi::tvm_ffi_sys::TVMFFIEnvModRegisterContextSymbol;

use crate::error::{Error, Result};
use crate::libs::Libraries;

/// The function, and the variable of a kernel that holds its address.
const NAME: &std::ffi::CStr = c"TVMBackendParallelLaunch";
const VARIABLE: &std::ffi::CStr = c"__TVMBackendParallelLaunch";

/// `TVMParallelGroupEnv` of TVM's `c_backend_api.h`.
#[repr(C)]
pub(crate) struct Group {
    sync_handle: *mut c_void,
    /// Tasks of the loop.
    pub num_task: i32,
}

/// `FTVMParallelLambda` of the same header.
pub(crate) type TaskFunction = unsafe extern "C" fn(i32, *const Group, *const c_void) -> i32;
/// The type of `TVMBackendParallelLaunch`.
pub(crate) type Launch = unsafe extern "C" fn(TaskFunction, *const c_void, i32) -> i32;

/// One task of a parallel loop.
#[derive(Debug, Clone, Copy)]
pub struct Task {
    /// Its number, which is that of the pool's thread that ran it; 0 is the caller's.
    pub thread: u32,
    /// When it began.
    pub begin: Instant,
    /// When it ended.
    pub end: Instant,
}

static RECORDING: AtomicBool = AtomicBool::new(false);

thread_local! {
    /// Tasks of the loops that this thread has started.
    static TASKS: RefCell<Vec<Task>> = const { RefCell::new(Vec::new()) };
}

/// TVM's own function.
///
/// # Errors
/// TVM cannot be loaded, or has no such function.
pub(crate) fn parallel_launch() -> Result<Launch> {
    Libraries::load()?;
    // SAFETY: the name is a C string; the libraries were loaded for the whole process.
    let found = unsafe { libc::dlsym(libc::RTLD_DEFAULT, NAME.as_ptr()) };
    if found.is_null() {
        let reason = "TVM has no parallel launch";
        return Err(Error::unexpected("TVMBackendParallelLaunch", reason));
    }
    // SAFETY: this is the function's type in TVM's `c_backend_api.h`.
    Ok(unsafe { std::mem::transmute::<*mut c_void, Launch>(found) })
}

static ORIGINAL: OnceLock<Launch> = OnceLock::new();

/// Has the parallel loops of kernels that are loaded from now on go through here.
///
/// # Errors
/// TVM cannot be loaded or refuses.
pub fn install() -> Result<()> {
    if ORIGINAL.get().is_some() {
        return Ok(());
    }
    let original = parallel_launch()?;
    let own: Launch = launch;
    ORIGINAL.get_or_init(|| original);
    // SAFETY: the name is a C string and the function has the type that kernels expect under it; a later registration goes
    // before an earlier one.
    let code = unsafe { TVMFFIEnvModRegisterContextSymbol(VARIABLE.as_ptr(), own as *mut c_void) };
    match code {
        0 => Ok(()),
        _ => Err(Error::unexpected(
            "TVMFFIEnvModRegisterContextSymbol",
            "it failed",
        )),
    }
}

/// Whether tasks are recorded from now on.
pub fn record(on: bool) {
    RECORDING.store(on, Ordering::Relaxed);
}

/// The tasks recorded of this thread's loops since the last call.
pub fn take() -> Vec<Task> {
    TASKS.with(|tasks| std::mem::take(&mut *tasks.borrow_mut()))
}

/// A loop that is being recorded.
struct Recorded {
    task: TaskFunction,
    data: *const c_void,
    times: Mutex<Vec<Task>>,
}

unsafe extern "C" fn launch(task: TaskFunction, data: *const c_void, tasks: i32) -> i32 {
    let Some(original) = ORIGINAL.get() else {
        return -1;
    };
    if !RECORDING.load(Ordering::Relaxed) {
        // SAFETY: the caller's arguments, as they are.
        return unsafe { original(task, data, tasks) };
    }
    let recorded = Recorded {
        task,
        data,
        times: Mutex::new(Vec::with_capacity(tasks.max(8) as usize)),
    };
    // SAFETY: what is shared outlives the launch, which returns when all tasks have ended.
    let code = unsafe { original(timed, std::ptr::from_ref(&recorded).cast(), tasks) };
    if let Ok(times) = recorded.times.into_inner() {
        let _ = TASKS.try_with(|tasks| tasks.borrow_mut().extend(times));
    }
    code
}

unsafe extern "C" fn timed(number: i32, group: *const Group, recorded: *const c_void) -> i32 {
    // SAFETY: TVM passes back the pointer given in `launch`.
    let recorded = unsafe { &*recorded.cast::<Recorded>() };
    let begin = Instant::now();
    // SAFETY: the kernel's own task with its own data, as TVM would call it.
    let code = unsafe { (recorded.task)(number, group, recorded.data) };
    let end = Instant::now();
    if let Ok(mut times) = recorded.times.lock() {
        let thread = number.max(0) as u32;
        times.push(Task { thread, begin, end });
    }
    code
}
