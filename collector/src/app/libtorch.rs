//! `opcollect profile --framework torch`: the table on standard output, files beside it.

use anyhow::Context as _;
use opinstall::Home;
use opreport::{Exit, View, units};
use optorch::lines::summary;
use optorch::stacks::stacks;

use super::profile::{check_files, write_flamegraph};
use super::{AppError, show, until_interrupted};
use crate::profile::file_of_cycle;
use crate::profile::libtorch::{TorchProfile, TorchRequest, profile};
use crate::render::{torch_csv, torch_json, torch_text};

/// Profiles a model in libtorch.
pub(super) fn run(request: &TorchRequest, view: View) -> Result<Exit, AppError> {
    check_files(&[
        ("--csv", request.csv.as_deref()),
        ("--trace", request.trace.as_deref()),
        ("--flamegraph", request.flamegraph.as_deref()),
    ])?;
    let home = Home::find()?;
    let (profiled, _) = until_interrupted(view, |session| profile(request, &home, session))?;
    write_files(&profiled, request)?;
    show(
        view,
        |style| torch_text(&profiled, &request.show, style),
        || torch_json(&profiled, &request.show),
    )
}

/// Writes the requested tables and flame graphs, one of each per cycle.
fn write_files(profiled: &TorchProfile, request: &TorchRequest) -> anyhow::Result<()> {
    let cycles = &profiled.cycles;
    for (place, cycle) in cycles.iter().enumerate() {
        if let Some(path) = &request.csv {
            let table = summary(cycle, request.show.group_by, request.show.sort_by);
            let path = file_of_cycle(path, place, cycles.len())?;
            opdata::write_atomically(&path, torch_csv(&table, &request.show).as_bytes())
                .context("--csv")?;
        }
        if let Some(path) = &request.flamegraph {
            let path = file_of_cycle(path, place, cycles.len())?;
            let threads = units::plural(u64::from(profiled.threads), "thread");
            let title = format!("{} in libtorch, {threads}", profiled.model);
            write_flamegraph(&path, &title, &stacks(cycle))?;
        }
    }
    Ok(())
}
