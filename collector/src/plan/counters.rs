//! The setting `counters`: which counters, checked against this machine.

use opengine::measure::counters::Side;
use opengine::measure::counters::request::CounterRequest;

use super::PlanError;
use super::reader::bad;
use crate::config::{Origin, Settings};

/// The counters for calls on `side`, as `--counters` takes them. The default is none unless they run on threads of this
/// machine. There are none at all if the calls do not run.
pub(super) fn counters(
    settings: &Settings,
    side: Option<Side>,
    is_remote: bool,
) -> Result<Vec<String>, PlanError> {
    let value = settings.get("counters");
    let wrong = |problem: &str, next: &str| bad(&value, &value.text(), problem, next);
    let request = CounterRequest::parse(&value.texts)
        .map_err(|error| wrong(&format!("{}: {}", error.subject, error.reason), &error.next))?;
    if request.is_none() {
        return Ok(Vec::new());
    }
    if side != Some(Side::Host) && value.origin == Origin::Default {
        return Ok(Vec::new());
    }
    let Some(side) = side else {
        return Err(wrong(
            "nothing is run, and counters count what runs",
            "leave it out, or give none",
        ));
    };
    request
        .check_side(side)
        // The counters of another machine are known when a worker has connected.
        .and_then(|()| match is_remote {
            true => Ok(()),
            false => request.check(),
        })
        .map_err(|error| {
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
