//! `nightly.toml` → [`NightPlan`].
//!
//! Keys are spelt like the main job's settings. What is allowed in `settings` are those settings themselves, except the ones that the
//! night decides. Every error names file, place and remedy.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use opdata::safe_file_name;
use serde::{Deserialize, Serialize};
use thiserror::Error;
use toml::Value;

use super::jobs;
use crate::config::{Arity, SETTINGS, line_of, nearest};
use crate::plan::parse;

/// Settings of the main job that a night sets itself.
const OWN_SETTINGS: [&str; 7] = [
    "modelsource",
    "modelname",
    "target",
    "sweep",
    "time-budget",
    "shard",
    "out",
];

/// What can be wrong with a night's configuration.
#[derive(Debug, Error)]
pub enum ConfigError {
    /// The file cannot be read.
    #[error("cannot read the night's configuration {}: {source}; give the path of a readable TOML file to --config", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// The file is not TOML, or has other keys or types than a night has.
    #[error("{}:{line}: {message}", path.display())]
    Form {
        /// The file.
        path: PathBuf,
        /// Line, from 1.
        line: usize,
        /// What the parser said.
        message: String,
    },
    /// A value that cannot be.
    #[error("{}: {place}: {problem}", path.display())]
    Value {
        /// The file.
        path: PathBuf,
        /// The key, and the model it belongs to.
        place: String,
        /// What is wrong and what to do.
        problem: String,
    },
}

/// The file, as it is written.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct File {
    dataset: PathBuf,
    budget: Value,
    #[serde(default)]
    keep: Option<Value>,
    #[serde(default)]
    threshold: Option<Value>,
    #[serde(default)]
    max_failed: Option<Value>,
    #[serde(default)]
    targets: Option<Vec<String>>,
    #[serde(default)]
    sweeps: Option<Vec<String>>,
    #[serde(default)]
    settings: BTreeMap<String, Value>,
    #[serde(default, rename = "model")]
    models: Vec<ModelEntry>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct ModelEntry {
    /// One name, or several that share all that follows.
    name: Value,
    #[serde(default)]
    source: Option<String>,
    #[serde(default)]
    label: Option<String>,
    #[serde(default)]
    weight: Option<f64>,
    #[serde(default)]
    targets: Option<Vec<String>>,
    #[serde(default)]
    sweeps: Option<Vec<String>>,
    #[serde(default)]
    settings: BTreeMap<String, Value>,
}

/// A validated night.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct NightPlan {
    /// The configuration it is from.
    pub config: PathBuf,
    /// Folder of all nights.
    pub dataset: PathBuf,
    /// The night, as `2026-11-20` (UTC).
    pub date: String,
    /// Time for all jobs, in ns.
    pub budget_ns: u64,
    /// Nights to keep.
    pub keep: u64,
    /// How much slower is a regression.
    pub threshold: f64,
    /// Share of points that may fail.
    pub max_failed_share: f64,
    /// What to do, in order.
    pub jobs: Vec<Job>,
}

/// One model on one target with one sweep.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Job {
    /// Name of the model's partition.
    pub model: String,
    /// Where the model comes from.
    pub source: String,
    /// The model, as the main job takes it.
    pub name: String,
    /// The target.
    pub target: String,
    /// The sweep; `None` for the default schedules alone.
    pub sweep: Option<String>,
    /// Its part of the time among the others'.
    pub weight: f64,
    /// Flags of the main job with their values.
    pub settings: BTreeMap<String, String>,
}

impl NightPlan {
    /// Reads a file; `date` is the night's.
    ///
    /// # Errors
    /// The file cannot be read, or says what cannot be.
    pub fn read(path: &Path, date: &str) -> Result<NightPlan, ConfigError> {
        let text = std::fs::read_to_string(path).map_err(|source| ConfigError::Unreadable {
            path: path.to_owned(),
            source,
        })?;
        NightPlan::parse(path, &text, date)
    }

