//! Rows as Parquet: one flat column for each of the schema's, Snappy, the schema version in the
//! file's metadata.
//!
//! Integers are INT64 annotated as unsigned, floats DOUBLE, everything else UTF-8 text, missing
//! cells null. Written with the crate's column API, a row group at a time, so that memory stays
//! bounded and Arrow is not needed.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ::parquet::basic::{Compression, LogicalType, Repetition, Type as Physical};
use ::parquet::column::reader::{ColumnReader, ColumnReaderImpl};
use ::parquet::data_type::{ByteArray, ByteArrayType, DataType, DoubleType, Int64Type};
use ::parquet::errors::ParquetError;
use ::parquet::file::metadata::KeyValue;
use ::parquet::file::properties::WriterProperties;
use ::parquet::file::reader::{FileReader, RowGroupReader, SerializedFileReader};
use ::parquet::file::writer::{SerializedColumnWriter, SerializedFileWriter};
use ::parquet::schema::types::{Type, TypePtr};

use super::{cell_error, checked, layout};
use crate::error::{Error, Result};
use crate::files;
use crate::schema::{COLUMNS, Cell, Column, Presence, Row, SCHEMA_VERSION, Storage};

/// The metadata key of the schema version.
const VERSION_KEY: &str = "opbench.schema_version";
/// Rows of a row group: large enough to compress well, small enough to hold in memory.
const GROUP_ROWS: usize = 16_384;
/// What to do about a damaged file.
const FIX: &str = "read the run's rows.csv instead, or finish the run again to write it anew";

/// Writes rows to `path`, replacing it as a whole; returns their number.
///
/// # Errors
/// The first error among the rows, or that the file cannot be written.
pub fn write(path: &Path, rows: impl Iterator<Item = Result<Row>>) -> Result<u64> {
    files::replace(path, |file| {
        let failed = |error| write_error(path, error);
        let properties = WriterProperties::builder()
            .set_compression(Compression::SNAPPY)
            .set_key_value_metadata(Some(vec![KeyValue::new(
                VERSION_KEY.to_owned(),
                SCHEMA_VERSION.to_string(),
            )]))
            .build();
        let schema = file_schema().map_err(failed)?;
        let mut writer =
            SerializedFileWriter::new(file, schema, Arc::new(properties)).map_err(failed)?;
        let mut buffers: Vec<Buffer> = COLUMNS.iter().map(Buffer::new).collect();
        let (mut count, mut pending) = (0, 0);
        for row in rows {
            for (buffer, cell) in buffers.iter_mut().zip(row?.cells()) {
                buffer.push(cell);
            }
            count += 1;
            pending += 1;
            if pending == GROUP_ROWS {
                write_group(&mut writer, &mut buffers).map_err(failed)?;
                pending = 0;
            }
        }
        if pending > 0 {
            write_group(&mut writer, &mut buffers).map_err(failed)?;
        }
        writer.close().map_err(failed)?;
        Ok(count)
    })
}

fn file_schema() -> Result<TypePtr, ParquetError> {
    let fields = COLUMNS
        .iter()
        .map(|column| column_type(column).map(Arc::new));
    let fields = fields.collect::<Result<Vec<_>, _>>()?;
    Type::group_type_builder("row")
        .with_fields(fields)
        .build()
        .map(Arc::new)
}

fn column_type(column: &Column) -> Result<Type, ParquetError> {
    let (physical, logical) = match column.ty.storage() {
        Storage::Integer => (Physical::INT64, Some(LogicalType::integer(64, false))),
        Storage::Float => (Physical::DOUBLE, None),
        Storage::Text => (Physical::BYTE_ARRAY, Some(LogicalType::String)),
    };
    let repetition = match column.presence {
        Presence::Required => Repetition::REQUIRED,
        Presence::Optional => Repetition::OPTIONAL,
    };
    Type::primitive_type_builder(column.name, physical)
        .with_logical_type(logical)
        .with_repetition(repetition)
        .build()
}

fn write_group<W: io::Write + Send>(
    writer: &mut SerializedFileWriter<W>,
    buffers: &mut [Buffer],
) -> Result<(), ParquetError> {
    let mut group = writer.next_row_group()?;
    for buffer in buffers {
        let Some(column) = group.next_column()? else {
            return Err(ParquetError::General(
                "the schema has fewer columns".to_owned(),
            ));
        };
        buffer.write(column)?;
    }
    group.close()?;
    Ok(())
}

/// The cells of one column in the pending row group: values, and for each row whether it has one.
struct Buffer {
    presence: Presence,
    present: Vec<i16>,
    values: Values,
}

/// The values of one column, without gaps.
enum Values {
    Integer(Vec<i64>),
    Float(Vec<f64>),
    Text(Vec<ByteArray>),
}

impl Buffer {
    fn new(column: &Column) -> Self {
        let values = match column.ty.storage() {
            Storage::Integer => Values::Integer(Vec::new()),
            Storage::Float => Values::Float(Vec::new()),
            Storage::Text => Values::Text(Vec::new()),
        };
        Self {
            presence: column.presence,
            present: Vec::new(),
            values,
        }
    }

