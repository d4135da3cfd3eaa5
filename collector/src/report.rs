//! The report of a finished (or interrupted) run as plain data, and sums over it.
//!
//! The run fills [`RunReport`]; the text and JSON renderings read it and compute nothing that is
//! not computed here. A number that was not measured is `None`, never 0.

mod ratio;
mod tuned;

use std::collections::BTreeMap;
use std::path::PathBuf;

use opdata::{CacheState, Quality, RunState, Status};
use opengine::device::Conditions;
use opengine::stats::Summary;
use opmodels::ImportRequest;
use opmodels::graph::{ArgumentRole, Operator};
use serde::Serialize;

pub use ratio::Ratio;
pub use tuned::{Comparison, Partial, TunedOperator, TunedReport};

/// Everything shown after a run.
#[derive(Debug, Clone, PartialEq)]
pub struct RunReport {
    /// Directory of the results.
    pub out: PathBuf,
    /// Name of the run.
    pub run_id: String,
    /// Finished or interrupted.
    pub state: RunState,
    /// The requested model.
    pub model: ImportRequest,
    /// Samples at once, as imported.
    pub batch: u64,
    /// The target of the compiler, e.g. `llvm -mcpu=znver5`.
    pub target: String,
    /// Model name of the CPU.
    pub cpu: String,
    /// How points with a time ended: measured, or simulated by the device.
    pub timed: Status,
    /// Distinct operators, each with its points.
    pub operators: Vec<OperatorReport>,
    /// Runs of the whole model, one for each number of threads at most; empty when skipped.
    pub whole_model: Vec<WholeModelReport>,
    /// Counters that were requested by name, as `--counters` takes them.
    pub counters: Vec<String>,
    /// References of the imports' outputs, each text once.
    pub import_checks: Vec<String>,
    /// Results of the tuning, import by import; empty without it.
    pub tuned: Vec<TunedReport>,
    /// Points of the plan that have no row yet; above 0 only for runs that were stopped.
    pub left: u64,
    /// Warnings about the machine or the plan.
    pub warnings: Vec<String>,
    /// Duration of the run, in nanoseconds.
    pub wall_ns: u64,
}

/// A distinct operator of the model.
#[derive(Debug, Clone, PartialEq)]
pub struct OperatorReport {
    /// Readable name, e.g. `conv2d_add_relu`.
    pub name: String,
    /// Function in the module.
    pub symbol: String,
    /// Kind, e.g. `conv2d`.
    pub kind: String,
    /// Shapes of inputs and weights, e.g. `1x64x56x56;64x64x3x3`.
    pub shapes: String,
    /// Architecture that it was compiled for, e.g. `sm_90`, in a run for several.
    pub architecture: Option<String>,
    /// Calls in one run of the model.
    pub count: u64,
    /// Floating-point operations of one call, fused rest included.
    pub flops: u64,
    /// Bytes that one call must read: each argument once.
    pub bytes_read: u64,
    /// Bytes that one call must write.
    pub bytes_written: u64,
    /// The points of its default schedule.
    pub points: Vec<PointReport>,
    /// Results of its other schedules, one entry for each set of conditions; empty without a sweep.
    pub swept: Vec<SweptReport>,
}

/// The schedules of a sweep of one operator, measured under the same conditions.
#[derive(Debug, Clone, PartialEq)]
pub struct SweptReport {
    /// The conditions of the measurement.
    pub conditions: Conditions,
    /// Schedules with a time.
    pub measured: u64,
    /// Schedules that were compiled, as asked, and not run.
    pub compiled: u64,
    /// Schedules that failed.
    pub failed: u64,
    /// Schedules left out: duplicates of others, or too large to compile.
    pub skipped: u64,
    /// The fastest.
    pub best: Option<Best>,
}

impl SweptReport {
    /// An operator's report without points.
    pub fn new(conditions: Conditions) -> Self {
        Self {
            conditions,
            measured: 0,
            compiled: 0,
            failed: 0,
            skipped: 0,
            best: None,
        }
    }
}

/// The fastest of several schedules.
#[derive(Debug, Clone, PartialEq)]
pub struct Best {
    /// Median time of one call, in nanoseconds.
    pub median_ns: f64,
    /// Its row.
    pub row_id: String,
}

/// One point: an operator under certain conditions.
#[derive(Debug, Clone, PartialEq)]
pub struct PointReport {
    /// The conditions of the measurement.
    pub conditions: Conditions,
    /// How the point ended.
    pub outcome: PointOutcome,
    /// The counts, by `source:name`.
    pub counts: BTreeMap<String, f64>,
}