    /// Reads the text of a file; `path` is for messages.
    ///
    /// # Errors
    /// As for [`NightPlan::read`].
    pub fn parse(path: &Path, text: &str, date: &str) -> Result<NightPlan, ConfigError> {
        let file: File = toml::from_str(text).map_err(|error| ConfigError::Form {
            path: path.to_owned(),
            line: line_of(text, error.span().map_or(0, |span| span.start)),
            message: error.message().replace('\n', " "),
        })?;
        let wrong = |place: &str, problem: String| ConfigError::Value {
            path: path.to_owned(),
            place: place.to_owned(),
            problem,
        };
        let share = |key: &str, value: &Option<Value>, default: f64| match value {
            None => Ok(default),
            Some(value) => read(value, parse::share).map_err(|problem| wrong(key, problem)),
        };
        let budget = read(&file.budget, parse::duration_ns);
        let keep = file.keep.as_ref().map_or(Ok(DEFAULT_KEEP), |value| {
            read(value, |text| parse::count(text, 1, 100_000))
        });
        if file.models.is_empty() {
            let problem = "there is none; name one as [[model]] with a name".to_owned();
            return Err(wrong("model", problem));
        }
        let mut jobs = Vec::new();
        for model in &file.models {
            let names = names(model).map_err(|problem| wrong("model", problem))?;
            for name in &names {
                let place = format!("model `{name}`");
                jobs.extend(jobs_of(model, name, &file).map_err(|problem| wrong(&place, problem))?);
            }
        }
        distinct(&jobs).map_err(|problem| wrong("model", problem))?;
        Ok(NightPlan {
            config: path.to_owned(),
            date: date.to_owned(),
            budget_ns: budget.map_err(|problem| wrong("budget", problem))?,
            keep: keep.map_err(|problem| wrong("keep", problem))?,
            threshold: share("threshold", &file.threshold, DEFAULT_THRESHOLD)?,
            max_failed_share: share("max-failed", &file.max_failed, 0.0)?,
            dataset: file.dataset,
            jobs,
        })
    }

    /// Time for all jobs.
    pub fn budget(&self) -> Duration {
        Duration::from_nanos(self.budget_ns)
    }

    /// Folder of this night.
    pub fn night_folder(&self) -> PathBuf {
        self.dataset.join(format!("date={}", self.date))
    }

    /// Folder of a job's run.
    pub fn job_folder(&self, job: &Job) -> PathBuf {
        self.night_folder().join(job.key())
    }

    /// What a job says goes here.
    pub fn job_log(&self, job: &Job) -> PathBuf {
        let name = job.key().to_string_lossy().replace('/', ",");
        self.night_folder()
            .join(jobs::LOGS)
            .join(format!("{name}.log"))
    }
}

/// Nights to keep, unless the file says.
const DEFAULT_KEEP: u64 = 14;
/// How much slower is a regression, unless the file says.
const DEFAULT_THRESHOLD: f64 = 0.05;

impl Job {
    /// Its folder below a night's: the same every night.
    pub fn key(&self) -> PathBuf {
        [
            format!("model={}", self.model),
            format!("backend={}", safe(&self.target)),
            format!("sweep={}", safe(self.sweep.as_deref().unwrap_or("none"))),
        ]
        .iter()
        .collect()
    }

    /// What people call it.
    pub fn label(&self) -> String {
        match &self.sweep {
            Some(sweep) => format!("{}, {}, {sweep}", self.model, self.target),
            None => format!("{}, {}", self.model, self.target),
        }
    }

    /// The arguments of the main job that does it.
    pub fn arguments(&self, out: &Path, time: Duration) -> Vec<OsString> {
        let mut args: Vec<OsString> = vec![
            "--modelsource".into(),
            (&self.source).into(),
            "--modelname".into(),
            (&self.name).into(),
            "--target".into(),
            (&self.target).into(),
        ];
        if let Some(sweep) = &self.sweep {
            args.extend(["--sweep".into(), sweep.into()]);
        }
        args.extend(["--out".into(), out.into(), time_budget(time)]);
        // With `=` a value may begin with a dash and a switch may have one.
        let settings = self.settings.iter();
        args.extend(settings.map(|(key, value)| format!("--{key}={value}").into()));
        args
    }

    /// The arguments that go on with a run of it, by the run's own plan.
    pub fn resume_arguments(&self, run: &Path, time: Duration) -> Vec<OsString> {
        let mut args: Vec<OsString> = vec!["--resume".into(), run.into(), time_budget(time)];
        let python = self.settings.get("python");
        args.extend(python.map(|python| format!("--python={python}").into()));
        args
    }
}

fn time_budget(time: Duration) -> OsString {
    format!("--time-budget={}s", time.as_secs().max(1)).into()
}

/// The names of an entry.
fn names(model: &ModelEntry) -> Result<Vec<String>, String> {
    let names: Vec<String> = match &model.name {
        Value::Array(names) => names.iter().map(scalar).collect::<Result<_, _>>(),
        name => scalar(name).map(|name| vec![name]),
    }
    .map_err(|problem| format!("name {problem}"))?;
    match (names.len(), &model.label) {
        (0, _) => Err("name is an empty list; name a model".to_owned()),
        (2.., Some(label)) => Err(format!(
            "`{label}` is the label of {} models; give each an entry of its own, or leave the label out",
            names.len()
        )),
        _ => Ok(names),
    }
}

