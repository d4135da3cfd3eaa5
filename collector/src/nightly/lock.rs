//! One nightly run at a time in a dataset: a lock that ends with the processes that hold it, however they end.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{Read, Seek, Write};
use std::path::Path;
use std::process::Stdio;
use std::sync::Arc;

use super::{NightlyError, io_error};

/// The file in the dataset's folder; hidden, so that no reader of the dataset sees it.
const FILE: &str = ".nightly.lock";

/// The lock; it ends when this and all its handles are gone.
#[derive(Debug)]
pub(super) struct NightlyLock(Arc<File>);

/// A share in the lock, for a child process.
#[derive(Debug, Clone)]
pub struct LockHandle(Arc<File>);

impl NightlyLock {
    /// Takes the lock of a dataset, whose folder is made if it is not there.
    ///
    /// # Errors
    /// Fails if another nightly run has it, or the folder cannot be written.
    pub fn take(dataset: &Path) -> Result<NightlyLock, NightlyError> {
        fs::create_dir_all(dataset).map_err(|source| io_error("create", dataset, source))?;
        let path = dataset.join(FILE);
        let failed = |source| io_error("write", &path, source);
        let mut file = OpenOptions::new()
            .create(true)
            .read(true)
            .write(true)
            .truncate(false)
            .open(&path)
            .map_err(failed)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let mut holder = String::new();
                // The holder's name is helpful, but not part of the lock.
                let _ = file.read_to_string(&mut holder);
                return Err(NightlyError::Locked {
                    dataset: dataset.to_owned(),
                    holder: holder.trim().to_owned(),
                });
            }
            Err(TryLockError::Error(source)) => return Err(failed(source)),
        }
        file.set_len(0).map_err(failed)?;
        file.rewind().map_err(failed)?;
        let since = opdata::Timestamp::now();
        writeln!(file, "begun by process {} at {since}", std::process::id()).map_err(failed)?;
        Ok(NightlyLock(Arc::new(file)))
    }

    /// A share for a child.
    pub fn handle(&self) -> LockHandle {
        LockHandle(Arc::clone(&self.0))
    }
}

impl LockHandle {
    /// The lock as the standard input of a child that does not read it. So a job that outlives a killed nightly
    /// run still keeps the next one from starting.
    ///
    /// # Errors
    /// Fails if the system has no file handle left.
    pub fn as_stdin(&self) -> std::io::Result<Stdio> {
        Ok(Stdio::from(self.0.try_clone()?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_nights_do_not_overlap() {
        let folder = tempfile::tempdir().unwrap();
        let dataset = folder.path().join("d");
        let first = NightlyLock::take(&dataset).unwrap();
        let message = NightlyLock::take(&dataset).unwrap_err().to_string();
        assert!(
            message.contains(&format!("process {}", std::process::id())),
            "{message}"
        );
        // A job that is still running holds it too.
        let handle = first.handle();
        drop(first);
        assert!(NightlyLock::take(&dataset).is_err());
        drop(handle);
        NightlyLock::take(&dataset).unwrap();
    }
}
