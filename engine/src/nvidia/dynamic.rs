//! Opening NVIDIA's libraries at run time: nothing of them is linked, so this program builds and runs without any.

use std::ffi::{CStr, CString, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// A library, open until the process ends.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Library(*mut c_void);

// SAFETY: the handle is only passed to `dlsym`, which may be called from any thread.
unsafe impl Send for Library {}
// SAFETY: as above.
unsafe impl Sync for Library {}

/// A library, or a function of one, is not there.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{what} is not there: {reason}")]
pub(crate) struct NotThere {
    what: String,
    reason: String,
}

impl Library {
    /// Opens a library by path, or by name where the loader looks for it.
    ///
    /// # Errors
    /// Fails with the loader's error.
    pub fn open(path: &Path) -> Result<Library, NotThere> {
        let not_there = |reason: String| NotThere {
            what: path.display().to_string(),
            reason,
        };
        let name =
            CString::new(path.as_os_str().as_bytes()).map_err(|e| not_there(e.to_string()))?;
        // SAFETY: the name is a valid C string; the library stays open.
        let handle = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW | libc::RTLD_GLOBAL) };
        if handle.is_null() {
            // SAFETY: `dlerror` returns null or a C string that lives until the next call of this thread.
            let reason = unsafe {
                let message = libc::dlerror();
                match message.is_null() {
                    true => String::new(),
                    false => CStr::from_ptr(message).to_string_lossy().into_owned(),
                }
            };
            return Err(not_there(reason));
        }
        Ok(Library(handle))
    }

    /// The function called `name`.
    ///
    /// # Errors
    /// Fails if the library has none of this name.
    ///
    /// # Safety
    /// `F` is a function pointer of the function's type.
    pub unsafe fn function<F: Copy>(self, name: &CStr) -> Result<F, NotThere> {
        const { assert!(size_of::<F>() == size_of::<*mut c_void>()) };
        // SAFETY: the handle is open and the name is a C string.
        let found = unsafe { libc::dlsym(self.0, name.as_ptr()) };
        if found.is_null() {
            return Err(NotThere {
                what: name.to_string_lossy().into_owned(),
                reason: "the library has no such function".to_owned(),
            });
        }
        // SAFETY: by the contract, and of equal size.
        Ok(unsafe { std::mem::transmute_copy(&found) })
    }
}
