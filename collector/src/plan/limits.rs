//! The limits of a plan: the timing of each point, and the limits of a worker.

use opengine::measure::TimingPolicy;
use opengine::runner::WorkerPolicy;
use opengine::stats::StopRule;

use super::reader::{bad, duration, number, required};
use super::{PlanError, parse};
use crate::config::Settings;

pub(super) fn timing(settings: &Settings) -> Result<TimingPolicy, PlanError> {
    let ci_value = settings.get("ci");
    let ci_target = required(
        settings,
        "ci",
        parse::share,
        "give a share such as 0.03 or 3%",
    )?;
    if ci_target <= 0.0 {
        return Err(bad(
            &ci_value,
            &ci_value.text(),
            "no number of samples makes an interval of no width",
            "give a share above 0, e.g. 3%",
        ));
    }
    let min_samples = number(settings, "min-samples", 1, 1_000_000)? as u32;
    let max_samples = number(settings, "max-samples", 1, 10_000_000)? as u32;
    if max_samples < min_samples {
        let value = settings.get("max-samples");
        return Err(bad(
            &value,
            &value.text(),
            &format!("less than --min-samples {min_samples}"),
            "raise it, or lower --min-samples",
        ));
    }
    Ok(TimingPolicy {
        warmup: number(settings, "warmup", 0, 1_000_000)? as u32,
        number: required(
            settings,
            "number",
            |text| match text {
                "auto" => Ok(None),
                number => parse::count(number, 1, 1_000_000).map(|n| Some(n as u32)),
            },
            "give a whole number, or auto",
        )?,
        stop: StopRule {
            ci_target,
            min_samples,
            max_samples,
            budget_ns: duration(settings, "budget")?,
        },
    })
}

pub(super) fn worker(settings: &Settings) -> Result<WorkerPolicy, PlanError> {
    let budget = settings.get("budget");
    let measure_timeout_ns = duration(settings, "timeout")?;
    if measure_timeout_ns <= duration(settings, "budget")? {
        let value = settings.get("timeout");
        return Err(bad(
            &value,
            &value.text(),
            &format!(
                "no longer than --budget {}, so every point would time out",
                budget.text()
            ),
            "raise it, or lower --budget",
        ));
    }
    Ok(WorkerPolicy {
        compile_timeout_ns: duration(settings, "compile-timeout")?,
        measure_timeout_ns,
        max_statements: number(settings, "max-statements", 1, u64::from(u32::MAX))?,
        memory_limit_mib: required(
            settings,
            "memory-limit",
            parse::size_mib,
            "give a size such as 4GiB",
        )?,
    })
}
