//! Settings → [`Plan`]: every value read, bounded and checked against the others, or an error that
//! names the setting, its layer and the next thing to do. Whatever the old tool had and this one
//! has not yet is refused here by name, never ignored.

use std::path::{Path, PathBuf};

use opdata::{CacheState, Timestamp};
use opmodels::{ImportError, ImportRequest, InputOverride, Source};

use super::parse;
use super::reader::{
    at_least_one, bad, duration, hint, not_available, number, optional, required, single, unique,
};
use super::run_id::{free_directory, run_id};
use super::{
    Availability, PLAN_FORMAT, Plan, PlanError, ScheduleSource, Target, TargetKind, TimingPolicy,
    WholeModel, WorkerPolicy,
};
use crate::config::Settings;
use crate::stats::{MIN_FOR_INTERVAL, StopRule};

/// More threads than this is taken for a mistake.
const MAX_THREADS: u64 = 1024;

/// So is a larger batch, a longer sequence, or an input of more elements.
const MAX_BATCH: u64 = 65_536;
const MAX_SEQLEN: u64 = 1 << 20;
const MAX_ELEMENTS: u64 = 1 << 40;

/// Sources of models that the old tool had, or that are to come.
const LATER_SOURCES: [&str; 5] = ["transformers", "remoteonnx", "torchvision", "timm", "torch"];

const WHOLE: &str = "give a whole number";

/// What a plan needs to know of the machine and the moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HostFacts {
    /// Cores this process may run on, at least 1.
    pub cores: u32,
    /// The present, for the run's name.
    pub now: Timestamp,
}

/// A plan, and what its user should know about it.
#[derive(Debug, Clone, PartialEq)]
pub struct Planned {
    /// The plan.
    pub plan: Plan,
    /// Doubts that do not forbid it.
    pub warnings: Vec<Warning>,
    /// The Python that runs the importer; `None` for the project's own environment.
    pub python: Option<PathBuf>,
}

/// A doubt about a plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Warning {
    /// More threads than cores: the times will be of threads that wait for each other.
    MoreThreadsThanCores {
        /// Threads asked for.
        threads: u32,
        /// Cores this process may use.
        cores: u32,
    },
}

impl std::fmt::Display for Warning {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::MoreThreadsThanCores { threads, cores } => write!(
                f,
                "{threads} threads on {cores} core{}: threads will wait for each other, and the times say so",
                if *cores == 1 { "" } else { "s" }
            ),
        }
    }
}

impl Plan {
    /// Reads and checks all settings.
    pub fn from_settings(settings: &Settings, host: HostFacts) -> Result<Planned, PlanError> {
        refuse_what_is_not_there(settings)?;
        let model = Self::model_of(settings)?;
        let target = target(settings)?;
        let threads = threads(settings, host.cores)?;
        let warnings = threads
            .iter()
            .filter(|threads| **threads > host.cores)
            .map(|threads| Warning::MoreThreadsThanCores {
                threads: *threads,
                cores: host.cores,
            })
            .collect();
        let run_id = run_id(&model, &target, host.now);
        let (out, run_id) = match single(settings, "out")? {
            Some((_, text)) => (PathBuf::from(text), run_id),
            None => free_directory(Path::new("runs"), run_id),
        };
        let plan = Self {
            format: PLAN_FORMAT,
            model,
            target,
            threads,
            cache_states: cache_states(settings)?,
            schedule: ScheduleSource::Default,
            timing: timing(settings)?,
            worker: worker(settings)?,
            seed: number(settings, "seed", 0, u64::MAX)?,
            whole_model: required(
                settings,
                "whole-model",
                |text| match text {
                    "measure" => Ok(WholeModel::Measure),
                    "skip" => Ok(WholeModel::Skip),
                    _ => Err("no such choice".to_owned()),
                },
                "give measure or skip",
            )?,
            out,
            run_id,
            max_failed_share: required(
                settings,
                "max-failed",
                parse::share,
                "give a share such as 0.1 or 10%",
            )?,
        };
        let python = single(settings, "python")?.map(|(_, text)| PathBuf::from(text));
        Ok(Planned {
            plan,
            warnings,
            python,
        })
    }
}

impl Plan {
    /// Reads and checks the thread counts alone; `max` is `cores`.
    pub fn threads_of(settings: &Settings, cores: u32) -> Result<Vec<u32>, PlanError> {
        threads(settings, cores)
    }
}

