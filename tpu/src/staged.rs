//! Files of a job, written beside their place and renamed into it once all of them are whole.
//!
//! Files that an earlier job wrote there are removed then. So no old result stands among new ones, and a job that fails
//! leaves the old ones alone.

use std::fs;
use std::path::{Path, PathBuf};

use crate::error::{Result, io_at};

/// Names of files that jobs write, and prefixes of several.
const OWN: [&str; 9] = [
    "summary.txt",
    "perfetto.pftrace",
    "result.html",
    "profile.json",
    "events.parquet",
    "report.json",
    "PerfDoc",
    // The comparison of several dumps, beside the folder of each.
    "comparison.html",
    "rows",
];
const OWN_PREFIXES: [&str; 3] = ["tiuRegInfo_", "tdmaRegInfo_", "cdmaRegInfo_"];

/// A folder for the files of one job; removed if they are not published.
pub(crate) struct Staged {
    /// The folder in which files are written first.
    pub folder: PathBuf,
    out: PathBuf,
    /// Whether the results' folder was made for this job.
    made: bool,
}

impl Staged {
    /// Stages the results for a folder, which is made.
    pub fn new(out: &Path) -> Result<Staged> {
        let made = !out.exists();
        fs::create_dir_all(out).map_err(io_at(out, "cannot make the folder"))?;
        let folder = out.join(format!(".unfinished-{}", std::process::id()));
        if folder.exists() {
            fs::remove_dir_all(&folder).map_err(io_at(&folder, "cannot replace"))?;
        }
        fs::create_dir(&folder).map_err(io_at(&folder, "cannot make the folder"))?;
        Ok(Staged {
            folder,
            out: out.to_path_buf(),
            made,
        })
    }

    /// Moves all files to their final paths, replacing those of earlier jobs, and corrects the paths.
    pub fn publish(self, files: &mut [PathBuf]) -> Result<()> {
        for name in names(&self.out)? {
            if OWN.contains(&name.as_str()) || OWN_PREFIXES.iter().any(|p| name.starts_with(p)) {
                let path = self.out.join(name);
                let removed = if path.is_dir() {
                    fs::remove_dir_all(&path)
                } else {
                    fs::remove_file(&path)
                };
                removed.map_err(io_at(&path, "cannot replace"))?;
            }
        }
        for name in names(&self.folder)? {
            let to = self.out.join(&name);
            fs::rename(self.folder.join(name), &to).map_err(io_at(&to, "cannot write"))?;
        }
        for file in files {
            if let Ok(rest) = file.strip_prefix(&self.folder) {
                *file = self.out.join(rest);
            }
        }
        Ok(())
    }
}

impl Drop for Staged {
    fn drop(&mut self) {
        // Whatever is left in it is of no use; a folder that cannot be removed does no harm.
        let _ = fs::remove_dir_all(&self.folder);
        if self.made {
            // Fails if there are results in it.
            let _ = fs::remove_dir(&self.out);
        }
    }
}

fn names(folder: &Path) -> Result<Vec<String>> {
    let entries = fs::read_dir(folder).map_err(io_at(folder, "cannot list the folder"))?;
    Ok(entries
        .flatten()
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn new_results_replace_old_ones_and_nothing_else() {
        let dir = tempfile::tempdir().unwrap();
        let out = dir.path().join("o");
        fs::create_dir_all(out.join("rows")).unwrap();
        for name in [
            "result.html",
            "tiuRegInfo_3.txt",
            "notes.md",
            "rows/run.json",
        ] {
            fs::write(out.join(name), "old").unwrap();
        }
        drop(Staged::new(&out).unwrap());
        let other = dir.path().join("p");
        drop(Staged::new(&other).unwrap());
        assert!(!other.exists(), "a job that fails leaves no empty folder");
        assert!(
            out.join("result.html").exists(),
            "a job that fails removes nothing"
        );
        let staged = Staged::new(&out).unwrap();
        let mut files = vec![staged.folder.join("summary.txt")];
        fs::write(&files[0], "new").unwrap();
        staged.publish(&mut files).unwrap();
        assert_eq!(files, [out.join("summary.txt")]);
        let mut left = names(&out).unwrap();
        left.sort();
        assert_eq!(left, ["notes.md", "summary.txt"]);
    }
}
