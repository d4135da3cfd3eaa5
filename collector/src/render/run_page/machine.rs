//! The machine in a run's report: its noise, and its description.

use std::collections::BTreeSet;

use opreport::page::Section;
use opreport::units;

use super::SHOWN;
use crate::run_report::{Noise, RunOverview};

/// Interference with the times, and physically impossible rows.
pub(super) fn noise(run: &RunOverview) -> Section {
    let Noise {
        half_width,
        drift,
        others,
    } = run.noise;
    let line = |name: &str, pair: Option<(f64, f64)>| {
        let (median, high) = pair?;
        Some(vec![
            name.to_owned(),
            units::percent(median),
            units::percent(high),
        ])
    };
    let rows = [
        line("half the 95 % interval over the median", half_width),
        line(
            "reference kernel slower than its best",
            drift.map(|(a, b)| (a - 1.0, b - 1.0)),
        ),
        line("CPU time that others took", others),
    ];
    let grades = run.grades.iter().map(|(grade, n)| format!("{n} {grade}"));
    let grades: Vec<String> = grades.collect();
    let mut section = Section::new("Noise")
        .says(format!("Grades: {}.", grades.join(", ")))
        .table(
            "|#median|#95 % quantile",
            rows.into_iter().flatten().collect(),
        );
    section = match run.findings.len() {
        0 => section.says("No row is impossible by physics."),
        n => section.says(format!(
            "{} impossible by physics: {}.",
            units::plural(n as u64, "row"),
            run.findings
                .iter()
                .take(SHOWN)
                .map(|(row, finding)| format!("{row}: {finding}"))
                .collect::<Vec<_>>()
                .join("; ")
        )),
    };
    section
}

/// The machine and the programs.
pub(super) fn environment(run: &RunOverview) -> Section {
    let environment = &run.environment;
    let (machine, state) = (&environment.machine, &environment.state);
    let unknown = || "unknown".to_owned();
    let caches: Vec<String> = machine
        .caches
        .iter()
        .map(|cache| format!("L{} {}", cache.level, units::bytes(cache.size_bytes as f64)))
        .collect();
    let versions: Vec<String> = run
        .manifest
        .versions
        .iter()
        .chain(&environment.software.versions)
        .map(|(name, version)| format!("{name} {version}"))
        .collect::<BTreeSet<_>>()
        .into_iter()
        .collect();
    let rows = [
        (
            "processor",
            machine.cpu.name.clone().unwrap_or_else(unknown),
        ),
        (
            "cores",
            format!(
                "{} online, {} usable",
                machine.cores_online, state.cores_usable
            ),
        ),
        ("caches", caches.join(", ")),
        (
            "load before",
            state.load_1min.map_or_else(unknown, |l| format!("{l:.2}")),
        ),
        ("governors", state.governors.join(", ")),
        ("kernel", state.kernel.clone().unwrap_or_else(unknown)),
        ("versions", versions.join(", ")),
        ("fingerprint", environment.env_hash.clone()),
    ];
    let rows = rows.into_iter().filter(|(_, value)| !value.is_empty());
    let rows = rows.map(|(name, value)| vec![name.to_owned(), value]);
    Section::new("Environment").table("|what", rows.collect())
}
