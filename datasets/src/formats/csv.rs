//! Rows as CSV: RFC 4180 with a header, UTF-8, `\n` after every row, missing cells empty.
//!
//! Floats are the shortest text that reads back as the same bits. A file may end in a torn row
//! when its writer was killed; [`Extent`] says where the whole rows end. Large files are read on
//! all cores ([`pieces`]), with the same rows and errors as by [`CsvRows`].

mod pieces;
mod record;
mod scan;

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use ::csv::{Reader, ReaderBuilder, StringRecord, WriterBuilder};

use super::layout::ABSENT;
use super::{TOGETHER, Traces, cell_error, checked, layout};
use crate::error::{Error, Result};
use crate::files::open_regular;
use crate::schema::{COLUMNS, Cell, Row, SCHEMA_VERSION, parse_cell};

/// The header, as one line.
pub fn header() -> Vec<u8> {
    record(COLUMNS.iter().map(|column| column.name))
}

/// A row, as one record with its line end.
pub fn line(row: &Row) -> Vec<u8> {
    record(row.cells().iter().map(Cell::to_string))
}

fn record<T: AsRef<[u8]>>(fields: impl Iterator<Item = T>) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(2048);
    let mut writer = WriterBuilder::new().from_writer(&mut bytes);
    // Writing to memory fails only on records of unequal length, and there is one record.
    let _ = writer.write_record(fields);
    drop(writer);
    bytes
}

/// Finds the end of the last whole record of a CSV stream.
///
/// A record ends at a line end outside quotes. A doubled quote inside a quoted field switches
/// twice, so the parity of the quotes tells inside from outside at every record's end.
#[derive(Debug, Default)]
pub struct Extent {
    in_quotes: bool,
    total: u64,
    whole: u64,
}

impl Extent {
    /// Takes the next bytes of the stream.
    pub fn feed(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.total += 1;
            match byte {
                b'"' => self.in_quotes = !self.in_quotes,
                b'\n' | b'\r' if !self.in_quotes => self.whole = self.total,
                _ => {}
            }
        }
    }

    /// The number of bytes up to the end of the last whole record.
    pub fn whole_bytes(&self) -> u64 {
        self.whole
    }

    /// The number of bytes after it.
    pub fn torn_bytes(&self) -> u64 {
        self.total - self.whole
    }
}

/// A stream that knows how far its whole records reach.
struct Measured<R> {
    inner: R,
    extent: Extent,
}

impl<R: Read> Read for Measured<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.inner.read(buffer)?;
        self.extent.feed(&buffer[..count]);
        Ok(count)
    }
}

/// The rows of a CSV file.
pub struct CsvRows {
    path: PathBuf,
    reader: Reader<Measured<File>>,
    record: StringRecord,
    positions: Vec<usize>,
    traces: Traces,
}

/// Smaller files are read before threads have woken.
const LARGE_BYTES: u64 = 4 * pieces::PIECE_BYTES;

/// Hands out all rows of a file in their order, some at a time.
///
/// # Errors
/// Fails where [`CsvRows`] would, and with the errors of `take`.
pub(super) fn read_batches<E: From<Error> + Send>(
    path: &Path,
    traces: Traces,
    take: &mut pieces::Take<'_, E>,
) -> Result<(), E> {
    let mut patient = CsvRows::open(path)?;
    patient.traces = traces;
    let mut taken = 0;
    let in_pieces = patient.read_large(&mut |rows: &mut Vec<Row>| {
        taken += rows.len();
        take(rows)
    });
    match in_pieces {
        Ok(()) => return Ok(()),
        Err(pieces::Stop::Taker(error)) => return Err(error),
        Err(pieces::Stop::Odd) => {}
    }
    let mut rest = patient.skip(taken);
    loop {
        let together = rest.by_ref().take(TOGETHER);
        let mut rows = together.collect::<Result<Vec<_>>>()?;
        if rows.is_empty() {
            return Ok(());
        }
        take(&mut rows)?;
    }
}

