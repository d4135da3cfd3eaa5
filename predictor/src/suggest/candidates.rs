//! Candidates for measurement: the points of a collector's plan, or the operators of whole models.
//!
//! A folder of `opcollect plan --candidates` has a row without a time for each point, and the plan in `run.json`. A whole
//! model is imported as for a prediction; its points are the default schedules at some numbers of threads.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use opdata::contract::PlanRecord;
use opdata::contract::plan::SweepRecord;
use opdata::{DeviceKind, Row, RunManifest, read_rows};
use opinstall::Home;
use opmodels::{ImportRequest, Importer};
use toml::Value;

use super::cost::Timing;
use super::error::SuggestError;
use crate::query::network;

/// A run of the collector that some candidates belong to.
#[derive(Debug, Clone, PartialEq)]
pub struct Job {
    /// The model, for people and file names.
    pub model: String,
    /// Where the candidates were listed; missing for a whole model.
    pub folder: Option<PathBuf>,
    /// Settings of the run, by the names of `opcollect`'s flags.
    pub settings: BTreeMap<String, Value>,
    /// Batch and image sizes to import the model at.
    pub vary: BTreeMap<String, Value>,
    /// Its timing policy, if it is known.
    pub timing: Option<Timing>,
    /// The weights of its points.
    pub objective: Objective,
}

/// How the points are weighted in the objective.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Objective {
    /// Every point alike.
    Points,
    /// The time of whole models: each operator by its calls and its time.
    Models,
}

/// A point to choose.
#[derive(Debug, Clone, PartialEq)]
pub struct Candidate {
    /// Position of its job.
    pub job: usize,
    /// The facts about the point before it is measured.
    pub row: Row,
}

/// The candidates for measurement.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Candidates {
    /// Runs of the collector.
    pub jobs: Vec<Job>,
    /// Their points.
    pub points: Vec<Candidate>,
}

/// A collector's plan, as far as a plan made from it needs it.
type Plan = PlanRecord<ImportRequest>;

impl Candidates {
    /// Adds the points that a collector listed.
    ///
    /// # Errors
    /// Fails if the folder cannot be read, has no points, or its plan is of another version.
    pub fn add_listed(&mut self, folder: &Path) -> Result<(), SuggestError> {
        let rows = read_rows(folder)?;
        let manifest = RunManifest::load(folder)?;
        let refused = |detail: String| SuggestError::Plan {
            folder: folder.to_owned(),
            detail,
        };
        if rows.is_empty() {
            return Err(SuggestError::NoCandidates {
                folder: folder.to_owned(),
            });
        }
        let plan = Plan::read(&manifest).map_err(|error| refused(error.to_string()))?;
        let stop = &plan.timing.stop;
        let timing = Timing {
            least_samples: f64::from(stop.min_samples),
            budget_ns: stop.budget_ns as f64,
        };
        self.add(
            Job {
                model: plan.model.model.clone(),
                folder: Some(folder.to_owned()),
                settings: settings(&plan),
                vary: plan.sweep.as_ref().map(vary).unwrap_or_default(),
                timing: Some(timing),
                objective: Objective::Points,
            },
            rows,
        );
        Ok(())
    }

    /// Adds the operators of a whole model, with their default schedules, at some numbers of threads.
    ///
    /// # Errors
    /// Fails if the model cannot be imported.
    pub fn add_model(
        &mut self,
        request: &ImportRequest,
        threads: &[u64],
        device_kind: DeviceKind,
    ) -> Result<(), SuggestError> {
        let importer = Importer::new(&Home::find()?, None)?;
        let graph = importer.import(request, &mut |_| {})?.graph;
        let mut rows = Vec::new();
        for &threads in threads {
            for operator in &graph.operators {
                rows.push(network::row(operator, &graph, threads, device_kind));
            }
        }
        self.add(
            Job {
                model: graph.model.clone(),
                folder: None,
                settings: model_settings(request),
                vary: BTreeMap::new(),
                timing: None,
                objective: Objective::Models,
            },
            rows,
        );
        Ok(())
    }

    fn add(&mut self, job: Job, rows: Vec<Row>) {
        let number = self.jobs.len();
        self.jobs.push(job);
        self.points
            .extend(rows.into_iter().map(|row| Candidate { job: number, row }));
    }
}

