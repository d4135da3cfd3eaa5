//! A run's folder: `rows.csv` while it grows, `rows.parquet` with the same content when it is
//! done, `run.json` with what the run is.

mod find;
mod manifest;
mod writer;

pub use crate::formats::{ROWS_CSV, ROWS_PARQUET};
pub use find::find_runs;
pub use manifest::{Counts, MANIFEST_FORMAT, RunManifest, RunState, Shard};
pub use writer::{Reopened, RunWriter};

/// The run's manifest.
pub const RUN_JSON: &str = "run.json";