impl CsvRows {
    /// Opens a file and reads its header. Columns may be in any order.
    ///
    /// # Errors
    /// Fails if the file cannot be read or its columns are not the schema's.
    pub fn open(path: &Path) -> Result<Self> {
        let file = open_regular(path).map_err(|source| Error::io("read", path, source))?;
        let mut reader = ReaderBuilder::new()
            // Records of the wrong length get a message of their own below.
            .flexible(true)
            .buffer_capacity(1 << 16)
            .from_reader(Measured {
                inner: file,
                extent: Extent::default(),
            });
        let names = reader
            .headers()
            .map_err(|error| csv_error(path, &[], error))?
            .clone();
        if names.is_empty() {
            return Err(Error::Empty {
                path: path.to_owned(),
            });
        }
        let names: Vec<&str> = names.iter().collect();
        let positions = match layout::positions(path, &names) {
            Ok(positions) => positions,
            Err(error) => return Err(foreign_version(path, &names, &mut reader).unwrap_or(error)),
        };
        Ok(Self {
            path: path.to_owned(),
            reader,
            record: StringRecord::new(),
            positions,
            traces: Traces::Keep,
        })
    }

    fn read(&mut self) -> Result<Option<Row>> {
        let more = self
            .reader
            .read_record(&mut self.record)
            .map_err(|error| csv_error(&self.path, &self.positions, error))?;
        if !more {
            return Ok(None);
        }
        let line = self.record.position().map_or(0, ::csv::Position::line);
        let damaged = |detail: String| Error::Record {
            path: self.path.clone(),
            line,
            detail,
        };
        if self.reader.position().byte() > self.reader.get_ref().extent.whole_bytes() {
            return Err(damaged(
                "the last row is torn: its writer was stopped while writing; resume that run, or \
                 delete the line"
                    .to_owned(),
            ));
        }
        let fields = fields(&self.positions);
        if self.record.len() != fields {
            return Err(damaged(format!(
                "expected {} fields, found {}; a quote or a comma is out of place",
                fields,
                self.record.len()
            )));
        }
        let mut cells = Vec::with_capacity(COLUMNS.len());
        for (column, &position) in COLUMNS.iter().zip(&self.positions) {
            if self.traces.skips(column) || position == ABSENT {
                cells.push(Cell::Missing);
                continue;
            }
            let cell = parse_cell(column.ty.storage(), &self.record[position])
                .map_err(|detail| cell_error(&self.path, line, column.name, detail))?;
            cells.push(cell);
        }
        let row = Row::from_cells(cells)
            .map_err(|error| cell_error(&self.path, line, error.column, error.detail))?;
        checked(&self.path, line, row).map(Some)
    }

    /// Hands out the rows after the header of a large file, as long as all is as it should be.
    fn read_large<E: Send>(&self, take: &mut pieces::Take<'_, E>) -> Result<(), pieces::Stop<E>> {
        let odd = |_: io::Error| pieces::Stop::Odd;
        let file = File::open(&self.path).map_err(odd)?;
        let first = self.reader.position().byte();
        if file.metadata().map_err(odd)?.len() < LARGE_BYTES || first == 0 {
            return Err(pieces::Stop::Odd);
        }
        let mut before = [0];
        file.read_exact_at(&mut before, first - 1).map_err(odd)?;
        if before != [b'\n'] {
            return Err(pieces::Stop::Odd);
        }
        let reading = pieces::PieceReader {
            file: &file,
            positions: &self.positions,
            skipped: COLUMNS.iter().position(|column| self.traces.skips(column)),
            piece_bytes: pieces::PIECE_BYTES,
            spare: &pieces::Spare::default(),
        };
        reading.each(first, take)
    }

    /// Whether the file's columns are in the schema's order, which appending needs.
    pub fn in_schema_order(&self) -> bool {
        self.positions
            .iter()
            .enumerate()
            .all(|(wanted, &found)| wanted == found)
    }
}

impl Iterator for CsvRows {
    type Item = Result<Row>;

    fn next(&mut self) -> Option<Self::Item> {
        self.read().transpose()
    }
}

