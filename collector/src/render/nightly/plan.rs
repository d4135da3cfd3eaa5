//! `nightly --dry-run`: the jobs with their shares of the time and their commands, and which partitions would be removed.

use opreport::{Style, units};

use crate::nightly::NightlyEstimate;

/// The estimate as text.
pub fn nightly_plan_text(estimate: &NightlyEstimate, style: Style) -> String {
    let plan = &estimate.plan;
    let mut out = format!(
        "{}: {} in {}, kept in {}\n\n",
        style.bold(&format!("night of {}", plan.date)),
        units::plural(plan.jobs.len() as u64, "job"),
        units::wall(plan.budget_ns),
        plan.night_folder().display()
    );
    for job in &estimate.jobs {
        let time = if job.finished {
            style.dim("done before")
        } else {
            units::wall(job.share_ns)
        };
        let arguments: Vec<String> = job.arguments.iter().map(|a| quoted(a)).collect();
        out.push_str(&format!(
            "{}  {time}\n    opcollect {}\n",
            style.bold(&job.label),
            arguments.join(" ")
        ));
    }
    if plan.repeat_disturbed {
        out.push_str(
            "\nthen again, in the time that is left, the jobs with a disturbed point or whole model\n",
        );
    }
    out.push_str(&format!(
        "\na regression is surely slower by more than {}; {} may fail; {} kept\n",
        units::percent(plan.threshold),
        units::percent(plan.max_failed_share),
        units::plural(plan.keep, "night")
    ));
    for folder in &estimate.retention.removed {
        out.push_str(&style.yellow(&format!("would be removed: {}\n", folder.display())));
    }
    for night in &estimate.retention.spared {
        out.push_str(&format!(
            "stays as the only baseline of {}: {}\n",
            units::plural(night.baseline_of.len() as u64, "job"),
            night.date
        ));
    }
    out
}

/// An argument as a shell takes it.
fn quoted(argument: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_=.,:/+%".contains(c);
    if !argument.is_empty() && argument.chars().all(plain) {
        argument.to_owned()
    } else {
        format!("'{}'", argument.replace('\'', r"'\''"))
    }
}
