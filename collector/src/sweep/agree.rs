//! Checks the parts of a sweep against each other: what a space requires, and what it excludes.

use super::error::{SweepError, SweepText};
use super::{SpaceKind, Sweep, points};

/// Refuses a sweep whose other parts do not fit its space.
pub(super) fn agree(sweep: &Sweep, toml_text: &SweepText<'_>) -> Result<(), SweepError> {
    let wrong = |problem: &str, next: &str| Err(toml_text.wrong(0, problem.to_owned(), next));
    let has_factors = !sweep.vary.is_empty() || !sweep.fix.is_empty();
    points::agree(sweep, toml_text)?;
    match sweep.space {
        SpaceKind::Template if sweep.vary.is_empty() && sweep.schedules > 1 => wrong(
            "no factor of the schedule varies, but several schedules are wanted",
            "name factors in [vary], or set schedules to 1 (or 0 for the default schedule alone)",
        ),
        SpaceKind::Template if has_factors && sweep.schedules == 0 => wrong(
            "factors are named, but schedules = 0 leaves none to draw",
            "set schedules to how many each operator shall get",
        ),
        SpaceKind::Traces
            if sweep.operators.len() != 1 || sweep.traces.is_empty() || has_factors =>
        {
            wrong(
                "the space traces takes recorded traces of one operator, and nothing varies",
                "name the operator's function in `operators` and the file in `traces`, and leave out factors of the schedule",
            )
        }
        SpaceKind::Template
        | SpaceKind::Metaschedule
        | SpaceKind::Default
        | SpaceKind::AsIs
        | SpaceKind::Points
            if !sweep.traces.is_empty() =>
        {
            wrong(
                "traces are given, but the space is another",
                "use space = \"traces\", or leave `traces` out",
            )
        }
        SpaceKind::Metaschedule if has_factors => wrong(
            "the space metaschedule draws all factors of a schedule by TVM's rules",
            "use space = \"template\" to vary or fix factors, or leave [vary] to threads, cache, batch and input-size",
        ),
        SpaceKind::Metaschedule if sweep.schedules == 0 => wrong(
            "schedules = 0 leaves none to draw",
            "set schedules to how many each operator shall get",
        ),
        SpaceKind::Default if has_factors || sweep.schedules > 0 => wrong(
            "the space default has one schedule, without factors",
            "use space = \"template\", or remove `schedules` and the factors of the schedule",
        ),
        SpaceKind::AsIs if has_factors || sweep.schedules > 0 => wrong(
            "the space as-is has each operator's own loops, without factors",
            "remove `schedules` and the factors of the schedule",
        ),
        _ => Ok(()),
    }
}
