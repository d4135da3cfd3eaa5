//! Operators that were measured at the same time: one row for each operator of each group.
//!
//! `opcollect pairs` appends the rows of a group to [`PAIRS_JOURNAL`] when it was measured, and writes all of them to
//! [`PAIRS_FILE`] at the end. `oppredict train` reads both. Times are medians of one call in nanoseconds, of an operator that
//! is called again and again on buffers of its own.

use std::fs::File;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parquet::file::properties::WriterProperties;
use parquet::file::reader::{FileReader as _, SerializedFileReader};
use parquet::file::writer::SerializedFileWriter;
use parquet::record::{Field, RecordWriter as _};
use parquet_derive::ParquetRecordWriter;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::error::{Error, Result};

/// The rows of a finished run.
pub const PAIRS_FILE: &str = "pairs.parquet";
/// The rows as they are measured, one JSON object a line.
pub const PAIRS_JOURNAL: &str = "pairs.jsonl";
/// The version of the columns.
pub const PAIRS_VERSION: u64 = 1;
/// How to replace a damaged file.
const FIX: &str = "measure the pairs again: opcollect pairs";

/// One operator of a group that was measured at the same time.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ParquetRecordWriter)]
#[serde(default)]
pub struct PairRow {
    /// [`PAIRS_VERSION`].
    pub pairs_version: u64,
    /// The run.
    pub run_id: String,
    /// Identifies operators, threads, processors and mode of the group: equal in runs of equal groups.
    pub group_id: String,
    /// Index of this operator in the group, from 0.
    pub member: u64,
    /// Operators of the group.
    pub members: u64,
    /// `partitioned`: each operator on processors of its own; `time_sliced`: all on the same.
    pub mode: String,
    /// The split of threads, as in `1+1`.
    pub split: String,
    /// Threads of this operator.
    pub threads: u64,
    /// Its processors as the kernel numbers them, separated by commas.
    pub processors: String,
    /// The lowest level of cache that all processors of the group share (`L2`, `L3`), `none`, or missing where the machine does
    /// not say.
    pub shared_cache: Option<String>,
    /// The model.
    pub model: String,
    /// Number of the call in the model.
    pub call: u64,
    /// The operator's function.
    pub symbol: String,
    /// Its readable name.
    pub op_name: String,
    /// Its kind of operator.
    pub op_kind: String,
    /// Hash of its computation, as in the dataset's rows.
    pub workload_hash: String,
    /// The target as JSON.
    pub target: String,
    /// Fingerprint of the machine.
    pub env_hash: String,
    /// Floating-point operations of a call, with the fused rest.
    pub flops: u64,
    /// Bytes that a call must read at least.
    pub bytes_read: u64,
    /// Bytes that it must write at least.
    pub bytes_written: u64,
    /// Calibrated read bandwidth of memory for the group's number of processors, GB/s, if the machine is calibrated.
    pub memory_gbytes_per_s: Option<f64>,
    /// How it ended: `measured`, or why it was not.
    pub status: String,
    /// The reason why there is no time, in one line.
    pub reason: Option<String>,
    /// Median time alone, on the same threads and processors.
    pub alone_ns: Option<f64>,
    /// Median time while the other operators run.
    pub together_ns: Option<f64>,
    /// Median time alone on all threads of the group's processors.
    pub all_threads_ns: Option<f64>,
    /// Slowdown beside a stream of copies on a processor of its own.
    pub sensitivity: Option<f64>,
    /// Slowdown of that stream beside the operator.
    pub pressure: Option<f64>,
    /// `together_ns / alone_ns`: median over rounds.
    pub slowdown: Option<f64>,
    /// Lower end of its 95 % interval.
    pub slowdown_low: Option<f64>,
    /// Upper end.
    pub slowdown_high: Option<f64>,
    /// Time of the group's operators one after the other on all threads, over their time side by side, for the same
    /// work: Σ `all_threads_ns` / `together_ns`. The same for all operators of the group.
    pub throughput_gain: Option<f64>,
    /// Rounds of measuring alone and together.
    pub rounds: u64,
    /// The reference kernel's time around the group over its best.
    pub reference_slowdown: Option<f64>,
    /// Grade of the measurement: A to D.
    pub grade: Option<String>,
    /// When it was measured, UTC.
    pub measured_at: String,
}