fn jobs_of(model: &ModelEntry, name: &str, file: &File) -> Result<Vec<Job>, String> {
    let label = match (&model.label, name.rsplit('/').next()) {
        (Some(label), _) => safe(label),
        (None, Some(last)) => safe(last),
        (None, None) => safe(name),
    };
    if label.trim_matches('.').is_empty() {
        return Err("its name has no letters to make a folder of; give it a label".to_owned());
    }
    let weight = model.weight.unwrap_or(1.0);
    if !(weight.is_finite() && weight > 0.0) {
        return Err(format!("weight {weight}: give a number above 0"));
    }
    let mut settings = BTreeMap::new();
    for (key, value) in file.settings.iter().chain(&model.settings) {
        settings.insert(key.clone(), setting(key, value)?);
    }
    let or = |own: &Option<Vec<String>>, shared: &Option<Vec<String>>| {
        own.clone().or_else(|| shared.clone())
    };
    let targets = or(&model.targets, &file.targets).unwrap_or_else(|| vec!["llvm".to_owned()]);
    let sweeps: Vec<Option<String>> = match or(&model.sweeps, &file.sweeps) {
        None => vec![None],
        Some(names) => names.into_iter().map(Some).collect(),
    };
    if targets.is_empty() || sweeps.is_empty() {
        return Err("targets or sweeps is an empty list; leave it out or name one".to_owned());
    }
    let jobs = targets.iter().flat_map(|target| {
        sweeps.iter().map(|sweep| Job {
            model: label.clone(),
            source: model.source.clone().unwrap_or_else(|| "local".to_owned()),
            name: name.to_owned(),
            target: target.clone(),
            sweep: sweep.clone(),
            weight,
            settings: settings.clone(),
        })
    });
    Ok(jobs.collect())
}

/// A setting of the main job as its flag takes it.
fn setting(key: &str, value: &Value) -> Result<String, String> {
    let Some(known) = SETTINGS.iter().find(|setting| setting.key == key) else {
        let hint = nearest(key, SETTINGS.iter().map(|s| s.key))
            .map_or_else(String::new, |near| format!(" (did you mean `{near}`?)"));
        return Err(format!(
            "settings has an unknown key `{key}`{hint}; `opcollect --print-config` lists all keys"
        ));
    };
    if OWN_SETTINGS.contains(&key) {
        return Err(format!(
            "settings has `{key}`, which the night decides; leave it out"
        ));
    }
    let text = match (known.arity, value) {
        (Arity::List, Value::Array(items)) => {
            let texts: Result<Vec<String>, String> = items.iter().map(scalar).collect();
            texts.map(|texts| texts.join(","))
        }
        (Arity::Switch, Value::Boolean(on)) => Ok(on.to_string()),
        (_, other) => scalar(other),
    };
    text.map_err(|problem| format!("settings.{key}: {problem}"))
}

/// A value with a unit; the error repeats it.
fn read<T>(value: &Value, parser: impl Fn(&str) -> Result<T, String>) -> Result<T, String> {
    let text = scalar(value)?;
    parser(&text).map_err(|problem| format!("`{text}`: {problem}"))
}

fn scalar(value: &Value) -> Result<String, String> {
    match value {
        Value::String(text) => Ok(text.clone()),
        Value::Integer(number) => Ok(number.to_string()),
        Value::Float(number) => Ok(number.to_string()),
        other => Err(format!(
            "is of type {}, but must be a string or a number",
            other.type_str()
        )),
    }
}

/// A text as part of a folder's name.
fn safe(text: &str) -> String {
    safe_file_name(text, 100)
}

