//! libpapi, opened at run time: its possible paths, the version of its interface, and the calls used. It is not linked,
//! so a machine without PAPI runs the same program.

use std::ffi::{CStr, CString, c_char, c_int, c_long, c_longlong, c_ulong, c_void};
use std::sync::OnceLock;

use libloading::{Library, Symbol};

use crate::measure::counters::CounterError;

/// Variable with the path of a libpapi that replaces the default ones.
const VARIABLE: &str = "OPBENCH_LIBPAPI";

/// Names for the dynamic loader. The first exists only with the developer package.
const NAMES: [&str; 9] = [
    "libpapi.so",
    "libpapi.so.7.3",
    "libpapi.so.7.2",
    "libpapi.so.7.1",
    "libpapi.so.7.0",
    "libpapi.so.7",
    "libpapi.so.6.0",
    "libpapi.so.6",
    "libpapi.so.5.7",
];

/// Versions of the interface, newest first: a library takes its own and no other.
const VERSIONS: [(u8, u8); 8] = [
    (7, 4),
    (7, 3),
    (7, 2),
    (7, 1),
    (7, 0),
    (6, 0),
    (5, 8),
    (5, 7),
];

/// Return value of PAPI's calls on success.
pub(super) const OK: c_int = 0;
/// The events cannot be counted together.
pub(super) const CONFLICT: c_int = -8;
/// The event does not exist.
const NO_EVENT: c_int = -7;
/// The component cannot do this.
const COMPONENT_CANNOT: [c_int; 3] = [-4, -18, -19];
/// Offset of `disabled_reason` in `PAPI_component_info_t`: after name (128), short name (64), description (128), and
/// three versions (64 each). It is the same in `papi.h` of 5.7, 6.0, 7.0 and 7.3.
const DISABLED_REASON: usize = 512;
/// PAPI's value for "no event set".
const NO_SET: c_int = -1;

/// An error code of PAPI's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Code(pub c_int);

impl Code {
    /// Whether the event does not exist here.
    pub fn is_no_event(self) -> bool {
        self.0 == NO_EVENT
    }

    /// Whether the component lacks this capability.
    pub fn is_incapable(self) -> bool {
        COMPONENT_CANNOT.contains(&self.0)
    }
}

/// A set of events; PAPI's handle.
pub(super) type Set = c_int;

/// The part of PAPI that is used: the library, or a test's replacement.
pub(super) trait Api: Sync {
    /// Version of its interface.
    fn version(&self) -> (u8, u8);
    /// An error's message, from PAPI.
    fn words(&self, code: Code) -> String;
    /// The code of an event.
    fn event(&self, name: &str) -> Result<c_int, Code>;
    /// The component of an event, with its name.
    fn component(&self, event: c_int) -> Result<(c_int, String), Code>;
    /// The reason, in PAPI's words, why it switched a component off at its start. `None` for a component that works or
    /// is missing.
    fn disabled(&self, component: &str) -> Option<String>;
    /// An empty set for events of a component.
    fn set(&self, component: c_int) -> Result<Set, Code>;
    /// Counts a thread rather than the calling one.
    fn attach(&self, set: Set, thread: libc::pid_t) -> Result<(), Code>;
    /// Adds an event.
    fn add(&self, set: Set, event: c_int) -> Result<(), Code>;
    /// Begins to count from 0.
    fn start(&self, set: Set) -> Result<(), Code>;
    /// Ends counting; `values` has a place for each event.
    fn stop(&self, set: Set, values: &mut [i64]) -> Result<(), Code>;
    /// Frees a set that does not count.
    fn free(&self, set: Set);
}

/// The functions of an opened library. They stay valid: it is never closed.
pub(super) struct Papi {
    version: (u8, u8),
    strerror: unsafe extern "C" fn(c_int) -> *const c_char,
    name_to_code: unsafe extern "C" fn(*const c_char, *mut c_int) -> c_int,
    event_component: unsafe extern "C" fn(c_int) -> c_int,
    component_index: unsafe extern "C" fn(*const c_char) -> c_int,
    component_info: unsafe extern "C" fn(c_int) -> *const c_void,
    create: unsafe extern "C" fn(*mut c_int) -> c_int,
    assign: unsafe extern "C" fn(c_int, c_int) -> c_int,
    attach: unsafe extern "C" fn(c_int, c_ulong) -> c_int,
    add: unsafe extern "C" fn(c_int, c_int) -> c_int,
    start: unsafe extern "C" fn(c_int) -> c_int,
    stop: unsafe extern "C" fn(c_int, *mut c_longlong) -> c_int,
    cleanup: unsafe extern "C" fn(c_int) -> c_int,
    destroy: unsafe extern "C" fn(*mut c_int) -> c_int,
}

