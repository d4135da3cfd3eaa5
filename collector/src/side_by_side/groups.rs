//! The groups of operators that can run at the same time: which operators, on which processors.

use std::collections::BTreeSet;

use anyhow::Context as _;
use clap::ValueEnum;
use opmodels::graph::Operator;
use opreport::Misuse;
use serde::{Deserialize, Serialize};

use super::Loaded;

/// How the operators of a group share processors.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// Each operator on processors of its own.
    Partitioned,
    /// All on the same processors.
    // The system divides their time.
    TimeSliced,
}

impl Mode {
    /// Its name in rows.
    pub fn name(self) -> &'static str {
        match self {
            Mode::Partitioned => "partitioned",
            Mode::TimeSliced => "time_sliced",
        }
    }
}

/// An operator that represents its calls.
pub(super) struct Unit<'a> {
    pub model: usize,
    pub call: usize,
    pub operator: &'a Operator,
}

/// Some operators on some processors.
#[derive(Clone)]
pub(super) struct Group {
    /// Indices of its operators among the units.
    pub units: Vec<usize>,
    /// Index of its split.
    pub split: usize,
    pub mode: Mode,
    /// The processors of each operator.
    pub processors: Vec<Vec<usize>>,
}

/// Reads a split: the threads of each operator of a group, as in `1+1`.
pub fn split(text: &str) -> Result<Vec<u32>, String> {
    let parts: Result<Vec<u32>, _> = text.split('+').map(|part| part.trim().parse()).collect();
    match parts {
        Ok(parts) if (2..=8).contains(&parts.len()) && !parts.contains(&0) => Ok(parts),
        _ => Err("give the threads of 2 to 8 operators, as in 1+1".to_owned()),
    }
}

/// Refuses splits that need more processors than there are.
pub(super) fn check_splits(splits: &[Vec<u32>], modes: &[Mode], cores: u32) -> anyhow::Result<()> {
    for split in splits {
        let needed = |mode: &Mode| match mode {
            Mode::Partitioned => split.iter().sum(),
            Mode::TimeSliced => split.iter().copied().max().unwrap_or(0),
        };
        if let Some(mode) = modes.iter().find(|mode| needed(mode) > cores) {
            let next = match mode {
                Mode::Partitioned => "give a smaller split, or --mode time-sliced",
                Mode::TimeSliced => "give a smaller split",
            };
            return Err(Misuse(format!(
                "--split {}: {} needs {} processors, and this process may use {cores}; {next}",
                words(split),
                mode.name(),
                needed(mode),
            ))
            .into());
        }
    }
    Ok(())
}

/// The distinct operators of the requested models.
pub(super) fn units<'a>(
    models: &'a [opmodels::Imported],
    loaded: &Loaded,
    wanted: &[String],
) -> anyhow::Result<Vec<Unit<'a>>> {
    let mut seen = BTreeSet::new();
    let mut units = Vec::new();
    for (model, (imported, calls)) in models.iter().zip(&loaded.calls).enumerate() {
        for (call, made) in calls.iter().enumerate() {
            let operator = imported.graph.operator(&made.symbol);
            let operator = operator.context("a call of an unknown operator")?;
            if made.has_kernel && seen.insert(operator.workload_hash()) {
                units.push(Unit {
                    model,
                    call,
                    operator,
                });
            }
        }
    }
    let is = |unit: &Unit<'_>, name: &String| {
        let operator = unit.operator;
        [&operator.name, &operator.symbol].contains(&name) || operator.workload_hash() == *name
    };
    if let Some(unknown) = wanted
        .iter()
        .find(|name| !units.iter().any(|unit| is(unit, name)))
    {
        let mut names: Vec<&str> = units.iter().map(|u| u.operator.name.as_str()).collect();
        names.dedup();
        return Err(Misuse(format!(
            "--ops {unknown}: the models have no such operator; they have {}",
            names.join(", ")
        ))
        .into());
    }
    if !wanted.is_empty() {
        units.retain(|unit| wanted.iter().any(|name| is(unit, name)));
    }
    Ok(units)
}

/// All groups. The order of the operators counts only if their numbers of threads differ.
pub(super) fn groups(
    splits: &[Vec<u32>],
    modes: &[Mode],
    units: &[Unit<'_>],
    processors: &[usize],
) -> Vec<Group> {
    let mut all = Vec::new();
    for (split, threads) in splits.iter().enumerate() {
        let is_even = threads.iter().all(|own| *own == threads[0]);
        let mut tuples: Vec<Vec<usize>> = vec![Vec::new()];
        for _ in threads {
            let longer = tuples.iter().flat_map(|tuple| {
                let from = if is_even {
                    tuple.last().copied().unwrap_or(0)
                } else {
                    0
                };
                (from..units.len()).map(move |next| [&tuple[..], &[next]].concat())
            });
            tuples = longer.collect();
        }
        for &mode in modes {
            let places = places(threads, mode, processors);
            all.extend(tuples.iter().map(|tuple| Group {
                units: tuple.clone(),
                split,
                mode,
                processors: places.clone(),
            }));
        }
    }
    all
}

/// The processors of each part of a split.
pub(super) fn places(threads: &[u32], mode: Mode, processors: &[usize]) -> Vec<Vec<usize>> {
    let mut next = 0;
    let of = |&threads: &u32| {
        let first = match mode {
            Mode::Partitioned => next,
            Mode::TimeSliced => 0,
        };
        next += threads as usize;
        processors[first..first + threads as usize].to_vec()
    };
    threads.iter().map(of).collect()
}

/// Known properties that decide how the operators of a group disturb each other: bytes and arithmetic per byte of each.
pub(super) fn features(group: &Group, units: &[Unit<'_>]) -> Vec<f64> {
    let mut all = vec![group.split as f64, group.mode as u8 as f64];
    for &unit in &group.units {
        let operator = units[unit].operator;
        let bytes = (operator.bytes_read + operator.bytes_written).max(1) as f64;
        let flops = (operator.flops + operator.flops_epilogue).max(1) as f64;
        all.extend([bytes.ln(), (flops / bytes).ln()]);
    }
    all
}

/// A split as it is written: `1+1`.
pub(super) fn words(split: &[u32]) -> String {
    let parts: Vec<String> = split.iter().map(ToString::to_string).collect();
    parts.join("+")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_a_split_have_processors_of_their_own_or_the_same() {
        let processors = [2, 3, 6, 7];
        let of = |mode| places(&[1, 3], mode, &processors);
        assert_eq!(of(Mode::Partitioned), [vec![2], vec![3, 6, 7]]);
        assert_eq!(of(Mode::TimeSliced), [vec![2], vec![2, 3, 6]]);
    }
}
