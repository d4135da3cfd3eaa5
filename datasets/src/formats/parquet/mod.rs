//! Rows as Parquet: one flat column for each of the schema's, Snappy, the schema version in the
//! file's metadata.
//!
//! Integers are INT64 annotated as unsigned, floats DOUBLE, everything else UTF-8 text, missing cells null. Files carry a
//! checksum of all their bytes ([`checksum`]). Built on the crate's column API, a row group at a time, so that memory stays
//! bounded and Arrow is not needed.

mod checksum;
mod read;
mod write;

pub use read::ParquetRows;
pub use write::write;

use ::parquet::basic::Type as Physical;

use crate::schema::Storage;

/// The metadata key of the schema version.
const VERSION_KEY: &str = "opbench.schema_version";

/// The Parquet type of a storage.
fn physical(storage: Storage) -> Physical {
    match storage {
        Storage::Integer => Physical::INT64,
        Storage::Float => Physical::DOUBLE,
        Storage::Text => Physical::BYTE_ARRAY,
    }
}
