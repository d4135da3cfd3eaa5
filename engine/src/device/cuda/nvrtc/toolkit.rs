//! Where NVRTC, its headers and the disassembler are.

use std::path::{Path, PathBuf};

/// The parts of CUDA that compiling needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Toolkit {
    /// Folder with `lib`, `include` and `bin`.
    root: PathBuf,
}

/// There is no NVRTC on this machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("NVRTC, NVIDIA's compiler of CUDA source, is not installed")]
pub(crate) struct ToolkitMissing;

/// No CUDA runtime that TVM's can work with was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("CUDA's runtime library, {RUNTIME}, is not installed")]
pub(crate) struct RuntimeMissing;

/// The library.
const RUNTIME: &str = "libcudart.so.13";

/// How to install it.
pub(crate) const HOW_TO_GET_IT: &str = "run scripts/setup --with cuda (97 MB to download, under NVIDIA's licence), or set CUDA_HOME to a CUDA toolkit of version 12 or 13";

/// Environment variable that names a CUDA toolkit.
const VARIABLE: &str = "CUDA_HOME";
/// Where `scripts/setup --with cuda` puts it in a virtual environment.
const EXTRA: &str = "cuda/nvidia/cu13";
/// Where NVIDIA's installers put it.
const SYSTEM: &str = "/usr/local/cuda";
/// Names of the library, the newest first.
const LIBRARIES: [&str; 2] = ["libnvrtc.so.13", "libnvrtc.so.12"];
/// Folders of a toolkit that may contain libraries.
const FOLDERS: [&str; 2] = ["lib", "lib64"];

impl Toolkit {
    /// The toolkit that [`VARIABLE`] names, else that of the virtual environment, else the system's.
    ///
    /// # Errors
    /// Fails if none was found.
    pub fn find() -> Result<Toolkit, ToolkitMissing> {
        let found = roots().find_map(|root| Toolkit::at(&root));
        found.ok_or(ToolkitMissing)
    }

    /// The toolkit in a folder, if one is there.
    pub fn at(root: &Path) -> Option<Toolkit> {
        let toolkit = Toolkit {
            root: root.to_owned(),
        };
        toolkit.library().is_some().then_some(toolkit)
    }

    /// The folder.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// NVRTC's library.
    pub fn library(&self) -> Option<PathBuf> {
        LIBRARIES.iter().find_map(|name| self.in_libraries(name))
    }

    /// The library of built-in functions that NVRTC opens by name, where the loader would not look for it.
    pub fn builtins(&self) -> Option<PathBuf> {
        let folder = self.library()?.parent()?.to_owned();
        let entries = std::fs::read_dir(folder).ok()?.flatten().map(|e| e.path());
        let is_builtins = |path: &PathBuf| {
            let name = path.file_name().map(|n| n.to_string_lossy().into_owned());
            name.is_some_and(|n| n.starts_with("libnvrtc-builtins.so."))
        };
        entries.filter(is_builtins).min()
    }

    /// The headers.
    pub fn include(&self) -> PathBuf {
        self.root.join("include")
    }

    /// The disassembler, if it is there.
    pub fn disassembler(&self) -> Option<PathBuf> {
        let path = self.root.join("bin/nvdisasm");
        path.is_file().then_some(path)
    }

    fn in_libraries(&self, name: &str) -> Option<PathBuf> {
        library(&self.root, name)
    }
}

/// Folders that may have a toolkit, the first to look in first.
fn roots() -> impl Iterator<Item = PathBuf> {
    let named = std::env::var_os(VARIABLE).map(PathBuf::from);
    let extra = opinstall::environments().into_iter().map(|e| e.join(EXTRA));
    named.into_iter().chain(extra).chain([SYSTEM.into()])
}

/// A library of the toolkit in a folder, if it is there.
fn library(root: &Path, name: &str) -> Option<PathBuf> {
    let mut paths = FOLDERS.iter().map(|folder| root.join(folder).join(name));
    paths.find(|path| path.is_file())
}

/// The runtime library that TVM's CUDA runtime needs: of the first toolkit that has it, because the one that compiles may be
/// older.
///
/// # Errors
/// Fails if none has it.
pub(crate) fn runtime() -> Result<PathBuf, RuntimeMissing> {
    let found = roots().find_map(|root| library(&root, RUNTIME));
    found.ok_or(RuntimeMissing)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_toolkit_is_known_by_its_library_in_either_folder() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(Toolkit::at(folder.path()), None);
        for (libraries, name) in [("lib64", "libnvrtc.so.12"), ("lib", "libnvrtc.so.13")] {
            let libraries = folder.path().join(libraries);
            std::fs::create_dir(&libraries).unwrap();
            std::fs::write(libraries.join(name), "").unwrap();
            std::fs::write(libraries.join("libnvrtc-builtins.so.13.0"), "").unwrap();
            let toolkit = Toolkit::at(folder.path()).unwrap();
            assert_eq!(toolkit.library(), Some(libraries.join(name)));
            let builtins = libraries.join("libnvrtc-builtins.so.13.0");
            assert_eq!(toolkit.builtins(), Some(builtins));
        }
        assert_eq!(Toolkit::at(folder.path()).unwrap().disassembler(), None);
    }
}
