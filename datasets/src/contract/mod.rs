//! The records that the collector writes and the predictor reads beside the rows, each declared once and with a format
//! number.
//!
//! | module | record | where |
//! | --- | --- | --- |
//! | [`plan`] | what a run measures and how | `plan` in `run.json` |
//! | [`environment`], [`calibration`] | the machine and its rates | `environment` in `run.json` |
//! | [`whole_model`] | times of a whole model | `whole_model.json` beside the rows |
//! | [`points`] | points chosen one by one | the file that `oppredict suggest` writes and `opcollect --sweep` reads |
//! | [`knobs`] | a schedule's template and knobs | column `schedule_knobs` |
//! | [`graph_schedule`] | which calls of models run at the same time | the file that `oppredict schedule` writes and `opcollect run-graph` runs |
//! | [`pairs`] | operators measured at the same time | `pairs.parquet` |
//! | [`device_kernel`] | the resources of a device that a kernel needs | column `device_kernels` |
//! | [`interference`] | what rows say of interference, and its bounds | |
//! | [`costs`] | what a point costs where nothing better is known | |
//!
//! A record of an unknown format is refused. The message names the format and, where it is recorded, the version of the
//! program that wrote it. A file without a number is of the first format. Both programs depend on this; it depends on
//! neither, nor on how a schedule is applied or a model imported: types of those are parameters.

pub mod calibration;
pub mod costs;
pub mod device_kernel;
pub mod environment;
pub mod graph_schedule;
pub mod interference;
pub mod knobs;
pub mod pairs;
pub mod plan;
pub mod points;
pub mod whole_model;

mod format;

pub use calibration::{CALIBRATION_FORMAT, Calibration, Level, Rate, ReadRate, ThreadRates};
pub use environment::{
    Cache, Cpu, ENVIRONMENT_FORMAT, Environment, LlvmCpu, Machine, Memory, Pmu, Software, State,
    Virtualisation,
};
pub use graph_schedule::{
    CallRef, Executor, Expected, GRAPH_SCHEDULE_FORMAT, GraphSchedule, Lane, ScheduledModel, Stage,
    check_stages,
};
pub use plan::{PLAN_FORMAT, PlanRecord, RemoteAddress, StopRule, TimingPolicy, WorkerPolicy};

use format::{check_format, first_format, load_record};
