//! The files of a dump's folder.
//!
//! `global.profile`, `cdmlib{device}_{core}.profile` per core, `cdma{…}_{port}.profile` per port, optionally
//! `tensor_location.json` and `final.mlir`. A core keeps the number in its file's name. Folders of the older runtime
//! (`bmprofile_data-*`, `iter0.profile`) are recognised and refused by name.

use std::fs;
use std::path::{Path, PathBuf};

use crate::error::{Error, Result, io_at};

/// Paths of a dump.
#[derive(Debug, Clone, PartialEq)]
pub struct Folder {
    /// The folder.
    pub path: PathBuf,
    /// `global.profile`.
    pub global: PathBuf,
    /// Core number and file, by number.
    pub cores: Vec<(u32, PathBuf)>,
    /// Port number and file, by number.
    pub ports: Vec<(u32, PathBuf)>,
    /// `tensor_location.json` and `final.mlir`, if either is there.
    pub layers: Option<(PathBuf, PathBuf)>,
}

/// Looks a folder through.
pub fn scan(path: &Path) -> Result<Folder> {
    let not = |what: String, next: &'static str| Error::NotADump {
        path: path.to_path_buf(),
        what,
        next,
    };
    let entries = fs::read_dir(path).map_err(io_at(path, "cannot open the folder"))?;
    let mut names = Vec::new();
    for entry in entries {
        let entry = entry.map_err(io_at(path, "cannot list the folder"))?;
        names.push(entry.file_name().to_string_lossy().into_owned());
    }
    names.sort();
    if let Some(name) = names.iter().find(|name| is_of_older_runtime(name)) {
        return Err(not(
            format!(
                "a bmprofile dump of the older runtime (it has {name}), not a cdm_profile_data one"
            ),
            "this format is not supported; profile again with a runtime that writes cdm_profile_data_* folders",
        ));
    }
    if !names.iter().any(|name| name == "global.profile") {
        return Err(not(
            "no global.profile in it".to_string(),
            "give the cdm_profile_data_* folder itself, as the runtime wrote it",
        ));
    }
    let mut folder = Folder {
        path: path.to_path_buf(),
        global: path.join("global.profile"),
        cores: Vec::new(),
        ports: Vec::new(),
        layers: None,
    };
    for name in &names {
        let Some(stem) = name.strip_suffix(".profile") else {
            continue;
        };
        let (list, kind) = if stem.starts_with("cdmlib") {
            (&mut folder.cores, "core")
        } else if stem.starts_with("cdma") {
            (&mut folder.ports, "CDMA port")
        } else {
            continue;
        };
        let number = stem
            .rsplit_once('_')
            .and_then(|(_, number)| number.parse::<u32>().ok());
        let Some(number) = number else {
            return Err(not(
                format!("{name} does not end in _ and the number of a {kind}"),
                "rename it to the name the runtime gave it, or take it out of the folder",
            ));
        };
        if let Some((_, other)) = list.iter().find(|(n, _)| *n == number) {
            let other = other.file_name().unwrap_or_default().display();
            return Err(not(
                format!("{name} and {other} are both of {kind} {number}"),
                "keep the dumps of several devices in folders of their own",
            ));
        }
        list.push((number, path.join(name)));
    }
    folder.cores.sort();
    folder.ports.sort();
    if folder.cores.is_empty() {
        return Err(not(
            "no cdmlib*.profile in it, so there are no records".to_string(),
            "check that the profiled program ended by itself and that the folder was copied whole",
        ));
    }
    let (location, mlir) = (path.join("tensor_location.json"), path.join("final.mlir"));
    if location.exists() || mlir.exists() {
        folder.layers = Some((location, mlir));
    }
    Ok(folder)
}

/// Whether a file is of a `bmprofile` dump.
fn is_of_older_runtime(name: &str) -> bool {
    let iteration = name
        .strip_prefix("iter")
        .and_then(|rest| rest.strip_suffix(".profile"));
    iteration.is_some_and(|number| !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit()))
        || name == "net_0.profile"
        || (name.starts_with("bmlib") && name.ends_with(".profile"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder(files: &[&str]) -> Result<Folder> {
        let dir = tempfile::tempdir().unwrap();
        for file in files {
            fs::write(dir.path().join(file), "").unwrap();
        }
        scan(dir.path())
    }

    #[test]
    fn numbers_come_from_names() {
        let found = folder(&[
            "global.profile",
            "cdmlib0_10.profile",
            "cdmlib0_2.profile",
            "cdma_1.profile",
            "x",
        ])
        .unwrap();
        assert_eq!(found.cores.iter().map(|c| c.0).collect::<Vec<_>>(), [2, 10]);
        assert_eq!(found.ports.iter().map(|c| c.0).collect::<Vec<_>>(), [1]);
    }

    #[test]
    fn what_is_no_dump() {
        let fault = |files: &[&str]| {
            let text = folder(files).unwrap_err().to_string();
            text.split_once(": ").unwrap().1.to_string()
        };
        assert!(fault(&["global.profile"]).starts_with("no cdmlib*.profile"));
        assert!(fault(&["cdmlib0_0.profile"]).starts_with("no global.profile"));
        assert!(fault(&["iter0.profile"]).contains("older runtime"));
        assert!(
            fault(&["global.profile", "cdma_x.profile"]).contains("cdma_x.profile does not end")
        );
        assert!(
            fault(&["global.profile", "cdmlib0_1.profile", "cdmlib1_1.profile"])
                .contains("both of core 1")
        );
    }
}
