//! `opcollect compare --framework`: the table on standard output, a file beside it.

use anyhow::Context as _;
use opinstall::Home;
use opreport::{Exit, View};

use super::profile::check_files;
use super::{AppError, show, until_interrupted};
use crate::frameworks::{FrameworksError, FrameworksRequest, compare};
use crate::render::{frameworks_csv, frameworks_json, frameworks_text};

/// Runs a model by several frameworks.
pub(super) fn run(request: &FrameworksRequest, view: View) -> Result<Exit, AppError> {
    check_files(&[("--csv", request.csv.as_deref())])?;
    let home = Home::find()?;
    let compared = until_interrupted(view, |session| compare(request, &home, session));
    let (compared, _) = compared.map_err(|error| match error.source.is::<FrameworksError>() {
        true => AppError {
            exit: Exit::Usage,
            ..error
        },
        false => error,
    })?;
    if let Some(path) = &request.csv {
        let text = frameworks_csv(&compared);
        opdata::write_atomically(path, text.as_bytes()).context("--csv")?;
    }
    show(
        view,
        || frameworks_json(&compared),
        |style| frameworks_text(&compared, style),
    )
}
