//! The commands that work on finished runs: `compare`, `merge`.

use super::{AppError, show};
use crate::cli::runs::CompareRequest;
use crate::cli::{Exit, View};
use crate::compare::{Verdict, compare};
use crate::merge::{MergeRequest, merge};
use crate::render::{compare_json, compare_text, merge_json, merge_text};

/// Compares two sets of rows; a regression has an exit code of its own.
pub(super) fn compare_runs(request: &CompareRequest, view: View) -> Result<Exit, AppError> {
    let (a, b) = (request.a.clone(), request.b.clone());
    let comparison = compare(&[a], &[b], request.options)?;
    show(
        view,
        |style| compare_text(&comparison, style),
        || compare_json(&comparison),
    )?;
    Ok(if comparison.count(Verdict::Regression) > 0 {
        Exit::Regression
    } else {
        Exit::Done
    })
}

/// Joins shards into one run.
pub(super) fn merge_shards(request: &MergeRequest, view: View) -> Result<Exit, AppError> {
    let merged = merge(request, std::env::args().collect())?;
    show(
        view,
        |style| merge_text(&merged, style),
        || merge_json(&merged),
    )
}
