//! A run's folder: `rows.csv` while it grows, `rows.parquet` with the same content at the end, and `run.json` with the
//! run's description.

mod find;
mod manifest;
mod named;
mod writer;

pub use crate::formats::{ROWS_CSV, ROWS_PARQUET};
pub use find::find_runs;
pub use manifest::{Counts, MANIFEST_FORMAT, RunLabel, RunManifest, RunState, Shard};
pub use named::{Found, RUNS, all_runs, named_run};
pub use writer::{Reopened, RunWriter};

/// Rows of points that failed and were measured again.
pub const ROWS_SET_ASIDE: &str = "rows-set-aside.csv";

/// The run's manifest.
pub const RUN_JSON: &str = "run.json";
