//! End-to-end tests of the commands: one program, because linking one for each file takes longer.

mod adapt;
mod calibrate;
mod commands;
mod compare;
mod cuda;
mod errors;
mod floors;
mod frameworks;
mod gpu_check;
mod libtorch;
mod main_job;
mod merge;
mod model_runs;
mod nightly;
mod output;
mod predict;
mod profile;
mod pynq;
mod remote;
mod report_page;
mod rows_elsewhere;
mod runs;
mod serve;
mod side_by_side;
mod signals;
mod sources;
mod suggest;
mod sweep;
mod tpu;
mod tpu_page;
mod tune;

/// Dumps of TPUs, made up.
#[path = "../../../tpu/tests/dumps/mod.rs"]
mod dumps;
/// Folders of runs, made up.
#[path = "../../../collector/src/compare/testing.rs"]
mod made_runs;