/// How a point ended.
#[derive(Debug, Clone, PartialEq)]
pub enum PointOutcome {
    /// Its output was checked and its time taken.
    Measured {
        /// Time of one call.
        time: TimeReport,
        /// Median time of one call inside the whole model, in nanoseconds, if that was run.
        in_model_ns: Option<f64>,
    },
    /// It was compiled, as asked, and not run.
    Compiled(ResourcesReport),
    /// The point has no time.
    NotMeasured {
        /// Status of the point; neither [`Status::Measured`] nor [`Status::Compiled`].
        status: Status,
        /// The reason, in one line.
        reason: String,
    },
}

/// The device's resources that the largest kernel of a compiled operator needs; empty for host code.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct ResourcesReport {
    /// Kernels that a call starts.
    pub kernels: Option<u64>,
    /// Threads of a block.
    pub threads_per_block: Option<u64>,
    /// Registers of a thread.
    pub registers_per_thread: Option<u64>,
    /// Shared memory of a block, in bytes.
    pub shared_bytes_per_block: Option<u64>,
    /// Local memory of a thread, in bytes.
    pub local_bytes_per_thread: Option<u64>,
    /// Bytes that a thread spills.
    pub spill_bytes_per_thread: Option<u64>,
    /// Theoretical occupancy (0 to 1).
    pub occupancy: Option<f64>,
    /// The resource that bounds it.
    pub occupancy_limiter: Option<String>,
}

/// A time with its interval, in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TimeReport {
    /// Median.
    pub median_ns: f64,
    /// Lower end of the median's interval.
    pub ci_low_ns: f64,
    /// Upper end.
    pub ci_high_ns: f64,
    /// Number of samples.
    pub samples: u64,
    /// Quality grade.
    pub quality: Option<Quality>,
}

impl TimeReport {
    /// The times of a summary with its grade.
    pub fn new(summary: &Summary, quality: Option<Quality>) -> Self {
        Self {
            median_ns: summary.median.get(),
            ci_low_ns: summary.ci_low.get(),
            ci_high_ns: summary.ci_high.get(),
            samples: summary.samples,
            quality,
        }
    }

    /// Half the interval over the median; `None` for a median of 0.
    pub fn relative_half_width(&self) -> Option<f64> {
        (self.median_ns > 0.0).then(|| (self.ci_high_ns - self.ci_low_ns) / 2.0 / self.median_ns)
    }
}

/// A run of the whole model.
#[derive(Debug, Clone, PartialEq)]
pub struct WholeModelReport {
    /// The conditions of the run; the caches are as the model leaves them.
    pub conditions: Conditions,
    /// How the measurement of the whole model ended.
    pub outcome: ModelOutcome,
}

/// How a run of the whole model ended.
#[derive(Debug, Clone, PartialEq)]
pub enum ModelOutcome {
    /// Checked and timed.
    Measured(ModelTiming),
    /// The whole model has no time.
    NotMeasured {
        /// Status of the whole model; never [`Status::Measured`].
        status: Status,
        /// The reason, in one line.
        reason: String,
    },
}

/// Times of the whole model.
#[derive(Debug, Clone, PartialEq)]
pub struct ModelTiming {
    /// End-to-end latency.
    pub time: TimeReport,
    /// The reference of its output, e.g. `light_resnet50_output_0.pb`.
    pub checked_against: String,
    /// Sum over all operator calls inside one run, in nanoseconds, by the instrument hook.
    pub instrumented_sum_ns: Option<f64>,
    /// How latencies are spread.
    pub latency: Latency,
}

/// How the latencies of single runs are spread, one run after the other.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Latency {
    /// Latency that 95 % of the runs keep, in nanoseconds, by nearest rank.
    pub p95_ns: f64,
    /// Latency that 99 % of the runs keep.
    pub p99_ns: f64,
    /// Mean, in nanoseconds.
    pub mean_ns: f64,
}

impl Latency {
    /// The latencies of a summary.
    pub fn new(summary: &Summary) -> Self {
        Self {
            p95_ns: summary.p95.get(),
            p99_ns: summary.p99.get(),
            mean_ns: summary.mean.get(),
        }
    }

    /// Runs a second, back to back.
    pub fn calls_per_s(&self) -> Option<f64> {
        (self.mean_ns > 0.0).then(|| 1e9 / self.mean_ns)
    }
}

