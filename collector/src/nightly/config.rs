//! `nightly.toml` → [`NightlyPlan`].
//!
//! Keys are spelt like the main job's settings. `settings` may hold those settings themselves, except the ones that the nightly run
//! decides. Every error names file, place and remedy.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use opdata::line_of;
use opreport::nearest::{closest, did_you_mean};
use serde::Deserialize;
use thiserror::Error;
use toml::Value;

use super::plan::{Job, NightlyPlan, safe};
use crate::config::{Given, SETTINGS};
use crate::plan::parse;

/// Settings of the main job that a nightly run sets itself.
const OWN_SETTINGS: [&str; 7] = [
    "modelsource",
    "modelname",
    "target",
    "sweep",
    "time-budget",
    "shard",
    "out",
];

/// Faults of a nightly configuration.
#[derive(Debug, Error)]
pub enum ConfigError {
    /// The file cannot be read.
    #[error("cannot read the night's configuration {}: {source}; give the path of a readable TOML file to --config", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The reason.
        source: std::io::Error,
    },
    /// The file is not TOML, or has unknown keys or values of the wrong type.
    #[error("{}:{line}: {message}", path.display())]
    Form {
        /// The file.
        path: PathBuf,
        /// Line, from 1.
        line: usize,
        /// The parser's message.
        message: String,
    },
    /// A value that is not allowed.
    #[error("{}: {place}: {problem}", path.display())]
    Value {
        /// The file.
        path: PathBuf,
        /// The key, and the model it belongs to.
        place: String,
        /// Description of the fault and its remedy.
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
    repeat_disturbed: bool,
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
    #[serde(default)]
    name: Option<Value>,
    /// A text file beside the configuration with one name a line; `#` begins a comment.
    #[serde(default)]
    names_from: Option<PathBuf>,
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

impl NightlyPlan {
    /// Reads a file for the nightly run of `date`.
    ///
    /// # Errors
    /// Fails if the file cannot be read, or has a value that is not allowed.
    pub fn read(path: &Path, date: &str) -> Result<NightlyPlan, ConfigError> {
        let text = opdata::read_text(path).map_err(|source| ConfigError::Unreadable {
            path: path.to_owned(),
            source,
        })?;
        NightlyPlan::parse(path, &text, date)
    }

    /// Reads the text of a file; `path` is for messages.
    ///
    /// # Errors
    /// Fails as [`NightlyPlan::read`] does.
    pub fn parse(path: &Path, text: &str, date: &str) -> Result<NightlyPlan, ConfigError> {
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
            let names = names(model, path).map_err(|problem| wrong("model", problem))?;
            for name in &names {
                let place = format!("model `{name}`");
                jobs.extend(jobs_of(model, name, &file).map_err(|problem| wrong(&place, problem))?);
            }
        }
        distinct(&jobs).map_err(|problem| wrong("model", problem))?;
        Ok(NightlyPlan {
            config: path.to_owned(),
            date: date.to_owned(),
            budget_ns: budget.map_err(|problem| wrong("budget", problem))?,
            keep: keep.map_err(|problem| wrong("keep", problem))?,
            threshold: share("threshold", &file.threshold, DEFAULT_THRESHOLD)?,
            max_failed_share: share("max-failed", &file.max_failed, 0.0)?,
            repeat_disturbed: file.repeat_disturbed,
            dataset: file.dataset,
            jobs,
        })
    }
}

/// Default number of nightly runs to keep.
const DEFAULT_KEEP: u64 = 14;
/// Default of the slowdown that counts as a regression.
const DEFAULT_THRESHOLD: f64 = 0.05;

/// The names of a `[[model]]` entry of the configuration at `config`.
fn names(model: &ModelEntry, config: &Path) -> Result<Vec<String>, String> {
    let names = match (&model.name, &model.names_from) {
        (Some(Value::Array(names)), None) => names.iter().map(scalar).collect::<Result<_, _>>(),
        (Some(name), None) => scalar(name).map(|name| vec![name]),
        (None, Some(file)) => return names_in(&config.with_file_name(file), model),
        (None, None) => return Err("has no name; give name or names-from".to_owned()),
        (Some(_), Some(_)) => return Err("has both name and names-from; leave one out".to_owned()),
    };
    let names = names.map_err(|problem| format!("name {problem}"))?;
    shared_by(names, "name is an empty list; name a model", model)
}

/// The names in a text file.
fn names_in(file: &Path, model: &ModelEntry) -> Result<Vec<String>, String> {
    let text = opdata::read_text(file)
        .map_err(|error| format!("names-from {}: {error}", file.display()))?;
    let lines = text
        .lines()
        .map(|line| line.split('#').next().unwrap_or(""));
    let names = lines.map(str::trim).filter(|name| !name.is_empty());
    let nothing = format!("names-from {}: it has no names", file.display());
    shared_by(names.map(str::to_owned).collect(), &nothing, model)
}