/// The library, opened once a process.
///
/// # Errors
/// Fails if it is missing, or cannot be used; the same error at every call.
pub(super) fn papi() -> Result<&'static Papi, CounterError> {
    static PAPI: OnceLock<Result<Papi, CounterError>> = OnceLock::new();
    PAPI.get_or_init(open).as_ref().map_err(Clone::clone)
}

fn open() -> Result<Papi, CounterError> {
    let given = std::env::var(VARIABLE).ok();
    let names: Vec<&str> = match &given {
        Some(path) => vec![path],
        None => NAMES.to_vec(),
    };
    let mut reasons = Vec::new();
    for name in &names {
        // SAFETY: PAPI's initialisers only fill tables of their own.
        match unsafe { Library::new(*name) } {
            // It keeps threads' states and is never closed.
            Ok(library) => return bind(name, Box::leak(Box::new(library))),
            Err(error) => reasons.push(error.to_string()),
        }
    }
    Err(match given {
        Some(path) => CounterError::new(
            "papi",
            format!("{path} cannot be opened: {}", reasons.concat()),
            format!("correct or unset {VARIABLE}"),
        ),
        None => CounterError::new(
            "papi",
            "libpapi is not installed",
            format!(
                "Debian, Ubuntu: apt-get install libpapi7.0 (or libpapi-dev); elsewhere set {VARIABLE} to the path of libpapi.so"
            ),
        ),
    })
}

fn bind(name: &str, library: &'static Library) -> Result<Papi, CounterError> {
    let unfit = |reason: String| {
        CounterError::new(
            "papi",
            format!("{name}: {reason}"),
            format!("use PAPI 5.7 or later, for example by {VARIABLE}"),
        )
    };
    /// Finds a function.
    fn find<T: Copy + 'static>(library: &'static Library, name: &str) -> Result<T, String> {
        // SAFETY: the callers' types are those of `papi.h`, the same from 5.7 to 7.3.
        let found: Result<Symbol<'static, T>, _> = unsafe { library.get(name) };
        found.map(|f| *f).map_err(|_| format!("it has no {name}"))
    }
    let all = || -> Result<Papi, String> {
        let init: unsafe extern "C" fn(c_int) -> c_int = find(library, "PAPI_library_init")?;
        type ThreadId = extern "C" fn() -> c_ulong;
        let threads: unsafe extern "C" fn(ThreadId) -> c_int = find(library, "PAPI_thread_init")?;
        // SAFETY: the call accepts any number and refuses those that are not its version.
        let version = negotiate(|version| unsafe { init(version) })?;
        let papi = Papi {
            version,
            strerror: find(library, "PAPI_strerror")?,
            name_to_code: find(library, "PAPI_event_name_to_code")?,
            event_component: find(library, "PAPI_get_event_component")?,
            component_index: find(library, "PAPI_get_component_index")?,
            component_info: find(library, "PAPI_get_component_info")?,
            create: find(library, "PAPI_create_eventset")?,
            assign: find(library, "PAPI_assign_eventset_component")?,
            attach: find(library, "PAPI_attach")?,
            add: find(library, "PAPI_add_event")?,
            start: find(library, "PAPI_start")?,
            stop: find(library, "PAPI_stop")?,
            cleanup: find(library, "PAPI_cleanup_eventset")?,
            destroy: find(library, "PAPI_destroy_eventset")?,
        };
        // SAFETY: the function stays valid and may be called from any thread.
        match unsafe { threads(thread_id) } {
            OK => Ok(papi),
            code => Err(format!("it refuses threads: {}", papi.words(Code(code)))),
        }
    };
    all().map_err(unfit)
}

/// The calling thread's number in the operating system: PAPI attaches to threads by it.
extern "C" fn thread_id() -> c_ulong {
    // SAFETY: a plain system call without arguments.
    unsafe { libc::gettid() as c_ulong }
}

/// Initialises a library with the version that it takes.
fn negotiate(init: impl Fn(c_int) -> c_int) -> Result<(u8, u8), String> {
    let mut refusal = 0;
    for (major, minor) in VERSIONS {
        let version = (c_int::from(major) << 24) | (c_int::from(minor) << 16);
        match init(version) {
            answer if answer == version => return Ok((major, minor)),
            // Positive is the version that it has.
            answer if answer > 0 => {
                if init(answer) == answer {
                    return Ok(((answer >> 24) as u8, (answer >> 16) as u8));
                }
                refusal = answer;
            }
            answer => refusal = answer,
        }
    }
    let (first, last) = (VERSIONS[VERSIONS.len() - 1], VERSIONS[0]);
    Err(format!(
        "it takes none of the versions {}.{} to {}.{} of its interface (its answer is {refusal})",
        first.0, first.1, last.0, last.1
    ))
}

