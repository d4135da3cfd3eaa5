//! Timing by events of the GPU, and driving data out of its second-level cache: through CUDA's runtime library.
//!
//! TVM's own timer for CUDA uses the same events, but its methods can only be called from C++. It also counts the time
//! that the first call takes from the host to the GPU ([`super::gate`]).

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::time::{Duration, Instant};

use tvm_bridge::Tensor;

use super::gate::{Closed, Gate, LaunchOnHost};
use super::status::{CudaError, DEFAULT_STREAM, Status, Stream, done};
use crate::measure::caches::Place;
use crate::measure::{Marks, Timer};
use crate::nvidia::dynamic::{Library, NotThere};

type Event = *mut c_void;

/// More than twice the second-level cache of the largest GPU so far (126 MiB).
const FLUSHED_BYTES: usize = 256 << 20;
/// Bytes of the reference kernel's work.
const REFERENCE_BYTES: usize = 64 << 20;

/// The functions of CUDA's runtime that are used here.
#[derive(Clone, Copy)]
pub(super) struct Runtime {
    create: unsafe extern "C" fn(*mut Event) -> Status,
    record: unsafe extern "C" fn(Event, Stream) -> Status,
    wait: unsafe extern "C" fn(Event) -> Status,
    elapsed: unsafe extern "C" fn(*mut f32, Event, Event) -> Status,
    allocate: unsafe extern "C" fn(*mut *mut c_void, usize) -> Status,
    fill: unsafe extern "C" fn(*mut c_void, c_int, usize, Stream) -> Status,
    place: unsafe extern "C" fn(*mut c_char, c_int, c_int) -> Status,
    launch_on_host: LaunchOnHost,
}

impl Runtime {
    /// The functions of an open library.
    ///
    /// # Errors
    /// Fails if one is missing.
    pub fn of(library: Library) -> Result<Runtime, NotThere> {
        // SAFETY: the types are those of the CUDA Runtime API.
        unsafe {
            Ok(Runtime {
                create: library.function(c"cudaEventCreate")?,
                record: library.function(c"cudaEventRecord")?,
                wait: library.function(c"cudaEventSynchronize")?,
                elapsed: library.function(c"cudaEventElapsedTime")?,
                allocate: library.function(c"cudaMalloc")?,
                fill: library.function(c"cudaMemsetAsync")?,
                place: library.function(c"cudaDeviceGetPCIBusId")?,
                launch_on_host: library.function(c"cudaLaunchHostFunc")?,
            })
        }
    }

    /// Place of the first GPU on the PCI bus.
    ///
    /// # Errors
    /// Fails with CUDA's error.
    pub fn bus_id(self) -> Result<CString, CudaError> {
        /// More than a place has: `domain:bus:device.function`.
        const BYTES: usize = 64;
        let mut text = [0 as c_char; BYTES];
        // SAFETY: the text has this many bytes, and the last stays zero.
        done("cudaDeviceGetPCIBusId", unsafe {
            (self.place)(text.as_mut_ptr(), BYTES as c_int - 1, 0)
        })?;
        // SAFETY: as above.
        Ok(unsafe { CStr::from_ptr(text.as_ptr()) }.to_owned())
    }

    fn event(self) -> Result<Event, CudaError> {
        let mut event = std::ptr::null_mut();
        // SAFETY: `event` is valid for writing.
        done("cudaEventCreate", unsafe { (self.create)(&mut event) })?;
        Ok(event)
    }

    /// Puts an event after what was started so far.
    fn record(self, event: Event) -> Result<(), CudaError> {
        // SAFETY: the event was made by this runtime and lives as long as the process.
        done("cudaEventRecord", unsafe {
            (self.record)(event, DEFAULT_STREAM)
        })
    }

    /// Waits until the GPU has passed an event.
    fn wait(self, event: Event) -> Result<(), CudaError> {
        // SAFETY: as above.
        done("cudaEventSynchronize", unsafe { (self.wait)(event) })
    }

