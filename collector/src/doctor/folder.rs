//! The folder of the results: is there room, and may it be written?

use std::ffi::CString;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use opreport::units;

use super::check::Check;

/// A run writes a few MiB; imports of models with weights up to a GiB.
const LITTLE_BYTES: u64 = 2 << 30;
const TOO_LITTLE_BYTES: u64 = 64 << 20;

/// Facts about a folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FolderFacts {
    /// The folder asked about.
    pub path: PathBuf,
    /// The nearest folder above it (or itself) that exists.
    pub existing: PathBuf,
    /// Bytes free to this user there; `None` if the file system does not say.
    pub free_bytes: Option<u64>,
    /// Why nothing can be written there; `None` if a file was written and removed again.
    pub refusal: Option<String>,
}

impl FolderFacts {
    /// Looks at a folder; what does not exist yet is judged by the nearest folder above.
    pub fn probe(path: &Path) -> Self {
        let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        let existing = absolute
            .ancestors()
            .find(|folder| folder.exists())
            .unwrap_or(Path::new("/"))
            .to_owned();
        Self {
            path: path.to_owned(),
            free_bytes: free_bytes(&existing),
            refusal: refusal(&existing),
            existing,
        }
    }
}

fn free_bytes(folder: &Path) -> Option<u64> {
    let path = CString::new(folder.as_os_str().as_bytes()).ok()?;
    // SAFETY: statvfs is plain numbers, for which all zeroes is a valid value.
    let mut stat: libc::statvfs = unsafe { std::mem::zeroed() };
    // SAFETY: the path ends in a zero byte, and both pointers outlive the call.
    if unsafe { libc::statvfs(path.as_ptr(), &mut stat) } != 0 {
        return None;
    }
    // The fields' types differ between platforms.
    #[allow(clippy::unnecessary_cast)]
    (stat.f_bavail as u64).checked_mul(stat.f_frsize as u64)
}

/// Tries to write: the mode bits alone know nothing of read-only mounts and quotas.
fn refusal(folder: &Path) -> Option<String> {
    let file = folder.join(format!(".opcollect-doctor-{}", std::process::id()));
    let written = std::fs::write(&file, "may this be written?\n");
    // A file that was written can be removed; one that was not does not exist.
    let _ = std::fs::remove_file(&file);
    written.err().map(|error| error.to_string())
}

pub(super) fn check_disk(facts: &FolderFacts) -> Check {
    const NAME: &str = "disk space";
    let Some(free) = facts.free_bytes else {
        return Check::warn(
            NAME,
            format!(
                "the file system of {} does not say",
                facts.existing.display()
            ),
            "give another folder by --out",
        );
    };
    let finding = format!(
        "{} free in {}",
        units::bytes(free as f64),
        facts.existing.display()
    );
    if free < TOO_LITTLE_BYTES {
        Check::fail(
            NAME,
            finding,
            "make room, or give a folder on another disk by --out",
        )
    } else if free < LITTLE_BYTES {
        Check::warn(
            NAME,
            finding,
            "models with weights need up to 2 GiB: make room",
        )
    } else {
        Check::ok(NAME, finding)
    }
}

pub(super) fn check_writable(facts: &FolderFacts) -> Check {
    const NAME: &str = "results folder";
    match &facts.refusal {
        None => Check::ok(NAME, format!("{} can be written", facts.path.display())),
        Some(reason) => Check::fail(
            NAME,
            format!("{} cannot be written: {reason}", facts.existing.display()),
            "give a folder of your own by --out, or change the owner of this one",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::CheckStatus;

    #[test]
    fn a_folder_to_be_is_judged_by_the_one_above() {
        let folder = tempfile::tempdir().unwrap();
        let facts = FolderFacts::probe(&folder.path().join("runs/new"));
        assert_eq!(facts.existing, folder.path());
        assert!(facts.free_bytes.is_some());
        assert_eq!(facts.refusal, None);
        assert_eq!(check_writable(&facts).status, CheckStatus::Ok);
        assert_eq!(
            std::fs::read_dir(folder.path()).unwrap().count(),
            0,
            "nothing is left behind"
        );
    }

    #[test]
    fn a_file_is_no_folder() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("runs");
        std::fs::write(&file, "").unwrap();
        let check = check_writable(&FolderFacts::probe(&file));
        assert_eq!(check.status, CheckStatus::Fail);
        assert!(
            check.finding.contains("cannot be written"),
            "{}",
            check.finding
        );
    }

    #[test]
    fn room() {
        let facts = |free_bytes| FolderFacts {
            path: "runs".into(),
            existing: "/data".into(),
            free_bytes,
            refusal: None,
        };
        assert_eq!(check_disk(&facts(Some(100 << 30))).status, CheckStatus::Ok);
        assert_eq!(check_disk(&facts(Some(1 << 30))).status, CheckStatus::Warn);
        assert_eq!(check_disk(&facts(Some(1 << 20))).status, CheckStatus::Fail);
        assert_eq!(check_disk(&facts(None)).status, CheckStatus::Warn);
    }
}