/// Capabilities that the old tool had under these names and this one has not yet.
fn refuse_what_is_not_there(settings: &Settings) -> Result<(), PlanError> {
    const TUNING: &str = "tuning of schedules";
    const LEAVE_OUT: &str = "leave it out to measure the default schedules";
    for (key, problem, next) in [
        ("iftune", TUNING, LEAVE_OUT),
        (
            "ifcompare",
            "the comparison of tuned with default schedules",
            LEAVE_OUT,
        ),
        (
            "ifpartial",
            "the comparison after part of the trials",
            LEAVE_OUT,
        ),
        ("tuner", TUNING, LEAVE_OUT),
        ("trials", TUNING, LEAVE_OUT),
        (
            "host",
            "measuring on another machine",
            "leave it out to measure on this one",
        ),
        (
            "port",
            "measuring on another machine",
            "leave it out to measure on this one",
        ),
    ] {
        let value = settings.get(key);
        match single(settings, key)? {
            None => {}
            Some((_, text)) if text == "false" => {}
            Some((_, text)) if text == "true" || !key.starts_with("if") => {
                return Err(not_available(&value, &text, problem, next));
            }
            Some((_, text)) => {
                return Err(bad(
                    &value,
                    &text,
                    "neither true nor false",
                    "give true or false",
                ));
            }
        }
    }
    required(
        settings,
        "executor",
        |text| match text {
            // `default` was the old tool's name for whatever runs a model by default.
            "vm" | "default" => Ok(()),
            other => Err(other.to_owned()),
        },
        "",
    )
    .map_err(|error| match error {
        PlanError::BadValue {
            key, value, origin, ..
        } if ["graph", "debug", "aot"].contains(&value.as_str()) => PlanError::NotAvailable {
            key,
            value,
            origin,
            problem: "TVM has dropped this executor".to_owned(),
            next: "use --executor vm".to_owned(),
        },
        PlanError::BadValue {
            key, value, origin, ..
        } => PlanError::BadValue {
            key,
            value,
            origin,
            problem: "no such executor".to_owned(),
            next: "use --executor vm".to_owned(),
        },
        other => other,
    })
}

impl Plan {
    /// Reads and checks the settings of the model alone.
    pub fn model_of(settings: &Settings) -> Result<ImportRequest, PlanError> {
        Ok(ImportRequest {
            source: source(settings)?,
            model: model_name(settings)?,
            batch: optional(
                settings,
                "batchsize",
                |text| parse::count(text, 1, MAX_BATCH),
                WHOLE,
            )?,
            seqlen: optional(
                settings,
                "seqlen",
                |text| parse::count(text, 1, MAX_SEQLEN),
                WHOLE,
            )?,
            inputs: inputs(settings)?,
        })
    }
}

fn source(settings: &Settings) -> Result<Source, PlanError> {
    let value = settings.get("modelsource");
    let name = required(settings, "modelsource", |text| Ok(text.to_owned()), "")?;
    if let Some(source) = Source::ALL.into_iter().find(|source| source.name() == name) {
        return Ok(source);
    }
    if LATER_SOURCES.contains(&name.as_str()) {
        return Err(not_available(
            &value,
            &name,
            "this source of models",
            "use --modelsource local (see `opcollect list models`), or export the model to ONNX and use --modelsource onnx --modelname FILE",
        ));
    }
    Err(bad(
        &value,
        &name,
        &format!(
            "no such source of models{}",
            hint(&name, Source::ALL.map(Source::name))
        ),
        "give local, onnx or simple",
    ))
}

fn model_name(settings: &Settings) -> Result<String, PlanError> {
    let next = match source(settings)? {
        Source::Local => {
            "name a model, e.g. --modelname resnet-18; `opcollect list models` shows them"
        }
        Source::Onnx => "give the path of an ONNX file",
        Source::Simple => {
            "name an operator, e.g. --modelname matmul:m=512,n=512,k=512; `opcollect list ops` shows them"
        }
    };
    single(settings, "modelname")?
        .map(|(_, text)| text)
        .ok_or_else(|| PlanError::Missing {
            key: "modelname",
            next: next.to_owned(),
        })
}

fn inputs(settings: &Settings) -> Result<Vec<InputOverride>, PlanError> {
    let next = "give name:shape[:dtype], e.g. --input data:1x3x224x224:float32";
    let inputs = unique(settings, "input", read_input, next)?;
    for (index, input) in inputs.iter().enumerate() {
        if inputs[..index].iter().any(|other| other.name == input.name) {
            return Err(bad(
                &settings.get("input"),
                &input.to_string(),
                "this input has been given another shape already",
                "give each input once",
            ));
        }
    }
    Ok(inputs)
}

fn read_input(text: &str) -> Result<InputOverride, String> {
    let input: InputOverride = text.parse().map_err(|error: ImportError| {
        // The setting's name and text stand before the problem already.
        let message = error.to_string();
        let problem = message.strip_prefix(&format!("input '{text}': "));
        problem.map_or(message.clone(), str::to_owned)
    })?;
    let elements = input
        .shape
        .iter()
        .try_fold(1u64, |product, extent| product.checked_mul(*extent));
    if elements.is_none_or(|elements| elements > MAX_ELEMENTS) {
        return Err("it has more elements than any machine holds".to_owned());
    }
    Ok(input)
}