    fn push(&mut self, cell: Cell<'_>) {
        let level = match (&mut self.values, cell) {
            (Values::Integer(values), Cell::Integer(value)) => {
                values.push(value.cast_signed());
                1
            }
            (Values::Float(values), Cell::Float(value)) => {
                values.push(value);
                1
            }
            (Values::Text(values), Cell::Text(text)) => {
                values.push(ByteArray::from(text.into_owned().into_bytes()));
                1
            }
            // A field's cell has its column's storage; what is left is `Missing`.
            _ => 0,
        };
        self.present.push(level);
    }

    fn write(&mut self, mut column: SerializedColumnWriter<'_>) -> Result<(), ParquetError> {
        let levels = match self.presence {
            Presence::Required => None,
            Presence::Optional => Some(self.present.as_slice()),
        };
        match &mut self.values {
            Values::Integer(values) => {
                column
                    .typed::<Int64Type>()
                    .write_batch(values, levels, None)?;
                values.clear();
            }
            Values::Float(values) => {
                column
                    .typed::<DoubleType>()
                    .write_batch(values, levels, None)?;
                values.clear();
            }
            Values::Text(values) => {
                column
                    .typed::<ByteArrayType>()
                    .write_batch(values, levels, None)?;
                values.clear();
            }
        }
        self.present.clear();
        column.close()
    }
}

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
    /// If the file cannot be read, is damaged, or its columns are not the schema's.
    pub fn open(path: &Path) -> Result<Self> {
        let file = File::open(path).map_err(|source| Error::io("read", path, source))?;
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
            let descriptor = &columns[position];
            let fits = descriptor.max_rep_level() == 0
                && descriptor.max_def_level() <= 1
                && match column.ty.storage() {
                    Storage::Integer => descriptor.physical_type() == Physical::INT64,
                    Storage::Float => descriptor.physical_type() == Physical::DOUBLE,
                    Storage::Text => descriptor.physical_type() == Physical::BYTE_ARRAY,
                };
            if !fits {
                let detail = format!(
                    "expected {:?} values, found {}",
                    column.ty.storage(),
                    descriptor.physical_type()
                );
                return Err(cell_error(path, 1, column.name, detail));
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
                let cells = read_column(group.as_ref(), position, rows)
                    .map_err(|error| damaged(&self.path, &error))?
                    .map_err(|detail| {
                        cell_error(&self.path, self.rows_before + 1, column.name, detail)
                    })?;
                Ok(cells.into_iter())
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

/// The cells of a column in a row group: damage of the file outside, of a value inside.
fn read_column(
    group: &dyn RowGroupReader,
    position: usize,
    rows: usize,
) -> Result<Result<Vec<Cell<'static>>, String>, ParquetError> {
    let descriptor = group.metadata().column(position).column_descr_ptr();
    let nullable = descriptor.max_def_level() > 0;
    let signed = matches!(
        descriptor.logical_type_ref(),
        None | Some(LogicalType::Integer(::parquet::basic::IntType {
            is_signed: true,
            ..
        }))
    );
    match group.get_column_reader(position)? {
        ColumnReader::Int64ColumnReader(reader) => cells(reader, nullable, rows, |value: i64| {
            if signed && value < 0 {
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
                    Ok(text) => Ok(crate::schema::text_cell(text.to_owned().into())),
                    Err(_) => Err("the text is not UTF-8".to_owned()),
                }
            })
        }
        _ => Err(ParquetError::General(
            "a column changed its type".to_owned(),
        )),
    }
}

fn cells<T: DataType>(
    mut reader: ColumnReaderImpl<T>,
    nullable: bool,
    rows: usize,
    convert: impl Fn(T::T) -> Result<Cell<'static>, String>,
) -> Result<Result<Vec<Cell<'static>>, String>, ParquetError> {
    let mut levels = Vec::new();
    let mut values = Vec::new();
    let mut read = 0;
    while read < rows {
        let (records, _, _) =
            reader.read_records(rows - read, Some(&mut levels), None, &mut values)?;
        if records == 0 {
            return Err(ParquetError::EOF(format!(
                "a column has {read} of {rows} values"
            )));
        }
        read += records;
    }
    if !nullable {
        levels = vec![1; rows];
    }
    let mut values = values.into_iter();
    Ok(levels
        .into_iter()
        .map(|level| match level {
            0 => Ok(Cell::Missing),
            _ => values.next().map_or(Ok(Cell::Missing), &convert),
        })
        .collect())
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

/// The crate wraps the system's errors; a full disk must still be told as one.
fn write_error(path: &Path, error: ParquetError) -> Error {
    let source = match error {
        ParquetError::External(inner) => match inner.downcast::<io::Error>() {
            Ok(source) => *source,
            Err(other) => io::Error::other(other),
        },
        other => io::Error::other(other),
    };
    Error::io("write", path, source)
}
