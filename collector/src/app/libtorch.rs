//! `opcollect profile --framework torch`: the table on standard output, files beside it.

use anyhow::Context as _;
use opinstall::Home;
use opreport::{Exit, View};
use optorch::lines::summary;

use super::profile::check_folders;
use super::{AppError, show, until_interrupted};
use crate::profile::file_of_cycle;
use crate::profile::libtorch::{TorchProfile, TorchRequest, profile};
use crate::render::{torch_csv, torch_json, torch_text};

/// Profiles a model in libtorch.
pub(super) fn run(request: &TorchRequest, view: View) -> Result<Exit, AppError> {
    check_folders(request.csv.as_deref(), request.trace.as_deref())?;
    let home = Home::find()?;
    let (profiled, _) = until_interrupted(view, |session| profile(request, &home, session))?;
    write_csv(&profiled, request)?;
    show(
        view,
        |style| torch_text(&profiled, &request.show, style),
        || torch_json(&profiled, &request.show),
    )
}

/// A table for each cycle, if that was asked for.
fn write_csv(profiled: &TorchProfile, request: &TorchRequest) -> anyhow::Result<()> {
    let Some(path) = &request.csv else {
        return Ok(());
    };
    let cycles = &profiled.cycles;
    for (place, cycle) in cycles.iter().enumerate() {
        let table = summary(cycle, request.show.group_by, request.show.sort_by);
        let path = file_of_cycle(path, place, cycles.len())?;
        opdata::write_atomically(&path, torch_csv(&table, &request.show).as_bytes())
            .context("--csv")?;
    }
    Ok(())
}
