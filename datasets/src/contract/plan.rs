//! The plan of a run: everything that decides what is measured and how. It is the part `plan` of `run.json`.
//!
//! The collector's plan is this record with its own types of model, target and sweep; the predictor reads of these what it
//! needs ([`TargetRecord`], [`SweepRecord`]).

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::check_format;
use crate::error::FormatError;
use crate::identity::stable_hash;
use crate::run::{RunManifest, Shard};
use crate::values::CacheState;

/// Format of a serialised plan; raised when a field changes its meaning.
pub const PLAN_FORMAT: u32 = 2;

/// A validated plan, with the types that stand for the model to import, the target and the sweep.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PlanRecord<Model, Target = TargetRecord, Sweep = SweepRecord> {
    /// [`PLAN_FORMAT`] of the writer.
    pub format: u32,
    /// The model.
    pub model: Model,
    /// The target to compile for.
    pub target: Target,
    /// Further targets of the same device for the same points; usually empty.
    #[serde(default = "Vec::new", skip_serializing_if = "Vec::is_empty")]
    pub more_targets: Vec<Target>,
    /// Whether kernels are compiled and described, and nothing is run.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub compile_only: bool,
    /// Where source and machine code of a device's kernels are kept, if they are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub keep_kernels: Option<PathBuf>,
    /// The servers of the other machine to measure on, if it is not this one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remote: Option<RemoteAddress>,
    /// Thread counts, in the given order, without repetition, each at least 1.
    pub threads: Vec<u32>,
    /// Cache states, without repetition.
    pub cache_states: Vec<CacheState>,
    /// Values of the conditions that only this kind of device has, by name; empty for most.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub device_conditions: BTreeMap<String, Vec<String>>,
    /// The schedules to measure; without a sweep, the default ones.
    pub sweep: Option<Sweep>,
    /// Settings of the tuning, if schedules are tuned: measurements then decide what is measured next.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tuning: Option<TuningPolicy>,
    /// File of the store of best schedules, which tuning starts from and sweeps and tuning add to. `None` for no store.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub store: Option<PathBuf>,
    /// The part of the points to measure; without it, all.
    pub shard: Option<Shard>,
    /// Time budget, in nanoseconds; unlimited if missing.
    pub time_budget_ns: Option<u64>,
    /// Counters of each kernel, in calls that are not timed, as `--counters` takes them; may be empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub counters: Vec<String>,
    /// How each point is timed.
    pub timing: TimingPolicy,
    /// Time limit for re-measuring under interference, for points built together or a whole model, as a multiple of
    /// their first measurement time.
    #[serde(default)]
    #[serde(alias = "patience")]
    pub remeasure_budget: f64,
    /// Limits of a worker process.
    pub worker: WorkerPolicy,
    /// Seed of the input data and of everything random.
    pub seed: u64,
    /// Whether the whole model is run too.
    pub whole_model: WholeModel,
    /// Directory of the results; it does not exist yet.
    pub out: PathBuf,
    /// Name of the run, unique enough to distinguish runs.
    pub run_id: String,
    /// Share of points (0 to 1) that may fail with the run still counted as done.
    pub max_failed_share: f64,
}

/// How schedules are tuned.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TuningPolicy {
    /// Names of the tuners: several to compare them.
    pub tuners: Vec<String>,
    /// Maximum number of schedules of an operator, including the default one.
    pub trials: u64,
    /// Whether the whole model is measured with the tuned schedules beside the default ones.
    pub compare: bool,
    /// Whether the latency after a part of the trials is reported.
    pub partial: bool,
    /// Folders with rows of this target and machine that the cost model learns from beside the run's own.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub history: Vec<PathBuf>,
}

/// Where servers of TVM's RPC are found: a tracker, or one server itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RemoteAddress {
    /// Host of the tracker or server.
    pub host: String,
    /// Its port.
    pub port: u16,
    /// The key of the servers.
    pub key: String,
}

