//! Where the files of an installation are: registry, importer, virtual environment, caches.

use std::path::{Path, PathBuf};

use crate::{Cache, ImportError, Registry, Tooling};

/// Environment variable that names the installation's folder.
pub const HOME_VARIABLE: &str = "OPBENCH_HOME";

/// There is no installation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "{REGISTRY} was not found above the program or the working directory; run from a checkout, or set {HOME_VARIABLE} to it"
)]
pub struct NoHome;

/// The folder that holds `models/`, `scripts/` and `.venv/`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Home {
    root: PathBuf,
}

impl Home {
    /// The folder named by [`HOME_VARIABLE`], else the nearest one above the program, else above the working directory,
    /// that holds the model registry.
    ///
    /// # Errors
    /// There is none.
    pub fn find() -> Result<Home, NoHome> {
        if let Some(set) = std::env::var_os(HOME_VARIABLE) {
            return Ok(Home {
                root: PathBuf::from(set),
            });
        }
        let starts = [std::env::current_exe().ok(), std::env::current_dir().ok()];
        let above = starts.iter().flatten().flat_map(|start| start.ancestors());
        let root = above
            .map(Path::to_path_buf)
            .find(|folder| folder.join(REGISTRY).is_file());
        root.map(|root| Home { root }).ok_or(NoHome)
    }

    /// The model registry.
    ///
    /// # Errors
    /// It is missing or damaged.
    pub fn registry(&self) -> Result<Registry, ImportError> {
        Registry::load(&self.root.join(REGISTRY))
    }

    /// The Python of the project's virtual environment.
    pub fn python(&self) -> PathBuf {
        self.root.join(".venv/bin/python")
    }

    /// What an import runs, with another Python if one is given.
    pub fn tooling(&self, python: Option<&Path>) -> Tooling {
        let python = python.map_or_else(|| self.python(), Path::to_path_buf);
        Tooling::new(python, self.root.join("models/python"), self.requirements())
    }

    /// The pinned requirements of the virtual environment.
    pub fn requirements(&self) -> PathBuf {
        self.root.join("scripts/requirements.txt")
    }

    /// Folder of the sweeps that come with the program.
    pub fn sweeps(&self) -> PathBuf {
        self.root.join("configs/sweeps")
    }

    /// Where imports are kept.
    pub fn cache(&self) -> Cache {
        Cache::new(self.root.join(".cache/imports"))
    }

    /// Where the calibrations of machines are kept.
    pub fn calibrations(&self) -> PathBuf {
        self.root.join(".cache/calibrations")
    }
}

const REGISTRY: &str = "models/registry.toml";
