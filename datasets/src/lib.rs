//! The dataset: one row schema, and its file formats.
//!
//! Owns [`Row`] and its column table, and the CSV, Parquet and JSON lines forms of a row. Owns a run's folder:
//! `rows.csv` while it grows, `rows.parquet` when it is done, `run.json` beside them. Owns the stable
//! identifiers that join rows; [`roofline`] is the arithmetic of calibrated rates, and [`lint`] finds rows that
//! physics forbids. Everything that writes or reads rows goes through here: the collector, the predictor, TPU
//! profiles and importers of other tools' logs. Does not measure, print, or know about TVM.
//!
//! ```
//! use opdata::{DeviceKind, Essentials, Row, Status};
//!
//! let row = Row {
//!     threads: Some(2),
//!     reason: Some("out of memory".to_owned()),
//!     ..Row::new(Essentials {
//!         run_id: "20260101T120000Z-resnet-18",
//!         ordinal: 7,
//!         point_id: "9f86d081884c7d65",
//!         op_name: "conv2d_add_relu",
//!         op_kind: "conv2d",
//!         device_kind: DeviceKind::CPU,
//!         status: Status::Crashed,
//!     })
//! };
//! assert_eq!(row.row_id, "20260101T120000Z-resnet-18.000007");
//! ```

// The rows of the integration tests, which name the crate, serve unit tests, too.
#[cfg(test)]
extern crate self as opdata;

pub mod cell;
pub mod contract;
pub mod error;
pub mod formats;
pub mod identity;
pub mod import;
pub mod lint;
pub mod random;
pub mod roofline;
pub mod row;
pub mod run;
pub mod schema;
pub mod stats;
#[cfg(any(test, feature = "testing"))]
#[doc(hidden)]
pub mod testing;
pub mod values;
pub mod workload;

mod files;

pub use error::{Error, FormatError, InvalidRow, Result};
pub use files::{
    check_output, line_of, open_regular, read_bytes, read_text, safe_file_name, write_atomically,
};
pub use formats::{RowReader, Traces, read_batches, read_rows, read_rows_with};
pub use identity::{PointKey, point_id, stable_hash};
pub use row::{Essentials, finite};
pub use run::{
    Counts, Found, ROWS_SET_ASIDE, RUN_JSON, RUNS, Reopened, RunLabel, RunManifest, RunState,
    RunWriter, Shard, all_runs, find_runs, named_run,
};
pub use schema::{COLUMNS, Column, ColumnType, Group, Row, SCHEMA_VERSION};
pub use values::{
    CacheState, Decisions, DeviceKind, Dims, JsonText, Loop, LoopKind, LoopNest, Quality, Shapes,
    Status, Timestamp,
};