impl<Model: Clone + Serialize, Target: Clone + Serialize, Sweep: Clone + Serialize>
    PlanRecord<Model, Target, Sweep>
{
    /// A hash of everything that decides which points there are and how they are measured. Runs of one plan and its
    /// shards have the same, wherever and however long they run.
    pub fn hash(&self) -> String {
        serde_json::to_value(self).map_or_else(|_| String::new(), hash_of_json)
    }
}

impl<Model, Target, Sweep> PlanRecord<Model, Target, Sweep> {
    /// Every target, the first one first.
    pub fn targets(&self) -> impl Iterator<Item = &Target> {
        std::iter::once(&self.target).chain(&self.more_targets)
    }
}

/// [`PlanRecord::hash`] of a plan as some version of the collector wrote it, fields that this one does not know included.
pub fn hash_of_json(mut plan: Value) -> String {
    if let Some(fields) = plan.as_object_mut() {
        fields.insert("shard".to_owned(), Value::Null);
        fields.insert("time_budget_ns".to_owned(), Value::Null);
        fields.insert("out".to_owned(), Value::from(""));
        fields.insert("run_id".to_owned(), Value::from(""));
        fields.remove("keep_kernels");
        fields.remove("store");
        // Calls that are counted are not timed.
        fields.remove("counters");
        // The number of measurements until the machine is quiet does not change the point.
        fields.remove("remeasure_budget");
        fields.insert("max_failed_share".to_owned(), Value::from(0.0));
    }
    stable_hash(&[("plan", &plan.to_string())])
}

impl<Model: DeserializeOwned, Target: DeserializeOwned, Sweep: DeserializeOwned>
    PlanRecord<Model, Target, Sweep>
{
    /// Reads the plan of a run.
    ///
    /// # Errors
    /// Fails if it is of another format, or damaged; the message says which version of the collector wrote it.
    pub fn read(manifest: &RunManifest) -> Result<Self, FormatError> {
        const WHAT: &str = "the plan in run.json";
        let writer = manifest.versions.get("opcollect").map(String::as_str);
        let format = match &manifest.plan["format"] {
            // Every plan has a format number. A value without one is not a plan.
            Value::Null => {
                return Err(FormatError::Damaged {
                    what: WHAT,
                    detail: "it has no format number".to_owned(),
                });
            }
            number => number,
        };
        check_format(WHAT, format, PLAN_FORMAT, writer)?;
        Self::deserialize(&manifest.plan).map_err(|error| FormatError::damaged(WHAT, &error))
    }
}

/// The target of a plan, for readers that need its text alone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TargetRecord {
    /// The device's name: `llvm`, `cuda`.
    pub kind: String,
    /// The device's options by name: a text, a list of texts, or null where none was given.
    #[serde(flatten)]
    pub options: Map<String, Value>,
}

/// The target in the syntax of `--target`.
impl fmt::Display for TargetRecord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.kind)?;
        // Options with one value go before those with several.
        for (name, value) in &self.options {
            if let Value::String(value) = value {
                write!(f, " -{name}={value}")?;
            }
        }
        for (name, values) in &self.options {
            let values: Vec<&str> = values
                .as_array()
                .into_iter()
                .flatten()
                .filter_map(Value::as_str)
                .collect();
            if !values.is_empty() {
                write!(f, " -{name}={}", values.join(","))?;
            }
        }
        Ok(())
    }
}

/// Properties of the model that a sweep varies.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SweepRecord {
    /// Batch sizes of the imports.
    pub batches: Vec<u64>,
    /// Image sizes of the imports.
    pub input_sizes: Vec<u64>,
}

/// Whether the whole model is run beside its operators.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WholeModel {
    /// The whole model is run, checked and timed.
    Measure,
    /// Operators only.
    Skip,
}

/// How each point is timed.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct TimingPolicy {
    /// Calls before the first timed one.
    pub warmup: u32,
    /// Number of calls in a sample. `None` for the number that the clock needs.
    #[serde(default)]
    pub number: Option<u32>,
    /// When to stop sampling.
    pub stop: StopRule,
}