    /// Time between two events that the GPU has passed.
    fn between(self, begin: Event, end: Event) -> Result<Duration, CudaError> {
        let mut ms = 0.0f32;
        // SAFETY: `ms` is valid for writing, and events live as long as the process.
        done("cudaEventElapsedTime", unsafe {
            (self.elapsed)(&mut ms, begin, end)
        })?;
        Ok(Duration::from_secs_f64(f64::from(ms.max(0.0)) / 1e3))
    }
}

/// Times calls between two events on the default stream. The GPU reaches the first event only when all calls are queued.
pub(super) struct EventTimer {
    runtime: Runtime,
    gate: Gate,
    begin: Event,
    end: Event,
}

impl EventTimer {
    /// Makes the events.
    ///
    /// # Errors
    /// Errors of CUDA.
    pub fn new(runtime: Runtime) -> Result<EventTimer, CudaError> {
        Ok(EventTimer {
            runtime,
            gate: Gate::new(runtime.launch_on_host),
            begin: runtime.event()?,
            end: runtime.event()?,
        })
    }

    fn try_time(&mut self, calls: &mut dyn FnMut()) -> Result<Duration, CudaError> {
        let closed = self.gate.close()?;
        self.runtime.record(self.begin)?;
        calls();
        self.runtime.record(self.end)?;
        drop(closed);
        self.runtime.wait(self.end)?;
        self.runtime.between(self.begin, self.end)
    }

    /// Ends the process if CUDA is in an error state that only a new process leaves.
    pub fn check(&mut self) {
        self.time(0, &mut || {});
    }

    /// The runtime that the events are made with.
    pub fn runtime(&self) -> Runtime {
        self.runtime
    }
}

impl Timer for EventTimer {
    fn time(&mut self, _number: u32, calls: &mut dyn FnMut()) -> Duration {
        self.try_time(calls).unwrap_or_else(|error| end(&error))
    }
}

/// Ends the process, because a CUDA error is sticky: every later measurement would be worthless. The parent starts another
/// worker, and the reason is in its log.
fn end(error: &CudaError) -> ! {
    eprintln!("{error}");
    std::process::abort()
}

/// Events between the kernels of a whole model, which the GPU passes without waiting for the host.
pub(super) struct EventMarks {
    runtime: Runtime,
    gate: Gate,
    /// The closed gate, from the first mark until the times are taken.
    closed: Option<Closed>,
    /// Events made so far; they are used again in the next run.
    events: Vec<Event>,
    used: usize,
}

impl EventMarks {
    /// Marks of a runtime, without events.
    pub fn new(runtime: Runtime) -> EventMarks {
        EventMarks {
            runtime,
            gate: Gate::new(runtime.launch_on_host),
            closed: None,
            events: Vec::new(),
            used: 0,
        }
    }

    fn try_mark(&mut self) -> Result<(), CudaError> {
        if self.used == 0 {
            self.closed = Some(self.gate.close()?);
        }
        if self.used == self.events.len() {
            self.events.push(self.runtime.event()?);
        }
        let event = self.events[self.used];
        self.used += 1;
        self.runtime.record(event)
    }

    fn try_take(&mut self) -> Result<Vec<Duration>, CudaError> {
        self.closed = None;
        let passed = &self.events[..std::mem::take(&mut self.used)];
        let (Some(&first), Some(&last)) = (passed.first(), passed.last()) else {
            return Ok(Vec::new());
        };
        self.runtime.wait(last)?;
        let since = |&event: &Event| self.runtime.between(first, event);
        passed.iter().map(since).collect()
    }
}

impl Marks for EventMarks {
    fn mark(&mut self) {
        self.try_mark().unwrap_or_else(|error| end(&error));
    }

    fn take(&mut self) -> Vec<Duration> {
        self.try_take().unwrap_or_else(|error| end(&error))
    }
}

/// Device memory of this module's own, kept until the process ends.
struct Scratch {
    runtime: Runtime,
    memory: *mut c_void,
    bytes: usize,
    /// The value of the next fill.
    value: c_int,
}