/// Number of points, by outcome.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Number of all points of operators.
    pub points: u64,
    /// Measured.
    pub measured: u64,
    /// Compiled, as asked, and not run.
    pub compiled: u64,
    /// Neither measured nor compiled nor skipped.
    pub failed: u64,
    /// Left out, on purpose or because the run was interrupted.
    pub skipped: u64,
}

impl Counts {
    /// Whether no point was measured or compiled, as when the time budget was spent on the import.
    pub fn is_nothing(&self) -> bool {
        self.measured + self.compiled == 0
    }
}

/// The sums over all operators under the same conditions.
#[derive(Debug, Clone, PartialEq)]
pub struct ThreadTotals<'a> {
    /// The conditions of the measurement.
    pub conditions: &'a Conditions,
    /// Sum of count × median over the measured operators; `None` when none is.
    pub operators_sum_ns: Option<f64>,
    /// Operators without a time, which the sum lacks.
    pub missing: u64,
    /// The whole model's run at this number of threads. Its own data are in the caches as the
    /// operators leave them, so it does not stand beside points with flushed caches.
    pub whole_model: Option<&'a WholeModelReport>,
}

impl ThreadTotals<'_> {
    /// The whole model's times, if it was measured.
    pub fn model_timing(&self) -> Option<&ModelTiming> {
        match &self.whole_model?.outcome {
            ModelOutcome::Measured(timing) => Some(timing),
            ModelOutcome::NotMeasured { .. } => None,
        }
    }

    /// End-to-end latency in nanoseconds.
    pub fn end_to_end_ns(&self) -> Option<f64> {
        Some(self.model_timing()?.time.median_ns)
    }

    /// Sum of the operators over the end-to-end latency: how much of it they explain. `None`
    /// unless every operator has a time.
    pub fn explained_share(&self) -> Option<f64> {
        let whole = self.end_to_end_ns().filter(|ns| *ns > 0.0)?;
        (self.missing == 0).then_some(self.operators_sum_ns? / whole)
    }

    /// Sum of the operators by the instrument hook, over the end-to-end latency.
    pub fn instrumented_share(&self) -> Option<f64> {
        let timing = self.model_timing()?;
        let whole = timing.time.median_ns;
        (whole > 0.0).then_some(timing.instrumented_sum_ns? / whole)
    }
}

impl RunReport {
    /// Number of the model's operators, counted once for all architectures.
    pub fn operator_count(&self) -> u64 {
        let first = self.operators.first().map(|o| &o.architecture);
        let of_first = |o: &&OperatorReport| Some(&o.architecture) == first;
        self.operators.iter().filter(of_first).count() as u64
    }

    /// Points by how they ended.
    pub fn counts(&self) -> Counts {
        let mut counts = Counts::default();
        for point in self.operators.iter().flat_map(|operator| &operator.points) {
            counts.points += 1;
            match point.outcome {
                PointOutcome::Measured { .. } => counts.measured += 1,
                PointOutcome::Compiled(_) => counts.compiled += 1,
                PointOutcome::NotMeasured {
                    status: Status::Skipped,
                    ..
                } => counts.skipped += 1,
                PointOutcome::NotMeasured { .. } => counts.failed += 1,
            }
        }
        for swept in self.operators.iter().flat_map(|operator| &operator.swept) {
            counts.points += swept.measured + swept.compiled + swept.failed + swept.skipped;
            counts.measured += swept.measured;
            counts.compiled += swept.compiled;
            counts.failed += swept.failed;
            counts.skipped += swept.skipped;
        }
        counts
    }

    /// Failed points over all that were tried, runs of the whole model counted as points; 0 if
    /// none was tried.
    pub fn failed_share(&self) -> f64 {
        let counts = self.counts();
        let models = self.whole_model.iter().map(|run| match &run.outcome {
            ModelOutcome::Measured(_) => Status::Measured,
            ModelOutcome::NotMeasured { status, .. } => *status,
        });
        let (mut tried, mut failed) = (counts.points - counts.skipped, counts.failed);
        for status in models.filter(|status| *status != Status::Skipped) {
            tried += 1;
            failed += u64::from(!status.has_time());
        }
        if tried == 0 {
            0.0
        } else {
            failed as f64 / tried as f64
        }
    }

    /// Whether nothing was to be run.
    pub fn is_compiled_only(&self) -> bool {
        let counts = self.counts();
        counts.compiled > 0 && counts.measured == 0
    }