/// The stopping rule of one point.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct StopRule {
    /// Stop once half the interval's width over the median is at most this (0.03 = ±3 %).
    pub ci_target: f64,
    /// Never stop as precise with fewer samples.
    pub min_samples: u32,
    /// Never take more.
    pub max_samples: u32,
    /// Time budget for sampling, in nanoseconds. It is exceeded (up to four times) only to reach the number of samples
    /// that an interval needs.
    pub budget_ns: u64,
}

/// Limits of a worker process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkerPolicy {
    /// Longest time one operator may take to compile, in nanoseconds.
    pub compile_timeout_ns: u64,
    /// Longest time one point may take to run, check and measure, in nanoseconds.
    pub measure_timeout_ns: u64,
    /// Maximum number of statements of a lowered kernel; larger ones are not compiled.
    pub max_statements: u64,
    /// Maximum memory, in MiB.
    pub memory_limit_mib: u64,
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// A manifest as opcollect 0.1.0 wrote it.
    fn manifest() -> RunManifest {
        RunManifest {
            plan: json!({
                "format": 2,
                "model": {"source": "local", "model": "bert-tiny"},
                "target": {"kind": "llvm", "mcpu": "haswell", "mattr": ["+avx2", "-fma"]},
                "threads": [1, 2],
                "cache_states": ["model"],
                "sweep": {"name": "s", "space": "template", "batches": [1, 4], "input_sizes": []},
                "shard": {"index": 1, "count": 2},
                "time_budget_ns": null,
                "timing": {"warmup": 0,
                    "stop": {"ci_target": 0.03, "min_samples": 6, "max_samples": 60, "budget_ns": 5_000_000}},
                "worker": {"compile_timeout_ns": 1, "measure_timeout_ns": 1, "max_statements": 8192, "memory_limit_mib": 1},
                "seed": 7,
                "whole_model": "skip",
                "out": "runs/x",
                "run_id": "x",
                "max_failed_share": 0.2
            }),
            versions: [("opcollect".to_owned(), "0.1.0".to_owned())].into(),
            ..RunManifest::new("x")
        }
    }

    #[test]
    fn a_plan_is_read_by_those_who_need_a_part_of_it() {
        let plan: PlanRecord<Value> = PlanRecord::read(&manifest()).unwrap();
        assert_eq!(
            plan.target.to_string(),
            "llvm -mcpu=haswell -mattr=+avx2,-fma"
        );
        assert_eq!(plan.sweep.unwrap().batches, [1, 4]);
        assert_eq!(
            (plan.timing.number, plan.timing.stop.min_samples),
            (None, 6)
        );
    }

    #[test]
    fn shards_of_a_plan_have_its_hash() {
        let read = || PlanRecord::<Value, Value, Value>::read(&manifest()).unwrap();
        let (plan, mut other) = (read(), read());
        (other.shard, other.out, other.time_budget_ns) = (None, "y".into(), Some(1));
        assert_eq!(plan.hash(), other.hash());
        other.seed = 8;
        assert_ne!(plan.hash(), other.hash());
    }

    #[test]
    fn plans_of_other_formats_are_refused_with_their_writer() {
        let refused = |change: fn(&mut Value)| {
            let mut manifest = manifest();
            change(&mut manifest.plan);
            PlanRecord::<Value>::read(&manifest)
                .unwrap_err()
                .to_string()
        };
        insta::assert_snapshot!(
            [
                refused(|plan| plan["format"] = json!(1)),
                refused(|plan| plan["format"] = json!(3)),
                refused(|plan| *plan = Value::Null),
                refused(|plan| plan["seed"] = json!("seven")),
            ]
            .join("\n"),
            @r#"
        the plan in run.json has format 1 (written by opcollect 0.1.0), and this program reads format 2; use the version that wrote it, or measure again
        the plan in run.json has format 3 (written by opcollect 0.1.0), and this program reads format 2; use a newer version of the program
        the plan in run.json is damaged: it has no format number; restore it from a copy, or measure again
        the plan in run.json is damaged: invalid type: string "seven", expected u64; restore it from a copy, or measure again
        "#
        );
    }
}
