//! Recording: runs a command with profiling on and finds the dumps it wrote.
//!
//! The runtime is switched by environment variables (`ENABLE_ALL_PROFILE`, `PROFILE_MODE`, `PROFILE_RECORD_SIZE`,
//! `TPUKERNEL_FIRMWARE_PATH`) and writes `cdm_profile_data_dev*` folders into its working directory.

use std::collections::HashMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::SystemTime;

use crate::error::{Error, Result, io_at};
use crate::profile::Profile;

/// The runtime's default for `PROFILE_RECORD_SIZE`.
pub const DEFAULT_RECORDS: u64 = 131_072;

/// The command to record, and how.
#[derive(Debug, Clone, PartialEq)]
pub struct RecordOptions {
    /// Program and arguments.
    pub command: Vec<OsString>,
    /// Working directory: dumps appear in it.
    pub directory: PathBuf,
    /// `PROFILE_MODE`; not set if `None`.
    pub mode: Option<u32>,
    /// `PROFILE_RECORD_SIZE`; not set if `None`.
    pub records: Option<u64>,
    /// `TPUKERNEL_FIRMWARE_PATH`; not set if `None`.
    pub firmware: Option<PathBuf>,
}

impl RecordOptions {
    /// Checks the values.
    pub fn validate(&self) -> Result<()> {
        if self.command.is_empty() {
            return Err(Error::Option {
                option: "record",
                what: "no command; give one after --, e.g. opcollect tpu record -- tpu-model-rt --bmodel x.bmodel".into(),
            });
        }
        if self.mode.is_some_and(|mode| mode > 2) {
            return Err(Error::Option {
                option: "--profile-mode",
                what: "give 0, 1 or 2".to_string(),
            });
        }
        if self.records == Some(0) {
            return Err(Error::Option {
                option: "--record-size",
                what: "give a number of records, more than 0".into(),
            });
        }
        if let Some(firmware) = self.firmware.as_ref().filter(|path| !path.is_file()) {
            return Err(Error::Option {
                option: "--firmware",
                what: format!(
                    "{} is no file; give the path of libfirmware_core.so",
                    firmware.display()
                ),
            });
        }
        Ok(())
    }

    /// The variables that are set for the command.
    pub fn environment(&self) -> Vec<(&'static str, OsString)> {
        let mut variables = vec![("ENABLE_ALL_PROFILE", OsString::from("1"))];
        if let Some(mode) = self.mode {
            variables.push(("PROFILE_MODE", mode.to_string().into()));
        }
        if let Some(records) = self.records {
            variables.push(("PROFILE_RECORD_SIZE", records.to_string().into()));
        }
        if let Some(firmware) = &self.firmware {
            variables.push(("TPUKERNEL_FIRMWARE_PATH", firmware.into()));
        }
        variables
    }
}

/// Runs the command and returns the folders it wrote or renewed, by name.
pub fn record(options: &RecordOptions) -> Result<Vec<PathBuf>> {
    options.validate()?;
    let before = dumps(&options.directory)?;
    let program = &options.command[0];
    let status = Command::new(program)
        .args(&options.command[1..])
        .current_dir(&options.directory)
        .envs(options.environment())
        // Standard output is for the results of reading the dump.
        .stdout(std::io::stderr())
        .status()
        .map_err(|error| Error::Record {
            what: format!("cannot run {}: {error}", program.to_string_lossy()),
            next: "check its path, and that it may be executed".to_string(),
        })?;
    let mut found: Vec<PathBuf> = dumps(&options.directory)?
        .into_iter()
        .filter(|(path, time)| before.get(path) != Some(time))
        .map(|(path, _)| path)
        .collect();
    found.sort();
    if !status.success() {
        let wrote = if found.is_empty() {
            "no dump"
        } else {
            "a dump that may be incomplete"
        };
        return Err(Error::Record {
            what: format!("{} ended with {status} and wrote {wrote}", program.to_string_lossy()),
            next: "see its own messages above; dumps already written can be read with opcollect tpu DIR".to_string(),
        });
    }
    if found.is_empty() {
        return Err(Error::Record {
            what: format!("{} wrote no cdm_profile_data_* folder into {}", program.to_string_lossy(), options.directory.display()),
            next: "check that it uses the TPU, that its runtime has profiling, and for an old bmodel give --firmware".into(),
        });
    }
    Ok(found)
}

/// Dump folders of a directory, with the time of their newest file.
fn dumps(directory: &Path) -> Result<HashMap<PathBuf, SystemTime>> {
    let mut found = HashMap::new();
    let entries =
        std::fs::read_dir(directory).map_err(io_at(directory, "cannot list the folder"))?;
    for entry in entries.flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let path = entry.path();
        if !name.starts_with("cdm_profile_data") || !path.is_dir() {
            continue;
        }
        let newest = std::fs::read_dir(&path)
            .map_err(io_at(&path, "cannot list the folder"))?
            .flatten()
            .filter_map(|file| file.metadata().and_then(|m| m.modified()).ok())
            .max()
            .unwrap_or(SystemTime::UNIX_EPOCH);
        found.insert(path, newest);
    }
    Ok(found)
}

/// Streams of a recorded dump that reach the configured number of records: their earliest may be gone.
pub fn full_streams(profile: &Profile, options: &RecordOptions) -> Vec<String> {
    let limit = options.records.unwrap_or(DEFAULT_RECORDS);
    profile
        .report
        .streams
        .iter()
        .filter(|counts| counts.records >= limit)
        .map(|counts| format!("{} ({} records)", counts.stream, counts.records))
        .collect()
}
