//! Settings → [`Plan`]: every value is read, bounded and checked against the others; an error names
//! the setting, its layer and the next thing to do. Flags of the old Python tool that are not
//! available yet are refused by name, never ignored.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use opdata::contract::PLAN_FORMAT;
use opdata::contract::RemoteAddress;
use opdata::{CacheState, RunLabel, Timestamp};
use opengine::device::{ConditionInfo, DeviceRef, Target};
use opengine::measure::counters::Side;

use super::counters::counters;
use super::limits::{timing, worker};
use super::reader::{
    at_least_one, bad, duration, number, optional, required, single, switch, unique,
};
use super::remote::remote;
use super::run_id::{free_directory, run_id};
use super::target::targets;
use super::tuning::{store, tuning};
use super::{Plan, PlanError, WholeModel, parse};
use crate::config::{Origin, Settings};
use crate::sweep::Sweep;

/// Facts about the machine and the time, for a plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HostFacts {
    /// Number of cores that this process may run on, at least 1.
    pub cores: u32,
    /// The present, for the run's name.
    pub now: Timestamp,
}

/// A plan, with warnings for its user.
#[derive(Debug, Clone, PartialEq)]
pub struct Planned {
    /// The plan.
    pub plan: Plan,
    /// Warnings that do not forbid it.
    pub warnings: Vec<Warning>,
    /// The Python that runs the importer; `None` for the project's own environment.
    pub python: Option<PathBuf>,
    /// The label of the run.
    pub label: RunLabel,
    /// A file for its report in Markdown.
    pub export_markdown: Option<PathBuf>,
}

