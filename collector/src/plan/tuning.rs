//! Tuning: `--iftune`, and the settings that go with it.

use std::path::PathBuf;

use opdata::contract::plan::TuningPolicy;

use super::PlanError;
use super::reader::{at_least_one, bad, hint, number, single, switch, unique};
use crate::config::Settings;
use crate::tuners;

/// Fewest and most schedules of an operator.
const TRIALS: (u64, u64) = (10, 3000);

/// How schedules are tuned, if they are.
pub(super) fn tuning(
    settings: &Settings,
    compile_only: bool,
) -> Result<Option<TuningPolicy>, PlanError> {
    if !switch(settings, "iftune")? {
        for key in ["ifcompare", "ifpartial"] {
            if switch(settings, key)? {
                let value = settings.get(key);
                return Err(bad(&value, "true", "nothing is tuned", "add --iftune=true"));
            }
        }
        let alone = ["tuner", "trials", "history"].into_iter();
        let given = alone
            .map(|key| settings.get(key))
            .find(|value| value.is_given());
        return match given {
            Some(value) => Err(bad(
                &value,
                &value.text(),
                "nothing is tuned",
                "add --iftune=true",
            )),
            None => Ok(None),
        };
    }
    let refuse = |key: &'static str, problem: &str, next: &str| {
        let value = settings.get(key);
        bad(&value, &value.text(), problem, next)
    };
    if compile_only {
        return Err(refuse(
            "iftune",
            "nothing is run with --compile-only",
            "leave one of them out",
        ));
    }
    for key in ["sweep", "shard"] {
        if single(settings, key)?.is_some() {
            let problem = "a tuner decides by outcomes which schedules are measured";
            return Err(refuse(key, problem, "leave it out, or tune without it"));
        }
    }
    let tuners = at_least_one(
        settings,
        "tuner",
        |text| match tuners::named(text.trim()) {
            Some(kind) => Ok(kind.name.to_owned()),
            None => Err(format!(
                "no such tuner{}",
                hint(text, tuners::names().iter().copied())
            )),
        },
        &format!("give {}", tuners::names().join(", ")),
    )?;
    let partial = switch(settings, "ifpartial")?;
    if tuners.len() > 1 && !partial {
        let next = "give one, or add --ifpartial=true";
        return Err(refuse(
            "tuner",
            "several tuners are for comparing them",
            next,
        ));
    }
    Ok(Some(TuningPolicy {
        tuners,
        trials: trials(settings)?,
        compare: switch(settings, "ifcompare")?,
        partial,
        history: unique(settings, "history", |text| Ok(text.to_owned()), "")?
            .into_iter()
            .map(PathBuf::from)
            .collect(),
    }))
}

/// Maximum number of schedules of an operator. If there is a time budget and no number, the budget decides. With the
/// default number, the tuning of squeezenet ended after about two of six minutes (two processors, 2026-11-26).
fn trials(settings: &Settings) -> Result<u64, PlanError> {
    let budget_decides =
        !settings.get("trials").is_given() && settings.get("time-budget").is_given();
    match budget_decides {
        true => Ok(TRIALS.1),
        false => number(settings, "trials", TRIALS.0, TRIALS.1),
    }
}

/// The file of the store. `None` if the run has none.
pub(super) fn store(settings: &Settings) -> Result<Option<PathBuf>, PlanError> {
    Ok(match single(settings, "store")? {
        Some((_, text)) if text == "none" => None,
        Some((_, text)) if text != "auto" => Some(PathBuf::from(text)),
        _ => opinstall::Home::find().ok().map(|home| home.store()),
    })
}
