//! Kineto from Rust: the functions of `kineto.cpp`, made safe.

use std::ffi::{CStr, CString, c_char, c_void};
use std::path::Path;

use anyhow::Context as _;
use optorch::protocol::{Detail, Event, What};

/// Layout of `OptorchEvent` in kineto.cpp.
#[repr(C)]
struct RawEvent {
    name: *const c_char,
    start_ns: u64,
    duration_ns: u64,
    thread: u64,
    bytes: i64,
    correlation: u64,
    what: u8,
    extents: *const i64,
    ranks: *const usize,
    tensors: usize,
    modules: *const *const c_char,
    module_count: usize,
    flops: u64,
}

unsafe extern "C" {
    fn optorch_start(shapes: bool, memory: bool, modules: bool) -> *mut c_char;
    fn optorch_stop(
        trace: *const c_char,
        context: *mut c_void,
        each: extern "C" fn(*mut c_void, *const RawEvent),
    ) -> *mut c_char;
    fn optorch_begin(name: *const c_char) -> *mut c_void;
    fn optorch_end(slice: *mut c_void);
    fn optorch_version() -> *const c_char;
    fn optorch_free(message: *mut c_char);
}

/// A recording under way, of this thread.
pub struct Recording(());

/// Begins to record.
///
/// # Errors
/// Errors of Kineto.
pub fn start(detail: Detail) -> anyhow::Result<Recording> {
    // SAFETY: plain values; the message is taken over by `done`.
    done(unsafe { optorch_start(detail.shapes, detail.memory, detail.modules) })?;
    Ok(Recording(()))
}

impl Recording {
    /// Ends the recording and returns everything that was seen. The trace goes to a file if one is named.
    ///
    /// # Errors
    /// Fails if Kineto does, or if the file's name cannot be passed on.
    pub fn stop(self, trace: Option<&Path>) -> anyhow::Result<Vec<Event>> {
        let path = trace.map(|path| CString::new(path.as_os_str().as_encoded_bytes()));
        let path = path.transpose().context("the name of the trace's file")?;
        let pointer = path.as_ref().map_or(std::ptr::null(), |path| path.as_ptr());
        let mut events: Vec<Event> = Vec::new();
        let context = (&raw mut events).cast();
        // SAFETY: `pointer` is null or a string that outlives the call. `take` casts `context` back to its type. Both
        // are used only until the call returns.
        done(unsafe { optorch_stop(pointer, context, take) })?;
        Ok(events)
    }
}

/// A slice around a run, until it is dropped.
pub struct Slice(*mut c_void);

impl Slice {
    /// Begins one.
    pub fn begin(name: &str) -> Slice {
        let name = CString::new(name).unwrap_or_default();
        // SAFETY: the name is copied before the call returns.
        Slice(unsafe { optorch_begin(name.as_ptr()) })
    }
}

impl Drop for Slice {
    fn drop(&mut self) {
        // SAFETY: the pointer is of `optorch_begin` and ends here once.
        unsafe { optorch_end(self.0) }
    }
}

/// Version of libtorch.
pub fn version() -> String {
    // SAFETY: a literal of kineto.cpp.
    string(unsafe { optorch_version() })
}

/// The error in a message, if there is one.
fn done(message: *mut c_char) -> anyhow::Result<()> {
    if message.is_null() {
        return Ok(());
    }
    // SAFETY: not null, so it is a string of kineto.cpp that is ours to free.
    let text = unsafe {
        let text = CStr::from_ptr(message).to_string_lossy().into_owned();
        optorch_free(message);
        text
    };
    anyhow::bail!("{text}")
}

/// Copies an event.
extern "C" fn take(context: *mut c_void, event: *const RawEvent) {
    // SAFETY: `stop` passes its list, and kineto.cpp an event that lives until this returns.
    let (events, raw) = unsafe { (&mut *context.cast::<Vec<Event>>(), &*event) };
    // SAFETY: the lengths are those of the arrays, as kineto.cpp fills them; empty arrays may have any pointer.
    let (ranks, modules) = unsafe {
        (
            array(raw.ranks, raw.tensors),
            array(raw.modules, raw.module_count),
        )
    };
    // SAFETY: the number of extents is the sum of the ranks.
    let mut extents = unsafe { array(raw.extents, ranks.iter().sum()) };
    let shapes = ranks.iter().map(|&rank| {
        let (shape, rest) = extents.split_at(rank);
        extents = rest;
        shape.to_vec()
    });
    events.push(Event {
        shapes: shapes.collect(),
        name: string(raw.name),
        what: match raw.what {
            0 => What::Operator,
            2 => What::Memory,
            3 => What::Kernel,
            _ => What::Function,
        },
        start_ns: raw.start_ns,
        duration_ns: raw.duration_ns,
        thread: raw.thread,
        modules: modules.iter().map(|&name| string(name)).collect(),
        bytes: raw.bytes,
        correlation: raw.correlation,
        flops: raw.flops,
    });
}

/// # Safety
/// `pointer` has `length` elements, or `length` is 0.
unsafe fn array<'a, T>(pointer: *const T, length: usize) -> &'a [T] {
    match length {
        0 => &[],
        // SAFETY: the caller's word.
        _ => unsafe { std::slice::from_raw_parts(pointer, length) },
    }
}

fn string(pointer: *const c_char) -> String {
    // SAFETY: kineto.cpp passes strings that live until the call returns.
    unsafe { CStr::from_ptr(pointer) }
        .to_string_lossy()
        .into_owned()
}