fn integer(value: u64) -> Value {
    Value::Integer(i64::try_from(value).unwrap_or(i64::MAX))
}

fn integers(values: &[u64]) -> Value {
    Value::Array(values.iter().map(|v| integer(*v)).collect())
}

/// The settings that choose the model. The whole model is skipped, because only points were chosen.
fn model_settings(request: &ImportRequest) -> BTreeMap<String, Value> {
    let mut settings = BTreeMap::new();
    let mut set = |key: &str, value: Value| settings.insert(key.to_owned(), value);
    set("modelsource", request.source.name().into());
    set("modelname", request.model.clone().into());
    set("whole-model", "skip".into());
    if let Some(batch) = request.batch {
        set("batchsize", integer(batch));
    }
    if let Some(seqlen) = request.seqlen {
        set("seqlen", integer(seqlen));
    }
    if !request.inputs.is_empty() {
        let inputs = request.inputs.iter().map(|i| Value::from(i.to_string()));
        set("input", Value::Array(inputs.collect()));
    }
    for (size, value) in request.architecture.sizes() {
        set(size, integer(value));
    }
    if let Some(config) = &request.architecture.config {
        set("model-config", config.to_string_lossy().into_owned().into());
    }
    settings
}

fn settings(plan: &Plan) -> BTreeMap<String, Value> {
    let mut settings = model_settings(&plan.model);
    let stop = &plan.timing.stop;
    let number = plan.timing.number;
    settings.extend(
        [
            ("target", plan.target.to_string().into()),
            ("seed", integer(plan.seed)),
            ("budget", format!("{}ns", stop.budget_ns).into()),
            ("ci", stop.ci_target.into()),
            ("min-samples", integer(stop.min_samples.into())),
            ("max-samples", integer(stop.max_samples.into())),
            ("warmup", integer(plan.timing.warmup.into())),
            (
                "number",
                number.map_or("auto".into(), |n| integer(n.into())),
            ),
            ("max-statements", integer(plan.worker.max_statements)),
            ("max-failed", plan.max_failed_share.into()),
        ]
        .map(|(key, value)| (key.to_owned(), value)),
    );
    settings
}

fn vary(sweep: &SweepRecord) -> BTreeMap<String, Value> {
    [
        ("batch", &sweep.batches),
        ("input-size", &sweep.input_sizes),
    ]
    .into_iter()
    .filter(|(_, values)| !values.is_empty())
    .map(|(key, values)| (key.to_owned(), integers(values)))
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plan_is_distinguished_by_its_settings() {
        let plan: Plan = serde_json::from_value(serde_json::json!({
            "model": {"source": "local", "model": "bert-tiny", "batch": 2, "seqlen": 64,
                "inputs": [{"name": "data", "shape": [1, 3], "dtype": null}]},
            "target": {"kind": "llvm", "mcpu": "haswell", "mattr": ["+avx2", "-fma"]},
            "sweep": {"batches": [1, 4], "input_sizes": []},
            "timing": {"warmup": 0, "number": null,
                "stop": {"ci_target": 0.03, "min_samples": 6, "max_samples": 60, "budget_ns": 5_000_000}},
            "worker": {"compile_timeout_ns": 1, "measure_timeout_ns": 1, "max_statements": 8192, "memory_limit_mib": 1},
            "format": 2, "threads": [1], "cache_states": ["model"], "whole_model": "skip", "out": "x", "run_id": "x",
            "shard": null, "time_budget_ns": null, "seed": 7,
            "max_failed_share": 0.2
        }))
        .unwrap();
        let text = |table: &BTreeMap<String, Value>| toml::to_string(table).unwrap();
        insta::assert_snapshot!(format!("{}{}", text(&settings(&plan)), text(&vary(plan.sweep.as_ref().unwrap()))), @r#"
        batchsize = 2
        budget = "5000000ns"
        ci = 0.03
        input = ["data:1x3"]
        max-failed = 0.2
        max-samples = 60
        max-statements = 8192
        min-samples = 6
        modelname = "bert-tiny"
        modelsource = "local"
        number = "auto"
        seed = 7
        seqlen = 64
        target = "llvm -mcpu=haswell -mattr=+avx2,-fma"
        warmup = 0
        whole-model = "skip"
        batch = [1, 4]
        "#);
    }
}