fn checked(code: c_int) -> Result<(), Code> {
    match code {
        OK => Ok(()),
        code => Err(Code(code)),
    }
}

impl Api for Papi {
    fn version(&self) -> (u8, u8) {
        self.version
    }

    fn words(&self, code: Code) -> String {
        // SAFETY: the call returns null or a constant text.
        let text = unsafe { (self.strerror)(code.0) };
        if text.is_null() {
            return format!("error {}", code.0);
        }
        // SAFETY: as above.
        unsafe { CStr::from_ptr(text) }
            .to_string_lossy()
            .into_owned()
    }

    fn event(&self, name: &str) -> Result<c_int, Code> {
        const INVALID: Code = Code(-1);
        let name = CString::new(name).map_err(|_| INVALID)?;
        let mut event = 0;
        // SAFETY: a C string, and a place for the answer.
        checked(unsafe { (self.name_to_code)(name.as_ptr(), &mut event) })?;
        Ok(event)
    }

    fn component(&self, event: c_int) -> Result<(c_int, String), Code> {
        // SAFETY: the calls take any number.
        let component = unsafe { (self.event_component)(event) };
        if component < 0 {
            return Err(Code(component));
        }
        // SAFETY: as above.
        let info = unsafe { (self.component_info)(component) };
        if info.is_null() {
            return Ok((component, String::new()));
        }
        // SAFETY: the structure begins with the name, an array of characters that ends with a zero.
        let name = unsafe { CStr::from_ptr(info.cast::<c_char>()) };
        Ok((component, name.to_string_lossy().into_owned()))
    }

    fn disabled(&self, component: &str) -> Option<String> {
        let name = CString::new(component).ok()?;
        // SAFETY: a C string; components that are switched off have numbers, too.
        let place = unsafe { (self.component_index)(name.as_ptr()) };
        // SAFETY: the call takes any number and returns null or a structure of the library.
        let info = unsafe { (self.component_info)(place) };
        if info.is_null() {
            return None;
        }
        // SAFETY: the structure is longer, and has an array of characters here that ends with a zero.
        let reason = unsafe { CStr::from_ptr(info.cast::<c_char>().add(DISABLED_REASON)) };
        let reason = reason.to_string_lossy().trim().to_owned();
        (!reason.is_empty()).then_some(reason)
    }

    fn set(&self, component: c_int) -> Result<Set, Code> {
        let mut set = NO_SET;
        // SAFETY: a place for the answer.
        checked(unsafe { (self.create)(&mut set) })?;
        // SAFETY: the set was made just now.
        let assigned = checked(unsafe { (self.assign)(set, component) });
        assigned.inspect_err(|_| self.free(set))?;
        Ok(set)
    }

    fn attach(&self, set: Set, thread: libc::pid_t) -> Result<(), Code> {
        // SAFETY: plain numbers, which the call checks.
        checked(unsafe { (self.attach)(set, c_long::from(thread) as c_ulong) })
    }

    fn add(&self, set: Set, event: c_int) -> Result<(), Code> {
        // SAFETY: plain numbers, which the call checks.
        match unsafe { (self.add)(set, event) } {
            // Positive is how many of several were added.
            code if code >= OK => Ok(()),
            code => Err(Code(code)),
        }
    }

    fn start(&self, set: Set) -> Result<(), Code> {
        // SAFETY: a plain number, which the call checks.
        checked(unsafe { (self.start)(set) })
    }

    fn stop(&self, set: Set, values: &mut [i64]) -> Result<(), Code> {
        // SAFETY: the callers have a place for each event of the set.
        checked(unsafe { (self.stop)(set, values.as_mut_ptr()) })
    }

    fn free(&self, set: Set) {
        let mut set = set;
        // SAFETY: a set that was made and is not used again; the calls check it.
        unsafe {
            (self.cleanup)(set);
            (self.destroy)(&mut set);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_library_takes_its_own_version_and_no_other() {
        for own in [0x0703_0000, 0x0700_0000, 0x0507_0000] {
            let strict = |version| if version == own { version } else { -1 };
            let found = negotiate(strict).unwrap();
            assert_eq!(i32::from(found.0) << 24 | i32::from(found.1) << 16, own);
        }
        // A library that reports its version is believed.
        let telling = |version| {
            if version == 0x0901_0000 {
                version
            } else {
                0x0901_0000
            }
        };
        assert_eq!(negotiate(telling), Ok((9, 1)));
        let error = negotiate(|_| -1).unwrap_err();
        assert!(error.contains("5.7 to 7.4"), "{error}");
    }
}
