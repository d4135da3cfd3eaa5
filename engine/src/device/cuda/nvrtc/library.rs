//! NVRTC's functions.

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::ptr::{null, null_mut};

use anyhow::{Context as _, bail};

use super::toolkit::Toolkit;
use crate::nvidia::dynamic;

type Program = *mut c_void;
type Status = c_int;
type Version = unsafe extern "C" fn(*mut c_int, *mut c_int) -> Status;
type Create = unsafe extern "C" fn(
    *mut Program,
    *const c_char,
    *const c_char,
    c_int,
    *const *const c_char,
    *const *const c_char,
) -> Status;
type Compile = unsafe extern "C" fn(Program, c_int, *const *const c_char) -> Status;
type Size = unsafe extern "C" fn(Program, *mut usize) -> Status;
type Bytes = unsafe extern "C" fn(Program, *mut c_char) -> Status;
type Destroy = unsafe extern "C" fn(*mut Program) -> Status;
type Message = unsafe extern "C" fn(Status) -> *const c_char;

/// The functions of the library that compiling needs.
pub(super) struct Library {
    version: Version,
    create: Create,
    compile: Compile,
    log_size: Size,
    log: Bytes,
    cubin_size: Size,
    cubin: Bytes,
    destroy: Destroy,
    message: Message,
}

/// The result of a compilation.
pub(super) struct Output {
    /// Messages of the compiler and the assembler.
    pub log: String,
    /// The machine code, or the compiler's name for the fault.
    pub cubin: Result<Vec<u8>, String>,
}

impl Library {
    /// Opens the library of a toolkit; it stays open until the process ends.
    ///
    /// # Errors
    /// Fails if it cannot be loaded, or is not NVRTC.
    pub fn open(toolkit: &Toolkit) -> anyhow::Result<Library> {
        // NVRTC asks the loader for it by name, which finds it once it is there.
        if let Some(builtins) = toolkit.builtins() {
            dynamic::Library::open(&builtins)?;
        }
        let path = toolkit.library().context("the toolkit has no NVRTC")?;
        let library = dynamic::Library::open(&path)?;
        // SAFETY: each type is that of the function in NVRTC's documentation, the same in versions 12 and 13.
        unsafe {
            Ok(Library {
                version: library.function(c"nvrtcVersion")?,
                create: library.function(c"nvrtcCreateProgram")?,
                compile: library.function(c"nvrtcCompileProgram")?,
                log_size: library.function(c"nvrtcGetProgramLogSize")?,
                log: library.function(c"nvrtcGetProgramLog")?,
                cubin_size: library.function(c"nvrtcGetCUBINSize")?,
                cubin: library.function(c"nvrtcGetCUBIN")?,
                destroy: library.function(c"nvrtcDestroyProgram")?,
                message: library.function(c"nvrtcGetErrorString")?,
            })
        }
    }

    /// Its version, major and minor.
    pub fn version(&self) -> (i32, i32) {
        let (mut major, mut minor) = (0, 0);
        // SAFETY: both are valid for writing.
        unsafe { (self.version)(&mut major, &mut minor) };
        (major, minor)
    }

    /// Compiles a source with options.
    ///
    /// # Errors
    /// Fails if the source or an option holds a zero byte, or NVRTC cannot begin.
    pub fn compile(&self, source: &str, options: &[String]) -> anyhow::Result<Output> {
        let source = CString::new(source)?;
        let options: Vec<CString> = options
            .iter()
            .map(|o| CString::new(o.as_str()))
            .collect::<Result<_, _>>()?;
        let pointers: Vec<*const c_char> = options.iter().map(|o| o.as_ptr()).collect();
        let mut program = null_mut();
        // SAFETY: the strings live through the calls; `program` is destroyed below and not used afterwards.
        unsafe {
            let name = c"kernel.cu".as_ptr();
            let status = (self.create)(&mut program, source.as_ptr(), name, 0, null(), null());
            if status != 0 {
                bail!("NVRTC cannot begin: {}", self.words(status));
            }
            let status = (self.compile)(program, pointers.len() as c_int, pointers.as_ptr());
            let log = read(program, self.log_size, self.log);
            let cubin = match status {
                0 => Ok(read(program, self.cubin_size, self.cubin)),
                failed => Err(self.words(failed)),
            };
            (self.destroy)(&mut program);
            let log = String::from_utf8_lossy(&log);
            Ok(Output {
                log: log.trim_end_matches('\0').to_owned(),
                cubin,
            })
        }
    }

    fn words(&self, status: Status) -> String {
        // SAFETY: the function returns a static string for any number.
        unsafe { CStr::from_ptr((self.message)(status)) }
            .to_string_lossy()
            .into_owned()
    }
}

/// The bytes that a pair of functions for size and content returns; empty if they fail.
///
/// # Safety
/// `program` is live, and the functions are NVRTC's.
unsafe fn read(program: Program, size: Size, bytes: Bytes) -> Vec<u8> {
    let mut length = 0;
    // SAFETY: by the contract; the buffer has the requested size.
    unsafe {
        if size(program, &mut length) != 0 {
            return Vec::new();
        }
        let mut buffer = vec![0u8; length];
        match bytes(program, buffer.as_mut_ptr().cast()) {
            0 => buffer,
            _ => Vec::new(),
        }
    }
}