    /// The conditions that were measured, in the order of the operators' points.
    pub fn conditions(&self) -> Vec<&Conditions> {
        let mut conditions = Vec::new();
        for point in self.operators.iter().flat_map(|operator| &operator.points) {
            if !conditions.contains(&&point.conditions) {
                conditions.push(&point.conditions);
            }
        }
        conditions
    }

    /// The conditions that stand for the run: those nearest to the inside of a model, with the most threads; `None`
    /// without points.
    pub fn headline(&self) -> Option<&Conditions> {
        self.conditions().into_iter().max_by_key(|at| {
            let nearness = match at.cache {
                CacheState::Model => 2,
                CacheState::Hot => 1,
                CacheState::Flushed => 0,
            };
            (nearness, at.threads)
        })
    }

    /// The sums over all operators under these conditions.
    pub fn totals<'a>(&'a self, at: &'a Conditions) -> ThreadTotals<'a> {
        let mut sum = None;
        let mut missing = 0;
        for operator in &self.operators {
            match operator.median_ns(at) {
                Some(median) => *sum.get_or_insert(0.0) += median * operator.count as f64,
                None => missing += 1,
            }
        }
        ThreadTotals {
            conditions: at,
            operators_sum_ns: sum,
            missing,
            whole_model: (at.cache != CacheState::Flushed)
                .then(|| {
                    self.whole_model
                        .iter()
                        .find(|run| run.conditions.is_like_but_for_caches(at))
                })
                .flatten(),
        }
    }
}

impl OperatorReport {
    /// An operator of a graph, with its points.
    pub fn new(operator: &Operator, points: Vec<PointReport>) -> Self {
        Self {
            name: operator.name.clone(),
            symbol: operator.symbol.clone(),
            kind: operator.kind.name().to_owned(),
            shapes: read_shapes(operator),
            architecture: None,
            count: operator.count,
            flops: operator.flops + operator.flops_epilogue,
            bytes_read: operator.bytes_read,
            bytes_written: operator.bytes_written,
            points,
            swept: Vec::new(),
        }
    }

    /// The point under these conditions.
    pub fn point(&self, at: &Conditions) -> Option<&PointReport> {
        self.points.iter().find(|point| point.conditions == *at)
    }

    /// Results of a sweep's schedules under these conditions.
    pub fn swept(&self, at: &Conditions) -> Option<&SweptReport> {
        self.swept.iter().find(|s| s.conditions == *at)
    }

    /// Time of one call of the fastest schedule under these conditions, in nanoseconds: the default's, or one of a
    /// sweep's together with its row.
    pub fn best(&self, at: &Conditions) -> Option<(f64, Option<&str>)> {
        let default = self.median_ns(at).map(|ns| (ns, None));
        let swept = self.swept(at).and_then(|swept| swept.best.as_ref());
        let swept = swept.map(|best| (best.median_ns, Some(best.row_id.as_str())));
        let both = default.into_iter().chain(swept);
        both.min_by(|a, b| a.0.total_cmp(&b.0))
    }

    /// Median time of one call under these conditions, in nanoseconds, if measured.
    pub fn median_ns(&self, at: &Conditions) -> Option<f64> {
        match &self.point(at)?.outcome {
            PointOutcome::Measured { time, .. } => Some(time.median_ns),
            PointOutcome::Compiled(_) | PointOutcome::NotMeasured { .. } => None,
        }
    }

    /// Floating-point operations a second at `median_ns`; `None` for operators without any.
    pub fn flops_per_s(&self, median_ns: f64) -> Option<f64> {
        (self.flops > 0 && median_ns > 0.0).then(|| self.flops as f64 / median_ns * 1e9)
    }

    /// Compulsory bytes a second at `median_ns`.
    pub fn bytes_per_s(&self, median_ns: f64) -> Option<f64> {
        (median_ns > 0.0).then(|| (self.bytes_read + self.bytes_written) as f64 / median_ns * 1e9)
    }
}

/// Shapes of an operator's inputs, e.g. `1x64x56x56;4x64x3x3x16`.
pub(crate) fn read_shapes(operator: &Operator) -> String {
    let shapes: opdata::Shapes = operator
        .args
        .iter()
        .filter(|arg| arg.role != ArgumentRole::Output)
        .map(|arg| arg.shape.as_slice())
        .collect();
    shapes.to_string()
}