/// Names that share an entry: some, and one only where it has a label.
fn shared_by(names: Vec<String>, nothing: &str, model: &ModelEntry) -> Result<Vec<String>, String> {
    match (names.len(), &model.label) {
        (0, _) => Err(nothing.to_owned()),
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
            again: 0,
            weight,
            settings: settings.clone(),
        })
    });
    Ok(jobs.collect())
}

/// A setting of the main job as the text of its flag.
fn setting(key: &str, value: &Value) -> Result<String, String> {
    let Some(known) = SETTINGS.iter().find(|setting| setting.key == key) else {
        let near = closest(key, SETTINGS.iter().map(|s| s.key));
        let near: Vec<String> = near.iter().map(|near| format!("`{near}`")).collect();
        let hint = did_you_mean(&near);
        return Err(format!(
            "settings has an unknown key `{key}`{hint}; `opcollect --print-config` lists all keys"
        ));
    };
    if OWN_SETTINGS.contains(&key) {
        return Err(format!(
            "settings has `{key}`, which the night decides; leave it out"
        ));
    }
    let texts = Given::from(value).texts(known);
    texts
        .map(|texts| texts.join(","))
        .map_err(|wrong| format!("settings.{key}: {wrong}"))
}

/// A value that `parser` reads from text; the error repeats the text.
fn read<T>(value: &Value, parser: impl Fn(&str) -> Result<T, String>) -> Result<T, String> {
    let text = scalar(value)?;
    parser(&text).map_err(|problem| format!("`{text}`: {problem}"))
}

fn scalar(value: &Value) -> Result<String, String> {
    Given::from(value)
        .scalar()
        .map_err(|wrong| wrong.to_string())
}

/// Refuses two jobs with one folder, which would write over each other.
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
    use std::time::Duration;

    use super::*;

    fn plan(text: &str) -> Result<NightlyPlan, String> {
        NightlyPlan::parse(Path::new("n.toml"), text, "2026-11-20").map_err(|e| e.to_string())
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
    fn names_may_lie_in_a_file() {
        let folder = tempfile::tempdir().unwrap();
        let config = folder.path().join("n.toml");
        let read = |names: Option<&str>, entry: &str| {
            let file = folder.path().join("names.txt");
            let _ = std::fs::remove_file(&file);
            if let Some(names) = names {
                std::fs::write(&file, names).unwrap();
            }
            let text = format!("{BASE}[[model]]\n{entry}\n");
            NightlyPlan::parse(&config, &text, "2026-11-20").map_err(|error| {
                let folder = folder.path().display().to_string();
                error.to_string().replace(&folder, "DIR")
            })
        };
        let names = "# two\n\n mlp  # a small one\nrnn\n";
        let from_file = "names-from = 'names.txt'";
        let jobs = read(Some(names), from_file).unwrap().jobs;
        let found: Vec<&str> = jobs.iter().map(|job| job.name.as_str()).collect();
        assert_eq!(found, ["mlp", "rnn"]);
        let both = format!("{from_file}\nname = 'mlp'");
        let labelled = format!("{from_file}\nlabel = 'x'");
        insta::assert_snapshot!(
            [
                read(None, from_file),
                read(Some("# none\n"), from_file),
                read(Some(names), &both),
                read(Some(names), &labelled),
                read(Some(names), "weight = 1"),
            ]
            .map(|result| result.unwrap_err().to_string())
            .join("\n"),
            @r"
        DIR/n.toml: model: names-from DIR/names.txt: No such file or directory (os error 2)
        DIR/n.toml: model: names-from DIR/names.txt: it has no names
        DIR/n.toml: model: has both name and names-from; leave one out
        DIR/n.toml: model: `x` is the label of 2 models; give each an entry of its own, or leave the label out
        DIR/n.toml: model: has no name; give name or names-from
        "
        );
    }

    #[test]
    fn mistakes_are_reported_with_their_place() {
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
        n.toml:2: unknown field `bugdet`, expected one of `dataset`, `budget`, `keep`, `threshold`, `max-failed`, `repeat-disturbed`, `targets`, `sweeps`, `settings`, `model`
        n.toml:2: string values must be quoted, expected literal string
        n.toml: model: there is none; name one as [[model]] with a name
        n.toml: budget: `soon`: not a duration such as 500ms, 2s or 1m
        n.toml: keep: `0`: must be at least 1
        n.toml: threshold: is a list, but must be a string or a number
        n.toml: model `mlp`: weight 0: give a number above 0
        n.toml: model: two jobs have the folder model=mlp/backend=llvm/sweep=none; give one of the models a label of its own
        n.toml: model `mlp`: targets or sweeps is an empty list; leave it out or name one
        n.toml: model `mlp`: settings has an unknown key `thread` (did you mean `threads`?); `opcollect --print-config` lists all keys
        n.toml: model `mlp`: settings has `out`, which the night decides; leave it out
        n.toml: model: name is an empty list; name a model
        n.toml: model: name is a list, but must be a string or a number
        n.toml: model: `x` is the label of 2 models; give each an entry of its own, or leave the label out
        "
        );
    }
}
