//! `events.parquet`: all events, a row group for each stream.

use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use parquet::basic::Compression;
use parquet::data_type::{ByteArray, ByteArrayType, DataType, DoubleType, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::parser::parse_message_type;

use crate::error::{Error, Result, io_at};
use crate::export::table::{TableRow, row};
use crate::profile::Profile;
use crate::view::Viewer;

const SCHEMA: &str = "message event {
    required binary engine (UTF8);
    optional int64 core;
    optional int64 port;
    required int64 global_idx;
    required int64 cmd_id;
    required int64 start_ns;
    required int64 end_ns;
    required int64 cycles;
    required binary function_type (UTF8);
    required binary function_name (UTF8);
    optional binary direction (UTF8);
    optional binary data_type (UTF8);
    optional int64 bytes;
    optional double alg_ops;
    optional double uarch_ops;
    optional binary kernel (UTF8);
    optional int64 launch;
    optional int64 batch;
    optional binary mode (UTF8);
    optional int64 layer;
    optional binary layer_name (UTF8);
    required binary certainty (UTF8);
}";

/// Writes the file.
pub fn write(profile: &Profile, path: &Path) -> Result<()> {
    let file = File::create(path).map_err(io_at(path, "cannot write"))?;
    let failed = |error: ParquetError| Error::Io {
        path: path.to_path_buf(),
        action: "cannot write",
        reason: std::io::Error::other(error),
    };
    let schema = Arc::new(parse_message_type(SCHEMA).map_err(failed)?);
    // Missing or doubtful data, in the file's metadata.
    let damage = profile.report.headline();
    let properties = WriterProperties::builder()
        .set_compression(Compression::SNAPPY)
        .set_key_value_metadata(Some(vec![KeyValue::new("damage".to_string(), damage)]))
        .build();
    let mut writer =
        SerializedFileWriter::new(file, schema, Arc::new(properties)).map_err(failed)?;
    for (stream, events) in profile.streams() {
        let Some(viewer) = Viewer::new(profile, stream) else {
            continue;
        };
        // Groups of bounded size keep the memory bounded too.
        for (part, chunk) in events.chunks(1 << 16).enumerate() {
            let rows: Vec<TableRow> = chunk
                .iter()
                .enumerate()
                .map(|(i, event)| row(profile, &viewer.view(part * (1 << 16) + i, event)))
                .collect();
            let mut group = writer.next_row_group().map_err(failed)?;
            write_group(&mut group, &rows).map_err(failed)?;
            group.close().map_err(failed)?;
            viewer.release();
        }
    }
    writer.close().map_err(failed)?;
    Ok(())
}

type Group<'a> = SerializedRowGroupWriter<'a, File>;

fn column<T: DataType>(
    group: &mut Group,
    values: &[T::T],
    levels: Option<&[i16]>,
) -> std::result::Result<(), ParquetError> {
    let Some(mut column) = group.next_column()? else {
        return Ok(());
    };
    column.typed::<T>().write_batch(values, levels, None)?;
    column.close()
}

fn required<T: DataType>(
    group: &mut Group,
    values: Vec<T::T>,
) -> std::result::Result<(), ParquetError> {
    column::<T>(group, &values, None)
}

fn optional<T: DataType>(
    group: &mut Group,
    values: Vec<Option<T::T>>,
) -> std::result::Result<(), ParquetError> {
    let levels: Vec<i16> = values.iter().map(|v| i16::from(v.is_some())).collect();
    let present: Vec<T::T> = values.into_iter().flatten().collect();
    column::<T>(group, &present, Some(&levels))
}

fn write_group(group: &mut Group, rows: &[TableRow]) -> std::result::Result<(), ParquetError> {
    let text = |value: &str| ByteArray::from(value);
    let texts = |of: &dyn Fn(&TableRow) -> ByteArray| rows.iter().map(of).collect::<Vec<_>>();
    let ints = |of: &dyn Fn(&TableRow) -> i64| rows.iter().map(of).collect::<Vec<_>>();
    let maybe_ints = |of: &dyn Fn(&TableRow) -> Option<u64>| {
        rows.iter()
            .map(|r| of(r).map(|v| v as i64))
            .collect::<Vec<_>>()
    };
    let maybe_texts = |of: &dyn for<'r> Fn(&'r TableRow<'_>) -> Option<&'r str>| {
        rows.iter()
            .map(|r| of(r).map(ByteArray::from))
            .collect::<Vec<_>>()
    };
    required::<ByteArrayType>(group, texts(&|r| text(r.engine)))?;
    optional::<Int64Type>(group, maybe_ints(&|r| r.core.map(u64::from)))?;
    optional::<Int64Type>(group, maybe_ints(&|r| r.port.map(u64::from)))?;
    required::<Int64Type>(group, ints(&|r| r.global_idx as i64))?;
    required::<Int64Type>(group, ints(&|r| r.cmd_id as i64))?;
    required::<Int64Type>(group, ints(&|r| r.start_ns))?;
    required::<Int64Type>(group, ints(&|r| r.end_ns))?;
    required::<Int64Type>(group, ints(&|r| r.cycles as i64))?;
    required::<ByteArrayType>(group, texts(&|r| text(&r.function_type)))?;
    required::<ByteArrayType>(group, texts(&|r| text(&r.function_name)))?;
    optional::<ByteArrayType>(group, maybe_texts(&|r| r.direction))?;
    optional::<ByteArrayType>(group, maybe_texts(&|r| r.data_type))?;
    optional::<Int64Type>(group, maybe_ints(&|r| r.bytes))?;
    optional::<DoubleType>(group, rows.iter().map(|r| r.alg_ops).collect())?;
    optional::<DoubleType>(group, rows.iter().map(|r| r.uarch_ops).collect())?;
    optional::<ByteArrayType>(group, maybe_texts(&|r| r.kernel))?;
    optional::<Int64Type>(group, maybe_ints(&|r| r.launch.map(u64::from)))?;
    optional::<Int64Type>(group, maybe_ints(&|r| r.batch.map(u64::from)))?;
    optional::<ByteArrayType>(group, maybe_texts(&|r| r.mode))?;
    optional::<Int64Type>(group, maybe_ints(&|r| r.layer.map(u64::from)))?;
    optional::<ByteArrayType>(group, maybe_texts(&|r| r.layer_name))?;
    required::<ByteArrayType>(group, texts(&|r| text(r.certainty)))
}