fn target(settings: &Settings) -> Result<Target, PlanError> {
    let value = settings.get("target");
    let text = required(settings, "target", |text| Ok(text.to_owned()), "")?;
    let mut words = text.split_whitespace();
    let name = words.next().unwrap_or_default();
    let names = TargetKind::ALL.map(TargetKind::name);
    let there = TargetKind::ALL
        .into_iter()
        .filter(|kind| kind.availability() == Availability::BuiltIn)
        .map(TargetKind::name)
        .collect::<Vec<_>>()
        .join(", ");
    let kind = TargetKind::ALL
        .into_iter()
        .find(|kind| kind.name() == name)
        .ok_or_else(|| {
            bad(
                &value,
                &text,
                &format!("no such target{}", hint(name, names)),
                &format!("available here: {there}"),
            )
        })?;
    if kind.availability() == Availability::NotBuiltIn {
        return Err(not_available(
            &value,
            &text,
            &format!("this build has no code generator for {}", kind.title()),
            &format!("available here: {there}"),
        ));
    }
    let mut target = Target {
        kind,
        mcpu: None,
        mattr: Vec::new(),
    };
    for word in words {
        match word.split_once('=') {
            Some(("-mcpu", cpu)) if !cpu.is_empty() => target.mcpu = Some(cpu.to_owned()),
            Some(("-mattr", attributes)) if !attributes.is_empty() => {
                target.mattr = attributes.split(',').map(str::to_owned).collect();
            }
            _ => {
                return Err(bad(
                    &value,
                    &text,
                    &format!("`{word}` is no option of a target here"),
                    "options are -mcpu=NAME and -mattr=+FEATURE,-FEATURE; threads are set by --threads",
                ));
            }
        }
    }
    Ok(target)
}

fn threads(settings: &Settings, cores: u32) -> Result<Vec<u32>, PlanError> {
    at_least_one(
        settings,
        "threads",
        |text| match text {
            "max" => Ok(cores.max(1)),
            "0" => Err("a kernel needs at least one thread".to_owned()),
            number => parse::count(number, 1, MAX_THREADS).map(|n| n as u32),
        },
        "give numbers from 1 up, or max for all cores, e.g. --threads 1,2,max",
    )
}

fn cache_states(settings: &Settings) -> Result<Vec<CacheState>, PlanError> {
    at_least_one(
        settings,
        "cache",
        |text| {
            CacheState::ALL
                .iter()
                .copied()
                .find(|state| state.as_str() == text)
                .ok_or_else(|| "no such cache state".to_owned())
        },
        "give hot, flushed or hot,flushed",
    )
}

fn timing(settings: &Settings) -> Result<TimingPolicy, PlanError> {
    let ci_value = settings.get("ci");
    let ci_target = required(
        settings,
        "ci",
        parse::share,
        "give a share such as 0.03 or 3%",
    )?;
    if ci_target <= 0.0 {
        return Err(bad(
            &ci_value,
            &ci_value.text(),
            "no number of samples makes an interval of no width",
            "give a share above 0, e.g. 3%",
        ));
    }
    let min_samples = number(settings, "min-samples", MIN_FOR_INTERVAL as u64, 1_000_000)? as u32;
    let max_samples = number(settings, "max-samples", 1, 10_000_000)? as u32;
    if max_samples < min_samples {
        let value = settings.get("max-samples");
        return Err(bad(
            &value,
            &value.text(),
            &format!("less than --min-samples {min_samples}"),
            "raise it, or lower --min-samples",
        ));
    }
    Ok(TimingPolicy {
        warmup: number(settings, "warmup", 0, 1_000_000)? as u32,
        stop: StopRule {
            ci_target,
            min_samples,
            max_samples,
            budget_ns: duration(settings, "budget")?,
        },
    })
}

fn worker(settings: &Settings) -> Result<WorkerPolicy, PlanError> {
    let budget = settings.get("budget");
    let measure_timeout_ns = duration(settings, "timeout")?;
    if measure_timeout_ns <= duration(settings, "budget")? {
        let value = settings.get("timeout");
        return Err(bad(
            &value,
            &value.text(),
            &format!(
                "no longer than --budget {}, so every point would time out",
                budget.text()
            ),
            "raise it, or lower --budget",
        ));
    }
    Ok(WorkerPolicy {
        compile_timeout_ns: duration(settings, "compile-timeout")?,
        measure_timeout_ns,
        memory_limit_mib: required(
            settings,
            "memory-limit",
            parse::size_mib,
            "give a size such as 4GiB",
        )?,
    })
}

#[cfg(test)]
mod tests;