/// Two jobs with one folder would write over each other.
fn distinct(jobs: &[Job]) -> Result<(), String> {
    let mut keys = BTreeSet::new();
    match jobs.iter().find(|job| !keys.insert(job.key())) {
        None => Ok(()),
        Some(job) => Err(format!(
            "two jobs have the folder {}; give one of the models a label of its own",
            job.key().display()
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(text: &str) -> Result<NightPlan, String> {
        NightPlan::parse(Path::new("n.toml"), text, "2026-11-20").map_err(|e| e.to_string())
    }

    const BASE: &str = "dataset = 'd'\nbudget = '1h'\n";

    #[test]
    fn jobs_are_models_by_targets_by_sweeps() {
        let plan = plan(
            "dataset = 'd'\nbudget = 3600\nkeep = 3\nmax-failed = '2%'\ntargets = ['llvm', 'llvm -mcpu=haswell']\n\
             [settings]\nthreads = [1, 'max']\nci = '5%'\n\
             [[model]]\nname = 'resnet-18'\nweight = 2\nsweeps = ['tile', 'threads']\n\
             [[model]]\nname = 'dir/my net.onnx'\nsource = 'onnx'\nsettings = { ci = '1%', input = ['x:1x3'] }\n",
        )
        .unwrap();
        assert_eq!(plan.budget(), Duration::from_secs(3600));
        assert_eq!(
            (plan.keep, plan.max_failed_share, plan.threshold),
            (3, 0.02, 0.05)
        );
        let keys: Vec<String> = plan
            .jobs
            .iter()
            .map(|j| j.key().display().to_string())
            .collect();
        insta::assert_snapshot!(keys.join("\n"), @r"
        model=resnet-18/backend=llvm/sweep=tile
        model=resnet-18/backend=llvm/sweep=threads
        model=resnet-18/backend=llvm--mcpu-haswell/sweep=tile
        model=resnet-18/backend=llvm--mcpu-haswell/sweep=threads
        model=my-net.onnx/backend=llvm/sweep=none
        model=my-net.onnx/backend=llvm--mcpu-haswell/sweep=none
        ");
        let args = plan.jobs[5].arguments(Path::new("out"), Duration::from_secs(90));
        let args: Vec<&str> = args.iter().filter_map(|a| a.to_str()).collect();
        let line = args.join(" ");
        for part in [
            "--modelsource onnx --modelname dir/my net.onnx --target llvm -mcpu=haswell",
            "--out out --time-budget=90s",
            "--ci=1% --input=x:1x3 --threads=1,max",
        ] {
            assert!(line.contains(part), "no {part} in {line}");
        }
    }

    #[test]
    fn several_names_share_an_entry() {
        let plan = plan(&format!(
            "{BASE}[[model]]\nname = ['dense:m=1,n=8', 'mlp']\nsource = 'simple'\n"
        ));
        let jobs = plan.unwrap().jobs;
        let keys: Vec<String> = jobs.iter().map(|j| j.key().display().to_string()).collect();
        assert_eq!(
            keys,
            [
                "model=dense-m-1-n-8/backend=llvm/sweep=none",
                "model=mlp/backend=llvm/sweep=none"
            ]
        );
        assert!(jobs.iter().all(|job| job.source == "simple"));
    }

    #[test]
    fn mistakes_are_told_with_their_place() {
        let model = "[[model]]\nname = 'mlp'\n";
        insta::assert_snapshot!(
            [
                plan("dataset = 'd'\nbugdet = '1h'\n").unwrap_err(),
                plan("dataset = 'd'\nbudget = \n").unwrap_err(),
                plan(BASE).unwrap_err(),
                plan(&format!("dataset = 'd'\nbudget = 'soon'\n{model}")).unwrap_err(),
                plan(&format!("{BASE}keep = 0\n{model}")).unwrap_err(),
                plan(&format!("{BASE}threshold = [1]\n{model}")).unwrap_err(),
                plan(&format!("{BASE}{model}weight = 0\n")).unwrap_err(),
                plan(&format!("{BASE}{model}{model}")).unwrap_err(),
                plan(&format!("{BASE}targets = []\n{model}")).unwrap_err(),
                plan(&format!("{BASE}{model}settings = {{ thread = 1 }}\n")).unwrap_err(),
                plan(&format!("{BASE}{model}settings = {{ out = 'x' }}\n")).unwrap_err(),
                plan(&format!("{BASE}[[model]]\nname = []\n")).unwrap_err(),
                plan(&format!("{BASE}[[model]]\nname = [['mlp']]\n")).unwrap_err(),
                plan(&format!("{BASE}[[model]]\nname = ['mlp', 'rnn']\nlabel = 'x'\n")).unwrap_err(),
            ]
            .join("\n"),
            @r"
        n.toml:2: unknown field `bugdet`, expected one of `dataset`, `budget`, `keep`, `threshold`, `max-failed`, `targets`, `sweeps`, `settings`, `model`
        n.toml:2: string values must be quoted, expected literal string
        n.toml: model: there is none; name one as [[model]] with a name
        n.toml: budget: `soon`: not a duration such as 500ms, 2s or 1m
        n.toml: keep: `0`: must be at least 1
        n.toml: threshold: is of type array, but must be a string or a number
        n.toml: model `mlp`: weight 0: give a number above 0
        n.toml: model: two jobs have the folder model=mlp/backend=llvm/sweep=none; give one of the models a label of its own
        n.toml: model `mlp`: targets or sweeps is an empty list; leave it out or name one
        n.toml: model `mlp`: settings has an unknown key `thread` (did you mean `threads`?); `opcollect --print-config` lists all keys
        n.toml: model `mlp`: settings has `out`, which the night decides; leave it out
        n.toml: model: name is an empty list; name a model
        n.toml: model: name is of type array, but must be a string or a number
        n.toml: model: `x` is the label of 2 models; give each an entry of its own, or leave the label out
        "
        );
    }
}