/// Fields of a record of a file with its columns at these positions.
fn fields(positions: &[usize]) -> usize {
    positions.iter().filter(|&&p| p != ABSENT).count()
}

/// If the first row says it is of another schema version, that is the better error than a list
/// of columns.
fn foreign_version<R: Read>(path: &Path, names: &[&str], reader: &mut Reader<R>) -> Option<Error> {
    let position = names.iter().position(|name| *name == "schema_version")?;
    let record = reader.records().next()?.ok()?;
    let found = record.get(position)?.parse().ok()?;
    (found != SCHEMA_VERSION).then(|| Error::SchemaVersion {
        path: path.to_owned(),
        found,
    })
}

/// An error of the CSV parser; `positions` name the column, once the header is read.
fn csv_error(path: &Path, positions: &[usize], error: ::csv::Error) -> Error {
    let line = error.position().map_or(1, ::csv::Position::line);
    let record = |detail: String| Error::Record {
        path: path.to_owned(),
        line,
        detail,
    };
    match error.into_kind() {
        ::csv::ErrorKind::Io(source) => Error::io("read", path, source),
        ::csv::ErrorKind::Utf8 { err, .. } => {
            let detail = "the text is not UTF-8".to_owned();
            match positions
                .iter()
                .position(|&position| position == err.field())
            {
                Some(column) => cell_error(path, line, COLUMNS[column].name, detail),
                None => record(detail),
            }
        }
        other => record(format!("{other:?}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn extent(bytes: &[u8]) -> (u64, u64) {
        let mut extent = Extent::default();
        extent.feed(bytes);
        (extent.whole_bytes(), extent.torn_bytes())
    }

    #[test]
    fn torn_tails_are_measured() {
        assert_eq!(extent(b""), (0, 0));
        assert_eq!(extent(b"a,b\n"), (4, 0));
        assert_eq!(extent(b"a,b\nc"), (4, 1));
        assert_eq!(
            extent(b"a,b\n\"c\n"),
            (4, 3),
            "a line end inside quotes ends nothing"
        );
        assert_eq!(extent(b"a,b\n\"c\"\"\n\",d\n"), (13, 0));
    }

    #[test]
    fn large_files_are_read_in_pieces_with_the_same_rows_and_errors() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("rows.csv");
        let mut text = header();
        let one = line(&crate::row::skipped(1));
        while (text.len() as u64) < LARGE_BYTES {
            text.extend_from_slice(&one);
        }
        std::fs::write(&path, &text).unwrap();
        let count = (text.len() - header().len()) / one.len();
        let mut in_pieces = 0;
        let read = CsvRows::open(&path)
            .unwrap()
            .read_large(&mut |rows: &mut Vec<Row>| {
                in_pieces += rows.len();
                Ok::<_, ()>(())
            });
        assert_eq!((read, in_pieces), (Ok(()), count));
        let wanted = vec![crate::row::skipped(1); count];
        assert!(crate::read_rows(&path).unwrap() == wanted);

        // A fault in the last row: all others are handed out once, whoever reads them.
        let damaged = text.len() - one.len() / 2;
        text[damaged] = b'"';
        std::fs::write(&path, &text).unwrap();
        let patient = CsvRows::open(&path).unwrap().collect::<Result<Vec<_>>>();
        let mut handed_out = 0;
        let error = crate::read_batches(&path, Traces::Skip, |rows: &mut Vec<Row>| {
            handed_out += rows.len();
            Ok::<_, Error>(())
        });
        assert_eq!(
            error.unwrap_err().to_string(),
            patient.unwrap_err().to_string()
        );
        assert!(handed_out < count && handed_out > count / 2, "{handed_out}");
    }

    #[test]
    fn the_header_is_one_line_without_quotes() {
        let header = String::from_utf8(header()).unwrap();
        assert!(header.starts_with("schema_version,row_id,run_id,"));
        assert!(header.ends_with(",emulated,knob_algorithm\n"));
        assert!(!header.contains('"'));
    }
}
