//! Begin and end of every task of the kernels' parallel loops, on the threads of TVM's pool.
//!
//! Compiled kernels start parallel loops through `TVMBackendParallelLaunch`, whose address they get when they are
//! loaded. [`install`] makes kernels that are loaded later call a function here instead, which forwards the loop. While
//! [`record`] is on, it takes the time of each task on its thread. Within [`alone`], loops stay on the calling thread.

use std::cell::{Cell, RefCell};
use std::ffi::c_void;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, AtomicUsize, Ordering};

use tvm_ffi::tvm_ffi_sys::TVMFFIEnvModRegisterContextSymbol;

use crate::clock::ticks;
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
    /// When it began, in ticks of [`crate::clock`].
    pub begin: u64,
    /// When it ended.
    pub end: u64,
}

/// Maximum number of tasks of a loop that are recorded; TVM starts one a thread.
const MOST_TASKS: usize = 1024;

/// Where a task leaves its times: a cache line of its own, so that threads do not wait for each other.
#[derive(Default)]
#[repr(align(64))]
struct Slot {
    begin: AtomicU64,
    /// 0 as long as the task has not ended.
    end: AtomicU64,
}

static RECORDING: AtomicBool = AtomicBool::new(false);

thread_local! {
    /// Whether loops of this thread stay on it.
    static ALONE: Cell<bool> = const { Cell::new(false) };
    /// Times of the loop that this thread has started, made once: nothing is allocated while a loop runs.
    static SLOTS: Box<[Slot]> = (0..MOST_TASKS).map(|_| Slot::default()).collect();
    /// Tasks of the loops that this thread has started.
    static TASKS: RefCell<Vec<Task>> = const { RefCell::new(Vec::new()) };
}

/// TVM's own function.
///
/// # Errors
/// Fails if TVM cannot be loaded, or has no such function.
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

/// Makes the parallel loops of kernels that are loaded later go through here.
///
/// # Errors
/// Fails if TVM cannot be loaded or refuses.
pub fn install() -> Result<()> {
    if ORIGINAL.get().is_some() {
        return Ok(());
    }
    let original = parallel_launch()?;
    let own: Launch = launch;
    ORIGINAL.get_or_init(|| original);
    // SAFETY: the name is a C string and the function has the type that kernels expect under it. A later registration
    // replaces an earlier one.
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

/// Does `work` with all parallel loops of its kernels on the calling thread, which may be one of a pool. Kernels that were
/// loaded before [`install`] are not affected.
pub fn alone<T>(work: impl FnOnce() -> T) -> T {
    /// Restores the thread's state, also if `work` panics.
    struct Back(bool);
    impl Drop for Back {
        fn drop(&mut self) {
            ALONE.set(self.0);
        }
    }
    let _back = Back(ALONE.replace(true));
    work()
}

/// Moves the tasks recorded of this thread's loops since the last call to the end of `all`.
pub fn take(all: &mut Vec<Task>) {
    TASKS.with(|tasks| all.append(&mut tasks.borrow_mut()));
}

/// A loop that is being recorded.
struct Recorded<'a> {
    task: TaskFunction,
    data: *const c_void,
    slots: &'a [Slot],
    /// Number of tasks, where the pool decides it.
    tasks: AtomicUsize,
}

unsafe extern "C" fn launch(task: TaskFunction, data: *const c_void, tasks: i32) -> i32 {
    let Some(original) = ORIGINAL.get() else {
        return -1;
    };
    if ALONE.get() {
        let barrier = AtomicI32::new(0);
        let group = Group {
            sync_handle: barrier.as_ptr().cast(),
            num_task: 1,
        };
        // SAFETY: the kernel's own task with its own data, in a group that outlives the call. TVM's launch does the
        // same where it has one thread.
        return unsafe { task(0, &group, data) };
    }
    // SAFETY: the caller's arguments, as they are.
    let plain = || unsafe { original(task, data, tasks) };
    if !RECORDING.load(Ordering::Relaxed) {
        return plain();
    }
    // A thread that is ending has no slots.
    SLOTS
        // SAFETY: the caller's arguments, as they are.
        .try_with(|slots| unsafe { record_launch(*original, task, data, tasks, slots) })
        .unwrap_or_else(|_| plain())
}

/// Launches a loop through [`timed`] and keeps the times of its tasks.
///
/// # Safety
/// `task` may be called with `data` as TVM calls it, until the launch returns.
unsafe fn record_launch(
    original: Launch,
    task: TaskFunction,
    data: *const c_void,
    tasks: i32,
    slots: &[Slot],
) -> i32 {
    let recorded = Recorded {
        task,
        data,
        slots,
        tasks: AtomicUsize::new(0),
    };
    // SAFETY: what is shared outlives the launch, which returns when all tasks have ended.
    let code = unsafe { original(timed, std::ptr::from_ref(&recorded).cast(), tasks) };
    let _ = TASKS.try_with(|tasks| {
        let mut tasks = tasks.borrow_mut();
        let used = recorded.tasks.load(Ordering::Relaxed).min(slots.len());
        for (thread, slot) in (0..).zip(&slots[..used]) {
            let (begin, end) = (&slot.begin, slot.end.swap(0, Ordering::Relaxed));
            if end != 0 {
                let begin = begin.load(Ordering::Relaxed);
                tasks.push(Task { thread, begin, end });
            }
        }
    });
    code
}

unsafe extern "C" fn timed(number: i32, group: *const Group, recorded: *const c_void) -> i32 {
    // SAFETY: TVM passes back the pointer given in `record_launch`.
    let recorded = unsafe { &*recorded.cast::<Recorded>() };
    let begin = ticks();
    // SAFETY: the kernel's own task with its own data, as TVM would call it.
    let code = unsafe { (recorded.task)(number, group, recorded.data) };
    let end = ticks();
    if number == 0 {
        // SAFETY: TVM gives every task its loop's group.
        let tasks = unsafe { (*group).num_task };
        recorded
            .tasks
            .store(tasks.max(0) as usize, Ordering::Relaxed);
    }
    // The launch returns after all tasks have, and TVM's pool orders what they wrote before that.
    if let Some(slot) = recorded.slots.get(number.max(0) as usize) {
        slot.begin.store(begin, Ordering::Relaxed);
        slot.end.store(end, Ordering::Relaxed);
    }
    code
}
