//! `--dry-run`: the plan in words and as JSON, with how many points it comes to once the model is
//! known.

use serde_json::{Value, json};

use super::{Style, units};
use crate::plan::{Plan, WholeModel};

/// How large a plan is, known once the model is taken apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PlanSize {
    /// Distinct operators of the model.
    pub operators: u64,
}

impl PlanSize {
    /// Points: operators × thread counts × cache states.
    fn points(self, plan: &Plan) -> u64 {
        self.operators * (plan.threads.len() * plan.cache_states.len()) as u64
    }
}

/// The plan in words.
pub fn plan_text(plan: &Plan, size: Option<PlanSize>, style: Style) -> String {
    let timing = &plan.timing;
    let model = &plan.model;
    let mut shape = format!("{} ({})", model.model, model.source);
    if let Some(batch) = model.batch {
        shape.push_str(&format!(", batch {batch}"));
    }
    if let Some(seqlen) = model.seqlen {
        shape.push_str(&format!(", sequence {seqlen}"));
    }
    for input in &model.inputs {
        shape.push_str(&format!(", {input}"));
    }
    let target = match plan.target.mcpu {
        Some(_) => plan.target.to_string(),
        None => format!("{} ({})", plan.target, plan.target.kind.title()),
    };
    let list = |items: Vec<String>| items.join(", ");
    let mut lines = vec![
        ("model", shape),
        ("target", target),
        (
            "threads",
            list(plan.threads.iter().map(u32::to_string).collect()),
        ),
        (
            "cache",
            list(
                plan.cache_states
                    .iter()
                    .map(|c| c.as_str().to_owned())
                    .collect(),
            ),
        ),
        ("schedules", plan.schedule.name().to_owned()),
        (
            "whole model",
            match plan.whole_model {
                WholeModel::Measure => "measured too",
                WholeModel::Skip => "skipped",
            }
            .to_owned(),
        ),
        (
            "timing",
            format!(
                "until ±{} of the median or {} a point, {} to {} samples after {} warm-up calls",
                units::percent(timing.stop.ci_target),
                units::wall(timing.stop.budget_ns),
                timing.stop.min_samples,
                timing.stop.max_samples,
                timing.warmup
            ),
        ),
        (
            "worker",
            format!(
                "{} to compile, {} to check and measure a point, {} of memory",
                units::wall(plan.worker.compile_timeout_ns),
                units::wall(plan.worker.measure_timeout_ns),
                units::bytes(plan.worker.memory_limit_mib as f64 * 1024.0 * 1024.0)
            ),
        ),
        ("seed", plan.seed.to_string()),
        (
            "may fail",
            if plan.max_failed_share > 0.0 {
                format!("{} of the points", units::percent(plan.max_failed_share))
            } else {
                "no point".to_owned()
            },
        ),
        ("out", plan.out.display().to_string()),
    ];
    if let Some(size) = size {
        let points = size.points(plan);
        lines.push((
            "points",
            format!(
                "{points} ({}), at most about {} of sampling",
                units::plural(size.operators, "operator"),
                units::wall(points.saturating_mul(timing.stop.budget_ns))
            ),
        ));
    }
    lines
        .iter()
        .map(|(name, text)| {
            let pad = " ".repeat(12 - name.len());
            format!("{}{pad}{text}\n", style.bold(name))
        })
        .collect()
}

/// The plan as `{plan, operators, points}`; the last two are null as long as the model is unknown.
pub fn plan_json(plan: &Plan, size: Option<PlanSize>) -> Value {
    json!({
        "plan": plan,
        "operators": size.map(|size| size.operators),
        "points": size.map(|size| size.points(plan)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Layers;
    use crate::plan::HostFacts;
    use opdata::Timestamp;

    fn plan() -> Plan {
        let layers = Layers {
            command_line: [
                ("modelname", vec!["bert-tiny".to_owned()]),
                ("seqlen", vec!["64".to_owned()]),
                ("cache", vec!["hot,flushed".to_owned()]),
                ("out", vec!["runs/x".to_owned()]),
            ]
            .into(),
            ..Layers::default()
        };
        let host = HostFacts {
            cores: 2,
            now: Timestamp::from_unix_ms(0),
        };
        Plan::from_settings(&layers.merge().unwrap(), host)
            .unwrap()
            .plan
    }

    #[test]
    fn in_words() {
        let text = plan_text(&plan(), Some(PlanSize { operators: 9 }), Style::PLAIN);
        insta::assert_snapshot!(text, @r#"
        model       bert-tiny (local), sequence 64
        target      llvm (the CPU of this machine, through LLVM)
        threads     1, 2
        cache       hot, flushed
        schedules   default
        whole model measured too
        timing      until ±3.0 % of the median or 1.0 s a point, 10 to 1000 samples after 3 warm-up calls
        worker      2 min to compile, 60 s to check and measure a point, 8.00 GiB of memory
        seed        0
        may fail    no point
        out         runs/x
        points      36 (9 operators), at most about 36 s of sampling
        "#);
    }

    #[test]
    fn as_json() {
        let known = plan_json(&plan(), Some(PlanSize { operators: 9 }));
        assert_eq!(known["points"], 36);
        assert_eq!(known["plan"]["model"]["seqlen"], 64);
        assert!(plan_json(&plan(), None)["points"].is_null());
    }
}
