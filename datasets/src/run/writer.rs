//! Adding rows to a run so that none is lost. Each row is handed to the system in one write before
//! `append` returns. So a killed process loses no row that it announced. Only a power cut can, back
//! to the last `sync`.
//!
//! Does not number points or decide what is measured again.

use std::collections::HashSet;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use super::{ROWS_CSV, ROWS_PARQUET, ROWS_SET_ASIDE, RUN_JSON};
use crate::error::{Error, Result};
use crate::files;
use crate::formats::csv::{self, CsvRows, Extent};
use crate::formats::parquet;
use crate::schema::Row;

/// The writer of one run's rows.
#[derive(Debug)]
pub struct RunWriter {
    csv_path: PathBuf,
    parquet_path: PathBuf,
    file: File,
    /// Bytes of whole rows in the file.
    whole_bytes: u64,
    row_ids: HashSet<String>,
    /// Number of the next row: above that of every row there ever was.
    next_ordinal: u64,
}

/// A run that was taken up again.
#[derive(Debug)]
pub struct Reopened {
    /// The writer, after the last whole row.
    pub writer: RunWriter,
    /// The rows the run holds.
    pub rows: Vec<Row>,
    /// Bytes of a torn row that were cut off.
    pub torn_bytes: u64,
}

impl Reopened {
    /// Moves rows out of the run into [`ROWS_SET_ASIDE`], so that their points are measured again; returns their number.
    /// At any moment, these rows are on disk in one file or the other.
    ///
    /// # Errors
    /// Fails if a file cannot be written; then the run is as it was.
    pub fn set_aside(&mut self, which: impl Fn(&Row) -> bool) -> Result<u64> {
        let (aside, kept): (Vec<Row>, Vec<Row>) = self.rows.drain(..).partition(which);
        self.rows = kept;
        if aside.is_empty() {
            return Ok(0);
        }
        let writer = &mut self.writer;
        let path = writer.csv_path.with_file_name(ROWS_SET_ASIDE);
        let before = rows_if_any(&path)?;
        // A row that was set aside by an attempt that was killed is there already.
        let known: HashSet<&str> = before.iter().map(|row| row.row_id.as_str()).collect();
        let new = aside
            .iter()
            .filter(|row| !known.contains(row.row_id.as_str()));
        write_csv(&path, before.iter().chain(new))?;
        write_csv(&writer.csv_path, self.rows.iter())?;
        writer.file = OpenOptions::new()
            .read(true)
            .append(true)
            .open(&writer.csv_path)
            .map_err(|source| Error::io("write", &writer.csv_path, source))?;
        lock(&writer.file, &writer.csv_path)?;
        let length = writer.file.metadata();
        let length = length.map_err(|source| Error::io("read", &writer.csv_path, source))?;
        writer.whole_bytes = length.len();
        writer.row_ids = self.rows.iter().map(|row| row.row_id.clone()).collect();
        Ok(aside.len() as u64)
    }
}

/// Writes rows as a CSV file, replacing the old one as a whole.
fn write_csv<'a>(path: &Path, rows: impl Iterator<Item = &'a Row>) -> Result<()> {
    files::replace(path, |file| {
        let lines = std::iter::once(csv::header()).chain(rows.map(csv::line));
        for line in lines {
            file.write_all(&line)
                .map_err(|source| Error::io("write", path, source))?;
        }
        Ok(())
    })
}

/// The rows of a CSV file. Empty if there is no file.
fn rows_if_any(path: &Path) -> Result<Vec<Row>> {
    match path.exists() {
        true => CsvRows::open(path)?.collect(),
        false => Ok(Vec::new()),
    }
}

/// The number of a row in its run, as its name ends; 0 for names of other tools.
fn ordinal(row: &Row) -> u64 {
    let number = row.row_id.rsplit('.').next();
    number.and_then(|n| n.parse().ok()).unwrap_or(0)
}