/// Adds rows to the journal of a folder.
///
/// # Errors
/// Fails if the file cannot be written.
pub fn append_pairs(folder: &Path, rows: &[PairRow]) -> Result<()> {
    let path = folder.join(PAIRS_JOURNAL);
    let failed = |source| Error::io("write", &path, source);
    let mut text = Vec::new();
    for row in rows {
        serde_json::to_writer(&mut text, row).map_err(|error| failed(error.into()))?;
        text.push(b'\n');
    }
    let mut file = File::options()
        .create(true)
        .append(true)
        .open(&path)
        .map_err(failed)?;
    file.write_all(&text)
        .and_then(|()| file.sync_data())
        .map_err(failed)
}

/// The rows of a journal. A last line that a kill cut off is left out, and so is a group that is not complete.
///
/// # Errors
/// Fails if the file cannot be read, or a line before the last is damaged.
fn journal(folder: &Path) -> Result<Vec<PairRow>> {
    let path = folder.join(PAIRS_JOURNAL);
    let failed = |source| Error::io("read", &path, source);
    let file = File::open(&path).map_err(failed)?;
    let lines: Vec<Vec<u8>> = BufReader::new(file)
        .split(b'\n')
        .collect::<std::io::Result<_>>()
        .map_err(failed)?;
    let mut rows: Vec<PairRow> = Vec::new();
    for (number, line) in lines.iter().enumerate() {
        match serde_json::from_slice(line) {
            Ok(row) => rows.push(row),
            Err(_) if number + 1 == lines.len() => {}
            Err(error) => {
                return Err(Error::Damaged {
                    path,
                    detail: format!("line {}: {error}", number + 1),
                    fix: FIX,
                });
            }
        }
    }
    let whole = |row: &PairRow| {
        rows.iter().filter(|r| r.group_id == row.group_id).count() as u64 >= row.members
    };
    Ok(rows.iter().filter(|row| whole(row)).cloned().collect())
}

/// The whole groups of a journal that is continued: a partial line left by a kill is removed from the file. Empty if
/// there is no journal yet.
///
/// # Errors
/// Fails as [`journal`] does, or if the file cannot be written.
pub fn reopen_pairs(folder: &Path) -> Result<Vec<PairRow>> {
    if !folder.join(PAIRS_JOURNAL).exists() {
        return Ok(Vec::new());
    }
    let rows = journal(folder)?;
    crate::write_atomically(&folder.join(PAIRS_JOURNAL), &[])?;
    append_pairs(folder, &rows)?;
    Ok(rows)
}

/// Writes rows to the file of a folder, replacing it as a whole.
///
/// # Errors
/// Fails if the file cannot be written.
pub fn write_pairs(folder: &Path, rows: &[PairRow]) -> Result<()> {
    let path = folder.join(PAIRS_FILE);
    let failed = |error: parquet::errors::ParquetError| {
        Error::io("write", &path, std::io::Error::other(error))
    };
    let schema = rows.schema().map_err(failed)?;
    let mut bytes = Vec::new();
    let properties = Arc::new(WriterProperties::builder().build());
    let mut writer = SerializedFileWriter::new(&mut bytes, schema, properties).map_err(failed)?;
    let mut group = writer.next_row_group().map_err(failed)?;
    rows.write_to_row_group(&mut group).map_err(failed)?;
    group.close().map_err(failed)?;
    writer.close().map_err(failed)?;
    crate::write_atomically(&path, &bytes)
}

