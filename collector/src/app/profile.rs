//! `opcollect profile`: the table on standard output, files beside it.

use std::path::Path;

use anyhow::{Context as _, bail};
use opreport::flame::{self, Stack};
use opreport::{Exit, View, units};

use super::{AppError, show, until_interrupted};
use crate::profile::summary::summary;
use crate::profile::{ProfileRequest, ProfiledModel, Shown, file_of_cycle, profile, stacks, trace};
use crate::render::{profile_csv, profile_json, profile_text};

/// Profiles a model.
pub(super) fn run(request: &ProfileRequest, view: View) -> Result<Exit, AppError> {
    check_files(&request.shown.files())?;
    let (model, _) = until_interrupted(view, |session| profile(request, session))?;
    write_files(&model, &request.shown)?;
    show(
        view,
        || profile_json(&model, &request.shown),
        |style| profile_text(&model, &request.shown, style),
    )
}

/// Reports a file that cannot be written before the model is built.
pub(super) fn check_files(files: &[(&str, Option<&Path>)]) -> anyhow::Result<()> {
    for (flag, path) in files {
        let folder = path.and_then(Path::parent);
        let folder = folder.filter(|folder| !folder.as_os_str().is_empty());
        if let Some(missing) = folder.filter(|folder| !folder.is_dir()) {
            bail!(
                "{flag}: there is no folder {}; make it, or name another file",
                missing.display()
            );
        }
    }
    Ok(())
}

/// Writes a flame graph of stacks in the form that its name says.
pub(super) fn write_flamegraph(path: &Path, title: &str, stacks: &[Stack]) -> anyhow::Result<()> {
    let is_picture = path
        .extension()
        .is_some_and(|ending| ending.eq_ignore_ascii_case("svg"));
    let bytes = match is_picture {
        true => flame::svg(title, stacks).context("--flamegraph")?,
        false => flame::folded(stacks).into_bytes(),
    };
    opdata::write_atomically(path, &bytes).context("--flamegraph")
}

/// Writes a table, a flame graph and a trace for each cycle, as requested.
fn write_files(model: &ProfiledModel, shown: &Shown) -> anyhow::Result<()> {
    let cycles = &model.profiled.cycles;
    for (place, cycle) in cycles.iter().enumerate() {
        if let Some(path) = &shown.csv {
            let table = summary(model, cycle, shown.group_by, shown.sort_by);
            let path = file_of_cycle(path, place, cycles.len())?;
            opdata::write_atomically(&path, profile_csv(&table, model).as_bytes())
                .context("--csv")?;
        }
        if let Some(path) = &shown.flamegraph {
            let path = file_of_cycle(path, place, cycles.len())?;
            let threads = units::plural(u64::from(model.threads), "thread");
            let title = match &model.simulation {
                None => format!("{}, {threads}", model.graph.model),
                Some(_) => format!("{}, simulated", model.graph.model),
            };
            write_flamegraph(&path, &title, &stacks::stacks(model, cycle))?;
        }
        if let Some(path) = &shown.trace {
            let is_json = path
                .extension()
                .is_some_and(|e| e.eq_ignore_ascii_case("json"));
            let bytes = match is_json {
                true => trace::chrome(model, cycle).to_string().into_bytes(),
                false => trace::perfetto(model, cycle),
            };
            let path = file_of_cycle(path, place, cycles.len())?;
            opdata::write_atomically(&path, &bytes).context("--trace")?;
        }
    }
    Ok(())
}