impl RunWriter {
    /// Starts a run in `folder`, which is made if it is not there.
    ///
    /// # Errors
    /// Fails if the folder holds a run already, or cannot be made or written.
    pub fn create(folder: &Path) -> Result<Self> {
        fs::create_dir_all(folder).map_err(|source| Error::io("create", folder, source))?;
        let csv_path = folder.join(ROWS_CSV);
        let parquet_path = folder.join(ROWS_PARQUET);
        if parquet_path.exists() {
            return Err(Error::RunExists { path: parquet_path });
        }
        let file = match OpenOptions::new()
            .append(true)
            .create_new(true)
            .open(&csv_path)
        {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                return Err(Error::RunExists { path: csv_path });
            }
            Err(source) => return Err(Error::io("create", &csv_path, source)),
        };
        lock(&file, &csv_path)?;
        let mut writer = Self {
            csv_path,
            parquet_path,
            file,
            whole_bytes: 0,
            row_ids: HashSet::new(),
            next_ordinal: 0,
        };
        writer.write_whole(&csv::header())?;
        Ok(writer)
    }

    /// Removes what a run left in `folder` that ended before its manifest was written, as on a full disk: an empty file
    /// of rows, and the files named in `logs`. Anything else in the folder stays.
    ///
    /// # Errors
    /// Fails if another process is writing the run, or something cannot be read or removed.
    pub fn remove_unbegun(folder: &Path, logs: &[&str]) -> Result<()> {
        let csv_path = folder.join(ROWS_CSV);
        if folder.join(RUN_JSON).exists() || !csv_path.exists() {
            return Ok(());
        }
        let mut file = File::open(&csv_path).map_err(|e| Error::io("read", &csv_path, e))?;
        lock(&file, &csv_path)?;
        let extent = measure(&mut file).map_err(|e| Error::io("read", &csv_path, e))?;
        if extent.whole_bytes() > csv::header().len() as u64 {
            return Ok(());
        }
        for path in std::iter::once(csv_path).chain(logs.iter().map(|name| folder.join(name))) {
            match fs::remove_file(&path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    return Err(Error::io("write", &path, error));
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Takes up the run in `folder` again: cuts off a torn last row, reads the others, and goes
    /// on after them. Its Parquet file goes until it is finished again.
    ///
    /// # Errors
    /// Fails if there is no run, or if a row other than a torn last one is damaged.
    pub fn reopen(folder: &Path) -> Result<Reopened> {
        let csv_path = folder.join(ROWS_CSV);
        let mut file = OpenOptions::new()
            .read(true)
            .append(true)
            .open(&csv_path)
            .map_err(|source| Error::io("write", &csv_path, source))?;
        lock(&file, &csv_path)?;
        let extent = measure(&mut file).map_err(|source| Error::io("read", &csv_path, source))?;
        let mut writer = Self {
            parquet_path: folder.join(ROWS_PARQUET),
            whole_bytes: extent.whole_bytes(),
            file,
            csv_path,
            row_ids: HashSet::new(),
            next_ordinal: 0,
        };
        writer.cut_tail()?;
        let mut rows = Vec::new();
        if writer.whole_bytes == 0 {
            // The run was killed before it had written the header.
            writer.write_whole(&csv::header())?;
        } else {
            let reader = CsvRows::open(&writer.csv_path)?;
            if !reader.in_schema_order() {
                return Err(Error::ColumnOrder {
                    path: writer.csv_path,
                });
            }
            rows = reader.collect::<Result<_>>()?;
        }
        // Once the run grows, its old Parquet file no longer agrees with the CSV file.
        match fs::remove_file(&writer.parquet_path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(Error::io("write", &writer.parquet_path, error));
            }
            _ => {}
        }
        let aside = rows_if_any(&folder.join(ROWS_SET_ASIDE))?;
        let all = || rows.iter().chain(&aside);
        writer.row_ids = rows.iter().map(|row| row.row_id.clone()).collect();
        writer.next_ordinal = all().map(|row| ordinal(row) + 1).max().unwrap_or(0);
        Ok(Reopened {
            writer,
            rows,
            torn_bytes: extent.torn_bytes(),
        })
    }

    /// Adds a row. When this returns, the row survives the end of the process.
    ///
    /// # Errors
    /// Fails if the row may not be part of a dataset, exists already, or cannot be written; then the file is as it was.
    pub fn append(&mut self, row: &Row) -> Result<()> {
        row.validate()?;
        if self.row_ids.contains(&row.row_id) {
            return Err(Error::DuplicateRow {
                path: self.csv_path.clone(),
                row_id: row.row_id.clone(),
            });
        }
        self.write_whole(&csv::line(row))?;
        self.row_ids.insert(row.row_id.clone());
        self.next_ordinal = self.next_ordinal.max(ordinal(row) + 1);
        Ok(())
    }

    /// Makes the rows survive a power cut. Costs a round trip to the disk, 0.2 to 2 ms where
    /// `append` costs 8 us. Between points it may disturb the next measurement, so the caller
    /// chooses when to do it.
    ///
    /// # Errors
    /// Fails if the disk refuses.
    pub fn sync(&self) -> Result<()> {
        self.file
            .sync_data()
            .map_err(|source| Error::io("write", &self.csv_path, source))?;
        files::sync_folder_of(&self.csv_path)
    }

    /// The number that the next row is named by.
    pub fn next_ordinal(&self) -> u64 {
        self.next_ordinal
    }

    /// The path of the CSV file.
    pub fn csv_path(&self) -> &Path {
        &self.csv_path
    }

    /// Makes the rows durable and writes `rows.parquet` from them; returns its path. The run can
    /// be taken up again later.
    ///
    /// # Errors
    /// Fails if either file cannot be written. The rows in `rows.csv` are whole in any case.
    pub fn finish(self) -> Result<PathBuf> {
        self.sync()?;
        parquet::write(&self.parquet_path, CsvRows::open(&self.csv_path)?)?;
        Ok(self.parquet_path)
    }

    /// Appends bytes, all or none.
    fn write_whole(&mut self, bytes: &[u8]) -> Result<()> {
        match self.file.write_all(bytes) {
            Ok(()) => {
                self.whole_bytes += bytes.len() as u64;
                Ok(())
            }
            Err(source) => {
                // A full disk may have taken a part. If that cannot be cut off now, `reopen`
                // will do it; the write's error is the one to report.
                let _ = self.cut_tail();
                Err(Error::io("write", &self.csv_path, source))
            }
        }
    }

    fn cut_tail(&mut self) -> Result<()> {
        self.file
            .set_len(self.whole_bytes)
            .map_err(|source| Error::io("write", &self.csv_path, source))
    }
}

/// Keeps other writers out for as long as `file` is open; it ends with the process, however that ends.
fn lock(file: &File, path: &Path) -> Result<()> {
    file.try_lock().map_err(|error| match error {
        TryLockError::WouldBlock => Error::Busy {
            path: path.to_owned(),
        },
        TryLockError::Error(source) => Error::io("lock", path, source),
    })
}

/// The number of bytes up to the end of the last whole row of a CSV file.
fn measure(file: &mut File) -> io::Result<Extent> {
    let mut extent = Extent::default();
    let mut buffer = vec![0; 1 << 16];
    loop {
        match file.read(&mut buffer)? {
            0 => return Ok(extent),
            count => extent.feed(&buffer[..count]),
        }
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;
    use crate::row::skipped;

    #[test]
    fn a_full_disk_is_reported_as_one() {
        let path = PathBuf::from("/dev/full");
        let mut writer = RunWriter {
            file: OpenOptions::new().append(true).open(&path).unwrap(),
            csv_path: path,
            parquet_path: PathBuf::new(),
            whole_bytes: 0,
            row_ids: HashSet::new(),
            next_ordinal: 0,
        };
        let error = writer.write_whole(b"row\n").unwrap_err();
        assert!(matches!(error, Error::NoSpace { .. }), "{error}");
        assert_eq!(writer.whole_bytes, 0);
    }

    #[test]
    fn a_run_has_one_writer() {
        let folder = tempfile::tempdir().unwrap();
        let writer = RunWriter::create(folder.path()).unwrap();
        let error = RunWriter::reopen(folder.path()).unwrap_err();
        assert!(matches!(error, Error::Busy { .. }), "{error}");
        drop(writer);
        RunWriter::reopen(folder.path()).unwrap();
    }

    #[test]
    fn what_a_failed_write_left_is_cut_off() {
        let folder = tempfile::tempdir().unwrap();
        let mut writer = RunWriter::create(folder.path()).unwrap();
        writer.append(&skipped(0)).unwrap();
        // As a disk that fills up in the middle of a row does.
        writer.file.write_all(b"1,run.0000").unwrap();
        writer.cut_tail().unwrap();
        writer.append(&skipped(1)).unwrap();
        assert_eq!(
            crate::read_rows(folder.path()).unwrap(),
            [skipped(0), skipped(1)]
        );
    }
}
