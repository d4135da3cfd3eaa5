//! Reading: a row group at a time, column by column, then row by row.

use std::fs::File;
use std::path::{Path, PathBuf};

use ::parquet::basic::{Compression, ConvertedType, LogicalType};
use ::parquet::column::reader::{ColumnReader, ColumnReaderImpl};
use ::parquet::data_type::{ByteArray, DataType};
use ::parquet::errors::ParquetError;
use ::parquet::file::metadata::KeyValue;
use ::parquet::file::reader::{FileReader, RowGroupReader, SerializedFileReader};

use super::{VERSION_KEY, checksum, physical};
use crate::error::{Error, Result};
use crate::files::open_regular;
use crate::formats::{cell_error, checked, layout};
use crate::schema::{COLUMNS, Cell, Row, SCHEMA_VERSION, text_cell};

/// How to replace a damaged file.
const FIX: &str = "read the run's rows.csv instead, or finish the run again to write it anew";

/// The rows of a Parquet file.
pub struct ParquetRows {
    path: PathBuf,
    reader: SerializedFileReader<File>,
    positions: Vec<usize>,
    next_group: usize,
    /// Rows of the groups before the current one.
    rows_before: u64,
    group: Vec<std::vec::IntoIter<Cell<'static>>>,
    group_rows: usize,
    row_in_group: usize,
}

impl ParquetRows {
    /// Opens a file and reads its schema. Columns may be in any order; files of other writers
    /// are read too if their columns hold the same types.
    ///
    /// # Errors
    /// Fails if the file cannot be read, is damaged, or its columns are not the schema's.
    pub fn open(path: &Path) -> Result<Self> {
        let unreadable = |source| Error::io("read", path, source);
        let mut file = open_regular(path).map_err(unreadable)?;
        if !checksum::is_intact(&mut file).map_err(unreadable)? {
            return Err(Error::Damaged {
                path: path.to_owned(),
                detail: "its bytes are not those that its checksum was made of".to_owned(),
                fix: FIX,
            });
        }
        let reader = SerializedFileReader::new(file).map_err(|error| damaged(path, &error))?;
        let metadata = reader.metadata().file_metadata();
        if let Some(found) = stored_version(metadata.key_value_metadata())
            && found != SCHEMA_VERSION
        {
            return Err(Error::SchemaVersion {
                path: path.to_owned(),
                found,
            });
        }
        let columns = metadata.schema_descr().columns();
        let names: Vec<&str> = columns.iter().map(|column| column.name()).collect();
        let positions = layout::positions(path, &names)?;
        for (column, &position) in COLUMNS.iter().zip(&positions) {
            if position == layout::ABSENT {
                continue;
            }
            let descriptor = &columns[position];
            let wanted = physical(column.ty.storage());
            let found = descriptor.physical_type();
            if found != wanted || descriptor.max_rep_level() > 0 || descriptor.max_def_level() > 1 {
                let detail = format!("expected plain {wanted} values, found {found}");
                return Err(cell_error(path, 1, column.name, detail));
            }
        }
        for group in reader.metadata().row_groups() {
            for column in group.columns() {
                let codec = column.compression();
                if !matches!(codec, Compression::UNCOMPRESSED | Compression::SNAPPY) {
                    return Err(Error::Compression {
                        path: path.to_owned(),
                        codec: codec.to_string(),
                    });
                }
            }
        }
        Ok(Self {
            path: path.to_owned(),
            reader,
            positions,
            next_group: 0,
            rows_before: 0,
            group: Vec::new(),
            group_rows: 0,
            row_in_group: 0,
        })
    }

    fn read(&mut self) -> Result<Option<Row>> {
        while self.row_in_group == self.group_rows {
            if self.next_group == self.reader.num_row_groups() {
                return Ok(None);
            }
            self.read_group()?;
        }
        self.row_in_group += 1;
        let number = self.rows_before + self.row_in_group as u64;
        let cells = self
            .group
            .iter_mut()
            .map(|cells| cells.next().unwrap_or(Cell::Missing));
        let row = Row::from_cells(cells)
            .map_err(|error| cell_error(&self.path, number, error.column, error.detail))?;
        checked(&self.path, number, row).map(Some)
    }

