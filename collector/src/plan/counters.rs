//! The setting `counters`: which counters, checked against this machine.

use opengine::measure::counters::request::CounterRequest;

use super::PlanError;
use super::reader::bad;
use crate::config::{Origin, Settings};

/// What to count, as `--counters` takes it; nothing where kernels do not run on threads of this machine (`runs_here`).
pub(super) fn counters(settings: &Settings, runs_here: bool) -> Result<Vec<String>, PlanError> {
    let value = settings.get("counters");
    let wrong = |problem: &str, next: &str| bad(&value, &value.text(), problem, next);
    let request = CounterRequest::parse(&value.texts)
        .map_err(|error| wrong(&format!("{}: {}", error.subject, error.reason), &error.next))?;
    if request.is_none() {
        return Ok(Vec::new());
    }
    if !runs_here {
        return match value.origin {
            Origin::Default => Ok(Vec::new()),
            _ => Err(wrong(
                "nothing runs on threads of this machine, which counters count",
                "leave it out, or give none",
            )),
        };
    }
    request.check().map_err(|error| {
        wrong(
            &format!("{} cannot be counted: {}", error.subject, error.reason),
            &error.next,
        )
    })?;
    Ok(value
        .texts
        .iter()
        .map(|text| text.trim().to_owned())
        .collect())
}