/// A warning about a plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Warning {
    /// More threads than cores: the times will be of threads that wait for each other.
    MoreThreadsThanCores {
        /// Requested number of threads.
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

impl Planned {
    /// Reads and checks all settings.
    pub fn from_settings(
        settings: &Settings,
        sweep: Option<Sweep>,
        host: HostFacts,
    ) -> Result<Planned, PlanError> {
        check_executor(settings)?;
        let model = Self::model_of(settings)?;
        let compile_only = switch(settings, "compile-only")?;
        let (target, more_targets) = targets(settings, compile_only)?;
        let remote = remote(settings, &target, compile_only)?;
        let threads = match target.device.has_host_threads() {
            // A point that is only compiled is compiled once.
            true if compile_only => vec![1],
            true if remote.is_some() => threads_elsewhere(settings)?,
            true => threads(settings, host.cores)?,
            false => no_threads(settings, target.device)?,
        };
        let warnings = threads
            .iter()
            .filter(|threads| remote.is_none() && **threads > host.cores)
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
        let mut cache_states = cache_states(settings, target.device, remote.is_some())?;
        if compile_only {
            cache_states.truncate(1);
        }
        let device_conditions = device_conditions(settings, target.device)?;
        let whole_model = whole_model(settings, compile_only)?;
        let side = match target.device.has_host_threads() {
            true => Side::Host,
            false => Side::Device,
        };
        let counters = counters(settings, (!compile_only).then_some(side), remote.is_some())?;
        let keep_kernels = keep_kernels(settings, target.device, &counters)?;
        let plan = Plan {
            format: PLAN_FORMAT,
            model,
            target,
            more_targets,
            compile_only,
            keep_kernels,
            remote,
            threads,
            cache_states,
            device_conditions,
            sweep,
            tuning: tuning(settings, compile_only)?,
            store: store(settings)?,
            shard: optional(
                settings,
                "shard",
                parse::shard,
                "give which part of how many, e.g. --shard 1/4",
            )?,
            time_budget_ns: Self::time_budget_of(settings)?,
            counters,
            timing: timing(settings)?,
            remeasure_budget: required(
                settings,
                "remeasure-budget",
                parse::times,
                "give how many times as long as measuring took, e.g. 1 or 0.5",
            )?,
            worker: worker(settings)?,
            seed: number(settings, "seed", 0, u64::MAX)?,
            whole_model,
            out,
            run_id,
            max_failed_share: required(
                settings,
                "max-failed",
                parse::share,
                "give a share such as 0.1 or 10%",
            )?,
        };
        let text = |key| Ok::<_, PlanError>(single(settings, key)?.map(|(_, text)| text));
        Ok(Planned {
            plan,
            warnings,
            python: text("python")?.map(PathBuf::from),
            label: RunLabel {
                name: text("name")?,
                note: text("note")?,
                tags: settings.get("tag").texts,
            },
            export_markdown: text("export-markdown")?.map(PathBuf::from),
        })
    }
}

impl Planned {
    /// Reads and checks the time budget alone.
    pub fn time_budget_of(settings: &Settings) -> Result<Option<u64>, PlanError> {
        optional(
            settings,
            "time-budget",
            parse::duration_ns,
            "give a duration such as 90m or 6h",
        )
    }

    /// Reads and checks only the address of another machine's servers, and the target for it.
    pub fn remote_of(settings: &Settings) -> Result<Option<(RemoteAddress, Target)>, PlanError> {
        let (target, _) = targets(settings, false)?;
        Ok(remote(settings, &target, false)?.map(|address| (address, target)))
    }

    /// Reads and checks the time for a point's samples alone, in nanoseconds.
    pub fn budget_of(settings: &Settings) -> Result<u64, PlanError> {
        duration(settings, "budget")
    }

    /// Reads and checks the thread counts alone; `max` is `cores`.
    pub fn threads_of(settings: &Settings, cores: u32) -> Result<Vec<u32>, PlanError> {
        threads(settings, cores)
    }
}

/// Refuses executors that TVM no longer has.
fn check_executor(settings: &Settings) -> Result<(), PlanError> {
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

/// Maximum number of threads a core. Each thread takes memory for its stack, and workers run out of memory with more.
const MOST_THREADS_PER_CORE: u32 = 32;

fn threads(settings: &Settings, cores: u32) -> Result<Vec<u32>, PlanError> {
    let lists = at_least_one(
        settings,
        "threads",
        |text| parse::thread_counts(text, cores.max(1)),
        "give numbers from 1 up, max for all cores, or a range, e.g. --threads 1,2,max or 1..max",
    )?;
    let most = cores.max(1).saturating_mul(MOST_THREADS_PER_CORE);
    let mut counts: Vec<u32> = Vec::new();
    for count in lists.into_iter().flatten() {
        if count > most {
            let value = settings.get("threads");
            return Err(bad(
                &value,
                &count.to_string(),
                &format!("more than {MOST_THREADS_PER_CORE} threads for each of the {cores} cores"),
                &format!("give {most} at most, or max for all cores"),
            ));
        }
        if !counts.contains(&count) {
            counts.push(count);
        }
    }
    Ok(counts)
}

/// The threads on another machine, whose cores are not known before it is asked.
fn threads_elsewhere(settings: &Settings) -> Result<Vec<u32>, PlanError> {
    let value = settings.get("threads");
    if !value.is_given() {
        return Ok(vec![1]);
    }
    if value.text().contains("max") {
        return Err(bad(
            &value,
            &value.text(),
            "the cores of another machine are not known when a run is planned",
            "give numbers; `opcollect list devices` shows the cores of servers that say them",
        ));
    }
    /// More cores than any server has.
    const MOST_CORES: u32 = 1024;
    threads(settings, MOST_CORES)
}

/// The threads of a device whose kernels do not run on this machine's threads: one, which starts them.
fn no_threads(settings: &Settings, device: DeviceRef) -> Result<Vec<u32>, PlanError> {
    let value = settings.get("threads");
    if value.is_given() && value.texts != ["1"] {
        let problem = format!(
            "kernels of {} run on none of this machine's threads",
            device.name()
        );
        let next = "leave it out; the threads of a block are a factor of the schedule";
        return Err(bad(&value, &value.text(), &problem, next));
    }
    Ok(vec![1])
}

fn whole_model(settings: &Settings, compile_only: bool) -> Result<WholeModel, PlanError> {
    let asked = required(
        settings,
        "whole-model",
        |text| match text {
            "measure" => Ok(WholeModel::Measure),
            "skip" => Ok(WholeModel::Skip),
            _ => Err("no such choice".to_owned()),
        },
        "give measure or skip",
    )?;
    if !compile_only {
        return Ok(asked);
    }
    let value = settings.get("whole-model");
    if asked == WholeModel::Measure && value.is_given() {
        let reason = "nothing is run with --compile-only";
        return Err(bad(&value, &value.text(), reason, "leave it out"));
    }
    Ok(WholeModel::Skip)
}

/// The source of counters that reads a kernel of this machine from files.
const READS_FILES: &str = "callgrind";

/// The folder for source and machine code of kernels. It is refused for a device that has no such files.
fn keep_kernels(
    settings: &Settings,
    device: DeviceRef,
    counters: &[String],
) -> Result<Option<PathBuf>, PlanError> {
    let reads = |counter: &String| counter.split(':').next() == Some(READS_FILES);
    let has_files = !device.has_host_threads() || counters.iter().any(reads);
    match single(settings, "keep-kernels")? {
        Some((value, text)) if !has_files => Err(bad(
            &value,
            &text,
            &format!(
                "kernels of {} are compiled in memory and leave no files",
                device.name()
            ),
            "leave it out, or add --counters callgrind, which reads them from files",
        )),
        found => Ok(found.map(|(_, text)| PathBuf::from(text))),
    }
}

fn cache_states(
    settings: &Settings,
    device: DeviceRef,
    is_remote: bool,
) -> Result<Vec<CacheState>, PlanError> {
    let states = match is_remote {
        true => device.remote_cache_states(),
        false => device.cache_states(),
    };
    let names: Vec<&str> = states.iter().map(|state| state.as_str()).collect();
    let next = match &names[..] {
        [first, .., last] => format!(
            "give {} or several of them, as in {first},{last}",
            names.join(", ")
        ),
        only => format!("give {}", only.concat()),
    };
    let value = settings.get("cache");
    if value.origin == Origin::Default && !names.contains(&value.text().as_str()) {
        return Ok(states[..1].to_vec());
    }
    at_least_one(
        settings,
        "cache",
        |text| {
            states
                .iter()
                .copied()
                .find(|state| state.as_str() == text)
                .ok_or_else(|| "no such cache state".to_owned())
        },
        &next,
    )
}

/// The values of the conditions that only this device has, each at its default if it is not given.
fn device_conditions(
    settings: &Settings,
    device: DeviceRef,
) -> Result<BTreeMap<String, Vec<String>>, PlanError> {
    let known = device.conditions();
    let list =
        |condition: &ConditionInfo| format!("{}={}", condition.name, condition.values.join("|"));
    let next = match known {
        [] => "leave it out".to_owned(),
        known => format!(
            "give {}",
            known.iter().map(list).collect::<Vec<_>>().join(", ")
        ),
    };
    let given = unique(
        settings,
        "condition",
        |text| {
            let (name, value) = text.split_once('=').ok_or("not NAME=VALUE")?;
            let condition = known.iter().find(|c| c.name == name);
            let condition =
                condition.ok_or_else(|| format!("{} has no condition `{name}`", device.name()))?;
            match condition.values.contains(&value) {
                true => Ok((name.to_owned(), value.to_owned())),
                false => Err(format!("{name} cannot be `{value}`")),
            }
        },
        &next,
    )?;
    let mut all: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (name, value) in given {
        all.entry(name).or_default().push(value);
    }
    for condition in known {
        let default = || vec![condition.values[0].to_owned()];
        all.entry(condition.name.to_owned()).or_insert_with(default);
    }
    Ok(all)
}

#[cfg(test)]
mod tests;
