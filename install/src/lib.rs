//! Where the files of an installation are: the checkout's folders and the virtual environment's packages.
//!
//! Both programs run from a checkout, wherever the working directory is. Unless an environment variable names a file,
//! it is looked for above the program, then above the working directory. Nothing here reads the files.

use std::path::{Path, PathBuf};

/// Environment variable that names the installation's folder.
pub const HOME_VARIABLE: &str = "OPBENCH_HOME";

/// What a folder must hold to be an installation.
const REGISTRY: &str = "models/registry.toml";
/// Folder of the virtual environment in an installation.
const ENVIRONMENT: &str = ".venv";

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
    /// Fails if there is none.
    pub fn find() -> Result<Home, NoHome> {
        let root = match std::env::var_os(HOME_VARIABLE) {
            Some(set) => Some(PathBuf::from(set)),
            None => above(&starts())
                .find(|folder| folder.join(REGISTRY).is_file())
                .map(Path::to_path_buf),
        };
        root.map(|root| Home { root }).ok_or(NoHome)
    }

    /// The model registry.
    pub fn registry(&self) -> PathBuf {
        self.root.join(REGISTRY)
    }

    /// The Python of the virtual environment.
    pub fn python(&self) -> PathBuf {
        self.root.join(ENVIRONMENT).join("bin/python")
    }

    /// The program that runs models in libtorch, of the extra `torch`.
    pub fn torch_program(&self) -> PathBuf {
        self.root.join(ENVIRONMENT).join("torch/bin/optorch")
    }

    /// Folder of the importer's Python package.
    pub fn importer(&self) -> PathBuf {
        self.root.join("models/python")
    }

    /// The pinned requirements of the virtual environment.
    pub fn requirements(&self) -> PathBuf {
        self.root.join("scripts/requirements.txt")
    }

    /// Folder of the sweeps that come with the program.
    pub fn sweeps(&self) -> PathBuf {
        self.root.join("configs/sweeps")
    }

    /// The list of composite operators in the forms that sources have for them.
    pub fn patterns(&self) -> PathBuf {
        self.root.join("models/patterns/patterns.toml")
    }

    /// The folder that keeps imports.
    pub fn imports(&self) -> PathBuf {
        self.root.join(".cache/imports")
    }

    /// The folder that keeps the calibrations of machines.
    pub fn calibrations(&self) -> PathBuf {
        self.root.join(".cache/calibrations")
    }

    /// The store of best schedules.
    pub fn store(&self) -> PathBuf {
        self.root.join(".cache/schedules.sqlite")
    }

    /// The file of the reference kernel's idle times.
    pub fn reference_kernel(&self) -> PathBuf {
        self.root.join(".cache/reference-kernel.json")
    }
}

/// The virtual environment of the installation that [`HOME_VARIABLE`] names, then those above the program and above the
/// working directory, nearest first.
pub fn environments() -> Vec<PathBuf> {
    let named = std::env::var_os(HOME_VARIABLE).map(PathBuf::from);
    let starts: Vec<PathBuf> = named.into_iter().chain(starts()).collect();
    environments_above(&starts)
}

/// The folders that installed packages of a virtual environment lie in.
pub fn site_packages(environment: &Path) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(environment.join("lib")) else {
        return Vec::new();
    };
    let mut found: Vec<PathBuf> = entries
        .flatten()
        .filter(|entry| entry.file_name().to_string_lossy().starts_with("python3"))
        .map(|entry| entry.path().join("site-packages"))
        .filter(|folder| folder.is_dir())
        .collect();
    found.sort();
    found
}

/// Folders where the search for an installation begins.
fn starts() -> Vec<PathBuf> {
    [std::env::current_exe().ok(), std::env::current_dir().ok()]
        .into_iter()
        .flatten()
        .collect()
}

fn above(starts: &[PathBuf]) -> impl Iterator<Item = &Path> {
    starts.iter().flat_map(|start| start.ancestors())
}

fn environments_above(starts: &[PathBuf]) -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> = Vec::new();
    for folder in above(starts) {
        let environment = folder.join(ENVIRONMENT);
        if environment.is_dir() && !found.contains(&environment) {
            found.push(environment);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn environments_are_found_above_nearest_first_and_once() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        std::fs::create_dir_all(at("a/b/.venv/lib/python3.11/site-packages")).unwrap();
        std::fs::create_dir_all(at("a/b/.venv/lib/python2/site-packages")).unwrap();
        std::fs::create_dir_all(at("a/.venv")).unwrap();
        let found = environments_above(&[at("a/b/target"), at("a/b")]);
        let ours: Vec<_> = found
            .into_iter()
            .filter(|found| found.starts_with(folder.path()))
            .collect();
        assert_eq!(ours, [at("a/b/.venv"), at("a/.venv")]);
        let packages = site_packages(&ours[0]);
        assert_eq!(packages, [at("a/b/.venv/lib/python3.11/site-packages")]);
        assert!(site_packages(&ours[1]).is_empty());
    }
}