impl Scratch {
    fn new(runtime: Runtime, bytes: usize) -> Result<Scratch, CudaError> {
        let mut memory = std::ptr::null_mut();
        // SAFETY: `memory` is valid for writing.
        done("cudaMalloc", unsafe {
            (runtime.allocate)(&mut memory, bytes)
        })?;
        Ok(Scratch {
            runtime,
            memory,
            bytes,
            value: 0,
        })
    }

    fn fill(&mut self) -> Result<(), CudaError> {
        self.value ^= 1;
        // SAFETY: the memory has this many bytes and is not freed.
        let status =
            unsafe { (self.runtime.fill)(self.memory, self.value, self.bytes, DEFAULT_STREAM) };
        done("cudaMemsetAsync", status)
    }
}

/// Writes more memory than the second-level cache holds, on the stream of the kernels and so before the next one. The first
/// flush allocates that memory, because most runs need none.
pub(super) struct Flusher {
    runtime: Runtime,
    scratch: Option<Scratch>,
}

impl Flusher {
    /// A flusher without memory: the first flush allocates it.
    pub fn new(runtime: Runtime) -> Flusher {
        Flusher {
            runtime,
            scratch: None,
        }
    }

    fn flush(&mut self) -> Result<(), CudaError> {
        let scratch = match &mut self.scratch {
            Some(scratch) => scratch,
            none => none.insert(Scratch::new(self.runtime, FLUSHED_BYTES)?),
        };
        scratch.fill()
    }
}

impl Place for Flusher {
    fn place(&mut self, _tensors: &[Tensor]) -> tvm_bridge::Result<()> {
        let failed = |error: CudaError| tvm_bridge::Error::Unexpected {
            call: "flushing the cache".to_owned(),
            reason: error.to_string(),
        };
        self.flush().map_err(failed)
    }
}

/// A fixed piece of work whose time tells how fast the GPU is at the moment: filling memory.
pub(super) struct ReferenceKernel {
    scratch: Scratch,
    /// The shortest time so far.
    best: Option<Duration>,
}

/// Fills in a reading; the fastest one counts.
const FILLS: usize = 8;
/// A GPU without work lowers its clocks. Raising them again takes up to this time.
const WAKING: Duration = Duration::from_millis(200);
/// Readings closer to the best than this are of a GPU that is awake.
const AWAKE: f64 = 1.02;

impl ReferenceKernel {
    /// Allocates the memory and takes readings until the clocks are up.
    ///
    /// # Errors
    /// Fails with CUDA's error.
    pub fn new(runtime: Runtime, timer: &mut EventTimer) -> Result<ReferenceKernel, CudaError> {
        let mut reference_kernel = ReferenceKernel {
            scratch: Scratch::new(runtime, REFERENCE_BYTES)?,
            best: None,
        };
        let begun = Instant::now();
        while begun.elapsed() < WAKING {
            reference_kernel.read(timer);
        }
        Ok(reference_kernel)
    }

    /// Time of the work now over its best so far, at least 1.
    pub fn slowdown(&mut self, timer: &mut EventTimer) -> f64 {
        let begun = Instant::now();
        loop {
            let slowdown = self.read(timer);
            if slowdown <= AWAKE || begun.elapsed() >= WAKING {
                return slowdown;
            }
        }
    }

    /// Takes a reading, and divides it by the best so far. The best includes this reading.
    fn read(&mut self, timer: &mut EventTimer) -> f64 {
        let scratch = &mut self.scratch;
        let mut fill = || {
            timer.time(1, &mut || {
                // If the fill fails, the next call of the runtime reports the error.
                let _ = scratch.fill();
            })
        };
        let now = (1..FILLS).fold(fill(), |shortest, _| shortest.min(fill()));
        let best = self.best.map_or(now, |best| best.min(now));
        self.best = Some(best);
        now.as_secs_f64() / best.as_secs_f64().max(f64::MIN_POSITIVE)
    }
}
