//! Writing: rows are gathered by column, and each full set becomes a row group.

use std::io::{self, Write as _};
use std::path::Path;
use std::sync::Arc;

use ::parquet::basic::{Compression, LogicalType, Repetition};
use ::parquet::data_type::{ByteArray, ByteArrayType, DoubleType, Int64Type};
use ::parquet::errors::ParquetError;
use ::parquet::file::metadata::KeyValue;
use ::parquet::file::properties::WriterProperties;
use ::parquet::file::writer::{SerializedColumnWriter, SerializedFileWriter};
use ::parquet::schema::types::{Type, TypePtr};

use super::{VERSION_KEY, checksum, physical};
use crate::error::{Error, Result};
use crate::files;
use crate::schema::{COLUMNS, Cell, Column, Presence, Row, SCHEMA_VERSION, Storage};

/// Rows of a row group: enough to compress well, few enough to hold in memory with long traces.
const GROUP_ROWS: usize = 8_192;

/// Writes rows to `path`, replacing it as a whole; returns their number.
///
/// # Errors
/// Fails with the first error among the rows, on a row that may not be part of a dataset, or if the file cannot be
/// written.
pub fn write(path: &Path, rows: impl Iterator<Item = Result<Row>>) -> Result<u64> {
    let schema = file_schema(column_type).map_err(|error| write_error(path, error))?;
    write_as(path, schema, rows)
}

/// Writes rows with a file schema of the caller's choice.
fn write_as(path: &Path, schema: TypePtr, rows: impl Iterator<Item = Result<Row>>) -> Result<u64> {
    files::replace(path, |file| {
        let failed = |error| write_error(path, error);
        let properties = WriterProperties::builder()
            .set_compression(Compression::SNAPPY)
            .set_key_value_metadata(Some(vec![
                KeyValue::new(VERSION_KEY.to_owned(), SCHEMA_VERSION.to_string()),
                KeyValue::new(checksum::KEY.to_owned(), checksum::PLACEHOLDER.to_owned()),
            ]))
            .build();
        let mut writer =
            SerializedFileWriter::new(&mut *file, schema, Arc::new(properties)).map_err(failed)?;
        let mut buffers: Vec<Buffer> = COLUMNS.iter().map(Buffer::new).collect();
        let (mut count, mut pending) = (0, 0);
        for row in rows {
            let row = row?;
            row.validate()?;
            for (buffer, cell) in buffers.iter_mut().zip(row.cells()) {
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
        file.flush()
            .and_then(|()| checksum::seal(file.get_mut()))
            .map_err(|source| Error::io("write", path, source))?;
        Ok(count)
    })
}

fn file_schema(
    column_type: impl Fn(&Column) -> Result<Type, ParquetError>,
) -> Result<TypePtr, ParquetError> {
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
    let storage = column.ty.storage();
    let logical = match storage {
        Storage::Integer => Some(LogicalType::integer(64, false)),
        Storage::Float => None,
        Storage::Text => Some(LogicalType::String),
    };
    Type::primitive_type_builder(column.name, physical(storage))
        .with_logical_type(logical)
        .with_repetition(repetition(column.presence))
        .build()
}

fn repetition(presence: Presence) -> Repetition {
    match presence {
        Presence::Required => Repetition::REQUIRED,
        Presence::Optional => Repetition::OPTIONAL,
    }
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

/// The crate wraps the system's errors; a full disk must still be reported as one.
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

#[cfg(test)]
mod tests {
    use ::parquet::basic::ConvertedType;

    use super::*;
    use crate::row::skipped;

    /// The seeds as read from a file whose integers are annotated like this.
    fn seeds_through(annotation: ConvertedType, seeds: &[u64]) -> Result<Vec<Option<u64>>, String> {
        let rows = seeds.iter().zip(0..).map(|(&seed, ordinal)| {
            Ok(Row {
                seed: Some(seed),
                ..skipped(ordinal)
            })
        });
        let schema = file_schema(|column| match column.ty.storage() {
            Storage::Integer => {
                Type::primitive_type_builder(column.name, physical(Storage::Integer))
                    .with_converted_type(annotation)
                    .with_repetition(repetition(column.presence))
                    .build()
            }
            _ => column_type(column),
        })
        .unwrap();
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("rows.parquet");
        write_as(&path, schema, rows).unwrap();
        match crate::read_rows(&path) {
            Ok(rows) => Ok(rows.iter().map(|row| row.seed).collect()),
            Err(error) => Err(error
                .to_string()
                .replace(&format!("{}/", folder.path().display()), "")),
        }
    }

    #[test]
    fn integers_of_other_writers_keep_their_sign() {
        let seeds = seeds_through(ConvertedType::UINT_64, &[u64::MAX]);
        assert_eq!(
            seeds,
            Ok(vec![Some(u64::MAX)]),
            "the older annotation alone"
        );
        let seeds = seeds_through(ConvertedType::NONE, &[7]);
        assert_eq!(seeds, Ok(vec![Some(7)]), "signed, but not negative");
    }

    #[test]
    fn a_fault_is_reported_with_the_number_of_its_row() {
        let mut seeds = vec![1; GROUP_ROWS + 10];
        seeds[GROUP_ROWS + 4] = u64::MAX;
        let error = seeds_through(ConvertedType::NONE, &seeds).unwrap_err();
        let row = GROUP_ROWS + 5;
        assert_eq!(
            error,
            format!("rows.parquet:{row}: column `seed`: expected an unsigned integer, found `-1`")
        );
    }

    #[test]
    fn bad_rows_do_not_get_in() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("rows.parquet");
        let row = Row {
            point_id: String::new(),
            ..skipped(0)
        };
        let written = write(&path, std::iter::once(Ok(row)));
        assert!(matches!(written, Err(Error::InvalidRow(_))));
        assert!(!path.exists());
    }
}
