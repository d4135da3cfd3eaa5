//! The rows of a group: described before it is measured, with times afterwards.

use opdata::contract::pairs::{PAIRS_VERSION, PairRow};
use opdata::contract::{Calibration, Level};
use opdata::{Status, Timestamp, stable_hash};
use opengine::env::shared_cache;
use opengine::protocol::GroupTimes;
use opengine::stats::{Nanos, Samples};

use super::groups::{Group, Unit, words};
use crate::report::Ratio;
use crate::run::quality;

/// Facts that all rows of a run share.
pub(super) struct Facts<'a> {
    pub run_id: &'a str,
    pub splits: &'a [Vec<u32>],
    pub target: String,
    pub env_hash: String,
    pub calibration: Option<Calibration>,
    pub root: opengine::env::Root,
}

impl Facts<'_> {
    /// The rows of a group without times.
    pub fn describe(
        &self,
        group: &Group,
        units: &[Unit<'_>],
        models: &[opmodels::Imported],
    ) -> Vec<PairRow> {
        let mut used: Vec<usize> = group.processors.concat();
        used.sort_unstable();
        used.dedup();
        let shared = shared_cache(&self.root, &used);
        let memory = self.memory_gbytes_per_s(used.len() as u32);
        let split = words(&self.splits[group.split]);
        let workloads: Vec<String> = group
            .units
            .iter()
            .map(|&unit| units[unit].operator.workload_hash())
            .collect();
        let key = serde_json::json!([
            workloads,
            group.processors,
            group.mode.name(),
            self.target,
            self.env_hash
        ]);
        let group_id = stable_hash(&[("group", &key.to_string())]);
        let members = group.units.iter().zip(&group.processors).enumerate();
        let row = |(member, (&unit, processors)): (usize, (&usize, &Vec<usize>))| {
            let Unit {
                model,
                call,
                operator,
            } = units[unit];
            let names: Vec<String> = processors.iter().map(ToString::to_string).collect();
            PairRow {
                pairs_version: PAIRS_VERSION,
                run_id: self.run_id.to_owned(),
                group_id: group_id.clone(),
                member: member as u64,
                members: group.units.len() as u64,
                mode: group.mode.name().to_owned(),
                split: split.clone(),
                threads: processors.len() as u64,
                processors: names.join(","),
                shared_cache: shared.clone(),
                model: models[model].graph.model.clone(),
                call: call as u64,
                symbol: operator.symbol.clone(),
                op_name: operator.name.clone(),
                op_kind: operator.kind.name().to_owned(),
                workload_hash: workloads[member].clone(),
                target: self.target.clone(),
                env_hash: self.env_hash.clone(),
                flops: operator.flops + operator.flops_epilogue,
                bytes_read: operator.bytes_read,
                bytes_written: operator.bytes_written,
                memory_gbytes_per_s: memory,
                measured_at: Timestamp::now().to_string(),
                ..PairRow::default()
            }
        };
        members.map(row).collect()
    }

    /// The calibrated rate of reading from memory by some threads, or by the most that were calibrated below.
    fn memory_gbytes_per_s(&self, threads: u32) -> Option<f64> {
        let mut rates = self.calibration.as_ref()?.rates.iter();
        let own = rates.rfind(|own| own.threads <= threads)?;
        let read = own.read_gbytes_per_s.get(&Level::Memory)?;
        Some(read.rate.best)
    }

    /// Rows with the times of their group.
    pub fn with_times(&self, rows: Vec<PairRow>, times: &GroupTimes) -> Vec<PairRow> {
        let median = |ns: &[f64]| opdata::stats::median(ns.iter().copied());
        let gain: Option<f64> = times
            .members
            .iter()
            .map(|own| Some(median(&own.all_threads_ns)? / median(&own.together_ns)?))
            .sum();
        let with = |(row, own): (PairRow, &opengine::protocol::MemberTimes)| {
            let rounds = own.together_ns.iter().zip(&own.alone_ns);
            let ratios: Vec<f64> = rounds.map(|(together, alone)| together / alone).collect();
            let slowdown = Ratio::of(&ratios);
            let mut samples = Samples::new();
            ratios
                .iter()
                .filter_map(|ratio| Nanos::new(*ratio).ok())
                .for_each(|ratio| samples.push(ratio));
            let grade = samples.summary().ok().map(|s| quality(&s, times.slowdown));
            PairRow {
                status: Status::Measured.to_string(),
                alone_ns: median(&own.alone_ns),
                together_ns: median(&own.together_ns),
                all_threads_ns: median(&own.all_threads_ns),
                sensitivity: median(&own.beside_stream),
                pressure: median(&own.of_stream),
                slowdown: slowdown.map(|ratio| ratio.median),
                slowdown_low: slowdown.map(|ratio| ratio.low),
                slowdown_high: slowdown.map(|ratio| ratio.high),
                throughput_gain: gain,
                rounds: ratios.len() as u64,
                reference_slowdown: Some(times.slowdown),
                grade: grade.map(|grade| grade.as_str().to_owned()),
                ..row
            }
        };
        rows.into_iter().zip(&times.members).map(with).collect()
    }
}

/// The rows of a group that was not measured.
pub(super) fn failed(rows: Vec<PairRow>, reason: &str) -> Vec<PairRow> {
    let with = |row| PairRow {
        status: Status::Crashed.to_string(),
        reason: Some(reason.lines().next().unwrap_or_default().to_owned()),
        ..row
    };
    rows.into_iter().map(with).collect()
}

/// The group in progress messages.
pub(super) fn label(rows: &[PairRow]) -> String {
    let names: Vec<&str> = rows.iter().map(|row| row.op_name.as_str()).collect();
    let (split, mode) = (&rows[0].split, &rows[0].mode);
    format!("{} ({split}, {mode})", names.join(" | "))
}

/// The group's result in progress messages.
pub(super) fn outcome(rows: &[PairRow]) -> String {
    match rows[0].throughput_gain {
        Some(gain) => {
            let slowdowns: Vec<String> = rows
                .iter()
                .filter_map(|row| Some(format!("×{:.3}", row.slowdown?)))
                .collect();
            format!(
                "slowdown {}, throughput ×{gain:.3}",
                slowdowns.join(" and ")
            )
        }
        None => format!(
            "{}: {}",
            rows[0].status,
            rows[0].reason.as_deref().unwrap_or_default()
        ),
    }
}