/// The rows of a file or folder: of its [`PAIRS_FILE`], or of its journal if the run has not ended.
///
/// # Errors
/// Fails if there are none, or if they cannot be read.
pub fn read_pairs(path: &Path) -> Result<Vec<PairRow>> {
    let file = match path.is_dir() {
        true => path.join(PAIRS_FILE),
        false => path.to_owned(),
    };
    if path.is_dir() && !file.exists() {
        return journal(path);
    }
    let damaged = |error: parquet::errors::ParquetError| Error::Damaged {
        path: file.clone(),
        detail: error.to_string(),
        fix: FIX,
    };
    let open = File::open(&file).map_err(|source| Error::io("read", &file, source))?;
    let reader = SerializedFileReader::new(open).map_err(damaged)?;
    let mut rows: Vec<PairRow> = Vec::new();
    for record in reader.get_row_iter(None).map_err(damaged)? {
        let record = record.map_err(damaged)?;
        let cells = record.get_column_iter().map(|(name, field)| {
            let value = match field {
                Field::Str(text) => Value::from(text.as_str()),
                Field::Double(number) => Value::from(*number),
                Field::ULong(number) => Value::from(*number),
                Field::Long(number) => Value::from(*number),
                _ => Value::Null,
            };
            (name.clone(), value)
        });
        let row = serde_json::from_value(cells.filter(|(_, value)| !value.is_null()).collect());
        rows.push(row.map_err(|error| Error::Damaged {
            path: file.clone(),
            detail: error.to_string(),
            fix: FIX,
        })?);
    }
    if let Some(found) = rows
        .iter()
        .map(|row| row.pairs_version)
        .find(|v| *v != PAIRS_VERSION)
    {
        return Err(Error::Damaged {
            path: file,
            detail: format!(
                "version {found} of its columns, and this program reads {PAIRS_VERSION}"
            ),
            fix: FIX,
        });
    }
    Ok(rows)
}

/// The rows of several files or folders, as [`read_pairs`] reads each.
///
/// # Errors
/// Fails as [`read_pairs`] does.
pub fn read_all_pairs(paths: &[PathBuf]) -> Result<Vec<PairRow>> {
    let mut rows = Vec::new();
    for path in paths {
        rows.extend(read_pairs(path)?);
    }
    Ok(rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(group: &str, member: u64) -> PairRow {
        PairRow {
            pairs_version: PAIRS_VERSION,
            group_id: group.to_owned(),
            member,
            members: 2,
            alone_ns: Some(1.5),
            shared_cache: (member == 0).then(|| "L3".to_owned()),
            ..PairRow::default()
        }
    }

    #[test]
    fn rows_come_back_from_both_files_and_a_torn_group_is_measured_again() {
        let folder = tempfile::tempdir().unwrap();
        let whole = [row("a", 0), row("a", 1)];
        append_pairs(folder.path(), &whole).unwrap();
        append_pairs(folder.path(), &[row("b", 0)]).unwrap();
        let path = folder.path().join(PAIRS_JOURNAL);
        let mut text = std::fs::read(&path).unwrap();
        text.extend_from_slice(b"{\"pairs_ver");
        std::fs::write(&path, &text).unwrap();
        assert_eq!(read_pairs(folder.path()).unwrap(), whole);
        assert_eq!(reopen_pairs(folder.path()).unwrap(), whole);
        append_pairs(folder.path(), &[row("c", 0), row("c", 1)]).unwrap();
        assert_eq!(journal(folder.path()).unwrap().len(), 4);
        write_pairs(folder.path(), &whole).unwrap();
        assert_eq!(read_pairs(folder.path()).unwrap(), whole);
        assert_eq!(read_pairs(&folder.path().join(PAIRS_FILE)).unwrap(), whole);
    }

    #[test]
    fn damage_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(PAIRS_JOURNAL);
        std::fs::write(&path, "{\n{}\n").unwrap();
        let error = read_pairs(folder.path()).unwrap_err().to_string();
        assert!(error.contains("line 1"), "{error}");
        std::fs::write(folder.path().join(PAIRS_FILE), "PAR1").unwrap();
        assert!(read_pairs(folder.path()).is_err());
    }
}