    fn read_group(&mut self) -> Result<()> {
        self.rows_before += self.group_rows as u64;
        let group = self
            .reader
            .get_row_group(self.next_group)
            .map_err(|error| damaged(&self.path, &error))?;
        let rows = usize::try_from(group.metadata().num_rows()).unwrap_or(0);
        self.group = COLUMNS
            .iter()
            .zip(&self.positions)
            .map(|(column, &position)| {
                if position == layout::ABSENT {
                    return Ok(vec![Cell::Missing; rows].into_iter());
                }
                match read_column(group.as_ref(), position, rows) {
                    Ok(cells) => Ok(cells.into_iter()),
                    Err(Fault::File(error)) => Err(damaged(&self.path, &error)),
                    Err(Fault::Cell { row, detail }) => {
                        let number = self.rows_before + row as u64 + 1;
                        Err(cell_error(&self.path, number, column.name, detail))
                    }
                }
            })
            .collect::<Result<_>>()?;
        self.next_group += 1;
        self.group_rows = rows;
        self.row_in_group = 0;
        Ok(())
    }
}

impl Iterator for ParquetRows {
    type Item = Result<Row>;

    fn next(&mut self) -> Option<Self::Item> {
        self.read().transpose()
    }
}

/// Why a column could not be read.
enum Fault {
    /// The file is damaged.
    File(ParquetError),
    /// A value is not one of the schema's; rows count from 0 in the row group.
    Cell { row: usize, detail: String },
}

impl From<ParquetError> for Fault {
    fn from(error: ParquetError) -> Self {
        Self::File(error)
    }
}

/// The cells of a column in a row group.
fn read_column(
    group: &dyn RowGroupReader,
    position: usize,
    rows: usize,
) -> Result<Vec<Cell<'static>>, Fault> {
    let descriptor = group.metadata().column(position).column_descr_ptr();
    let nullable = descriptor.max_def_level() > 0;
    // Some writers state that an integer is unsigned in the older annotation only.
    let unsigned = descriptor.converted_type() == ConvertedType::UINT_64
        || matches!(
            descriptor.logical_type_ref(),
            Some(LogicalType::Integer(integer)) if !integer.is_signed
        );
    match group.get_column_reader(position)? {
        ColumnReader::Int64ColumnReader(reader) => cells(reader, nullable, rows, |value: i64| {
            if !unsigned && value < 0 {
                return Err(format!("expected an unsigned integer, found `{value}`"));
            }
            Ok(Cell::Integer(value.cast_unsigned()))
        }),
        ColumnReader::DoubleColumnReader(reader) => {
            cells(reader, nullable, rows, |value: f64| Ok(Cell::Float(value)))
        }
        ColumnReader::ByteArrayColumnReader(reader) => {
            cells(reader, nullable, rows, |value: ByteArray| {
                match value.as_utf8() {
                    Ok(text) => Ok(text_cell(text.to_owned().into())),
                    Err(_) => Err("the text is not UTF-8".to_owned()),
                }
            })
        }
        _ => Err(ParquetError::General("a column changed its type".to_owned()).into()),
    }
}

fn cells<T: DataType>(
    mut reader: ColumnReaderImpl<T>,
    nullable: bool,
    rows: usize,
    convert: impl Fn(T::T) -> Result<Cell<'static>, String>,
) -> Result<Vec<Cell<'static>>, Fault> {
    let mut levels = Vec::new();
    let mut values = Vec::new();
    let mut read = 0;
    while read < rows {
        let (records, _, _) =
            reader.read_records(rows - read, Some(&mut levels), None, &mut values)?;
        if records == 0 {
            return Err(ParquetError::EOF(format!("a column has {read} of {rows} values")).into());
        }
        read += records;
    }
    if !nullable {
        levels = vec![1; rows];
    }
    let mut values = values.into_iter();
    let mut cells = Vec::with_capacity(rows);
    for (row, level) in levels.into_iter().enumerate() {
        let value = if level == 0 { None } else { values.next() };
        cells.push(match value {
            Some(value) => convert(value).map_err(|detail| Fault::Cell { row, detail })?,
            None => Cell::Missing,
        });
    }
    Ok(cells)
}

fn stored_version(metadata: Option<&Vec<KeyValue>>) -> Option<u64> {
    let entry = metadata?.iter().find(|entry| entry.key == VERSION_KEY)?;
    entry.value.as_ref()?.parse().ok()
}

fn damaged(path: &Path, error: &ParquetError) -> Error {
    Error::Damaged {
        path: path.to_owned(),
        detail: error.to_string(),
        fix: FIX,
    }
}
