//! `opcollect profile --framework torch`: the table on standard output, files beside it.

use anyhow::Context as _;
use opinstall::Home;
use opreport::{Exit, View, units};
use optorch::lines::summary;
use optorch::stacks::stacks;

use super::profile::{check_files, write_flamegraph};
use super::{AppError, show, until_interrupted};
use crate::profile::file_of_cycle;
use crate::profile::libtorch::{TorchProfile, TorchRequest, TorchShown, profile};
use crate::render::{torch_csv, torch_json, torch_text};

/// Profiles a model in libtorch.
pub(super) fn run(request: &TorchRequest, view: View) -> Result<Exit, AppError> {
    check_files(&request.shown.flags.files())?;
    let home = Home::find()?;
    let (profiled, _) = until_interrupted(view, |session| profile(request, &home, session))?;
    write_files(&profiled, &request.shown)?;
    show(
        view,
        || torch_json(&profiled, &request.shown),
        |style| torch_text(&profiled, &request.shown, style),
    )
}

/// Writes the requested tables and flame graphs, one of each per cycle.
fn write_files(profiled: &TorchProfile, shown: &TorchShown) -> anyhow::Result<()> {
    let cycles = &profiled.cycles;
    for (place, cycle) in cycles.iter().enumerate() {
        if let Some(path) = &shown.flags.csv {
            let table = summary(cycle, shown.group_by, shown.sort_by);
            let path = file_of_cycle(path, place, cycles.len())?;
            opdata::write_atomically(&path, torch_csv(&table, shown).as_bytes())
                .context("--csv")?;
        }
        if let Some(path) = &shown.flags.flamegraph {
            let path = file_of_cycle(path, place, cycles.len())?;
            let threads = units::plural(u64::from(profiled.threads), "thread");
            let title = format!("{} in libtorch, {threads}", profiled.model);
            write_flamegraph(&path, &title, &stacks(cycle))?;
        }
    }
    Ok(())
}
