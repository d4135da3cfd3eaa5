//! Finding TVM's shared libraries and loading them once.
//!
//! The libraries come from the `apache-tvm` wheel in the project's virtual environment. They are opened by path with
//! `RTLD_GLOBAL`, so no environment variable has to be set. The order is `libtvm_runtime.so`,
//! `libtvm_runtime_extra.so`, `libtvm_compiler.so`: each registers functions that the next one looks up. A program
//! that only runs kernels compiled elsewhere loads the first alone. Versions are read from the wheels' `dist-info`
//! folders, because the libraries themselves carry none.

use std::ffi::{CStr, CString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use crate::error::{Error, Result};
use crate::reducers;

/// Version of the `apache-tvm` wheel this crate is written for.
pub const TVM_VERSION: &str = "0.27.0.post1";
/// Version of the `apache-tvm-ffi` wheel this crate is built against.
pub const TVM_FFI_VERSION: &str = "0.1.14.post1";
/// Environment variable with the site-packages folder that contains the libraries.
pub const SITE_PACKAGES_VARIABLE: &str = "OPBENCH_SITE_PACKAGES";

/// Folder of the libraries in site-packages.
const FOLDER: &str = "tvm/lib";
/// The library that runs compiled code: tensors, devices, modules, RPC.
const RUNTIME: &str = "libtvm_runtime.so";
/// Further libraries for compiling and for whole models, in loading order.
const COMPILER: [&str; 2] = ["libtvm_runtime_extra.so", "libtvm_compiler.so"];

/// Proof that TVM is loaded, with its folder.
#[derive(Debug, Clone)]
pub struct Libraries {
    site_packages: PathBuf,
}

impl Libraries {
    /// Loads TVM, compiler and runtime, once a process, and registers this crate's reductions. Later calls return at
    /// once.
    ///
    /// # Errors
    /// Fails with [`Error::NotFound`], [`Error::WrongVersion`] or [`Error::Load`]; the same one at every call.
    pub fn load() -> Result<&'static Libraries> {
        static LOADED: OnceLock<Result<&'static Libraries>> = OnceLock::new();
        let load = || {
            let found = Self::load_runtime()?;
            COMPILER.iter().try_for_each(|name| found.open(name))?;
            reducers::register()?;
            Ok(found)
        };
        LOADED.get_or_init(load).clone()
    }

    /// Loads TVM's runtime alone: enough for tensors, devices and kernels that were compiled before.
    ///
    /// # Errors
    /// Fails as [`Libraries::load`] does.
    pub fn load_runtime() -> Result<&'static Libraries> {
        static LOADED: OnceLock<Result<Libraries>> = OnceLock::new();
        let load = || {
            let found = Self::locate()?;
            found.open(RUNTIME)?;
            Ok(found)
        };
        LOADED.get_or_init(load).as_ref().map_err(Clone::clone)
    }

    /// The folder that the libraries would be loaded from. Versions are checked, but nothing is opened.
    ///
    /// # Errors
    /// Fails as [`Libraries::load`] does, except with [`Error::Load`].
    pub fn locate() -> Result<Libraries> {
        let candidates = candidates();
        let Some(site_packages) = candidates
            .iter()
            .find(|c| c.join(FOLDER).join(RUNTIME).is_file())
        else {
            return Err(Error::NotFound { looked: candidates });
        };
        check_version(site_packages, "apache-tvm", TVM_VERSION)?;
        check_version(site_packages, "apache-tvm-ffi", TVM_FFI_VERSION)?;
        Ok(Libraries {
            site_packages: site_packages.clone(),
        })
    }

    /// The site-packages folder in use.
    pub fn site_packages(&self) -> &Path {
        &self.site_packages
    }

    /// Opens the runtime for CUDA.
    pub(crate) fn open_cuda(&self) -> Result<()> {
        self.open("libtvm_runtime_cuda.so")
    }

    fn open(&self, name: &str) -> Result<()> {
        open_global(&self.site_packages.join(FOLDER).join(name))
    }
}

/// Folders to search: the environment variable's alone if it is set, else those of the virtual environments beside or
/// above the program and the working directory.
fn candidates() -> Vec<PathBuf> {
    if let Some(set) = std::env::var_os(SITE_PACKAGES_VARIABLE) {
        return vec![PathBuf::from(set)];
    }
    let environments = opinstall::environments();
    let mut found: Vec<PathBuf> = environments
        .iter()
        .flat_map(|environment| opinstall::site_packages(environment))
        .collect();
    if found.is_empty() {
        found.push(PathBuf::from(".venv/lib/python3.*/site-packages"));
    }
    found
}

fn check_version(site: &Path, package: &'static str, wanted: &'static str) -> Result<()> {
    // A wheel's metadata folder is `<name with _ for ->-<version>.dist-info`.
    let prefix = format!("{}-", package.replace('-', "_"));
    let found = std::fs::read_dir(site)
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|e| e.file_name().into_string().ok())
        .find_map(|n| {
            Some(
                n.strip_prefix(&prefix)?
                    .strip_suffix(".dist-info")?
                    .to_owned(),
            )
        });
    match found {
        Some(version) if version == wanted => Ok(()),
        other => Err(Error::WrongVersion {
            package,
            found: other.unwrap_or_else(|| "of unknown version".to_owned()),
            wanted,
            site: site.to_owned(),
        }),
    }
}

fn open_global(path: &Path) -> Result<()> {
    let load_error = |reason: String| Error::Load {
        path: path.to_owned(),
        reason,
    };
    let name = CString::new(path.as_os_str().as_bytes()).map_err(|e| load_error(e.to_string()))?;
    // SAFETY: `name` is a valid C string; the libraries stay loaded until the process ends, so nothing they registered
    // can dangle.
    let handle = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW | libc::RTLD_GLOBAL) };
    if handle.is_null() {
        // SAFETY: `dlerror` returns null or a C string that lives until the next dl call of this thread.
        let reason = unsafe {
            let message = libc::dlerror();
            if message.is_null() {
                "the dynamic loader gave no reason".to_owned()
            } else {
                CStr::from_ptr(message).to_string_lossy().into_owned()
            }
        };
        return Err(load_error(reason));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wheel_of_another_version_is_refused_by_name() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("apache_tvm-0.26.0.dist-info")).unwrap();
        let error = check_version(dir.path(), "apache-tvm", TVM_VERSION)
            .unwrap_err()
            .to_string();
        assert!(
            error.contains("apache-tvm 0.26.0") && error.contains(TVM_VERSION),
            "{error}"
        );
    }

    #[test]
    fn the_ffi_wheel_is_not_mistaken_for_the_compiler() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(
            dir.path()
                .join(format!("apache_tvm_ffi-{TVM_FFI_VERSION}.dist-info")),
        )
        .unwrap();
        assert!(check_version(dir.path(), "apache-tvm", TVM_VERSION).is_err());
        assert!(check_version(dir.path(), "apache-tvm-ffi", TVM_FFI_VERSION).is_ok());
    }
}
