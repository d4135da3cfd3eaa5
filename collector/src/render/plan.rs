//! `--dry-run`: the plan in words and as JSON, with how many points it comes to once the model is
//! known.

use opmodels::ImportRequest;
use opreport::table::{Column, Table};
use opreport::{Style, units};
use serde_json::{Value, json};

use crate::plan::{Plan, WholeModel};
use crate::preview::PlanEstimate;
use crate::sweep::{SpaceKind, Sweep};

/// The plan in words.
pub fn plan_text(plan: &Plan, estimate: Option<&PlanEstimate>, style: Style) -> String {
    let mut lines = settings(plan);
    if let Some(estimate) = estimate {
        lines.push(("points", points(estimate)));
        let takes = format!(
            "about {} (to a factor of two) and {} of disk",
            units::wall(estimate.time_ns as u64),
            units::bytes(estimate.disk_bytes)
        );
        lines.push(("takes", takes));
    }
    let mut text: String = lines
        .iter()
        .map(|(name, text)| {
            let pad = " ".repeat(12 - name.len());
            format!("{}{pad}{text}\n", style.bold(name))
        })
        .collect();
    if let (Some(estimate), Some(_)) = (estimate, &plan.sweep) {
        text.push('\n');
        text.push_str(&operators(estimate, style));
    }
    text
}

/// The plan's settings, each with its name.
fn settings(plan: &Plan) -> Vec<(&'static str, String)> {
    let target = match plan.target.names_hardware() {
        true => plan.target.to_string(),
        false => format!("{} ({})", plan.target, plan.target.device.title()),
    };
    let threads: Vec<String> = plan.threads.iter().map(u32::to_string).collect();
    let caches: Vec<&str> = plan.cache_states.iter().map(|c| c.as_str()).collect();
    let whole_model = match plan.whole_model {
        WholeModel::Measure => "measured too",
        WholeModel::Skip => "skipped",
    };
    let may_fail = if plan.max_failed_share > 0.0 {
        format!("{} of the points", units::percent(plan.max_failed_share))
    } else {
        "no point".to_owned()
    };
    let mut lines = vec![
        ("model", model(plan)),
        ("target", target),
        ("threads", threads.join(", ")),
        ("cache", caches.join(", ")),
        ("schedules", schedules(plan.sweep.as_ref())),
        ("whole model", whole_model.to_owned()),
        ("timing", timing(plan)),
        ("re-measure", remeasure(plan)),
        ("worker", worker(plan)),
        ("seed", plan.seed.to_string()),
        ("may fail", may_fail),
        ("out", plan.out.display().to_string()),
    ];
    if !plan.device_conditions.is_empty() {
        let own = plan.device_conditions.iter();
        let own = own.map(|(name, values)| format!("{name} {}", values.join(", ")));
        lines.insert(4, ("conditions", own.collect::<Vec<_>>().join("; ")));
    }
    if let Some(shard) = plan.shard {
        lines.push(("shard", format!("{shard} of the points")));
    }
    if let Some(budget) = plan.time_budget_ns {
        lines.push(("time budget", units::wall(budget)));
    }
    lines
}

fn model(plan: &Plan) -> String {
    let model = &plan.model;
    let mut parts = vec![format!("{} ({})", model.model, model.source)];
    parts.extend(model.batch.map(|batch| format!("batch {batch}")));
    parts.extend(model_settings(model));
    parts.join(", ")
}

/// The user's settings of a model, in words, without the batch size.
pub(super) fn model_settings(model: &ImportRequest) -> Vec<String> {
    let mut parts = Vec::new();
    parts.extend(model.seqlen.map(|seqlen| format!("sequence {seqlen}")));
    parts.extend(model.inputs.iter().map(ToString::to_string));
    if !model.architecture.is_default() {
        parts.push(model.architecture.to_string());
    }
    if !model.fusion.is_full() {
        parts.push("not fused".to_owned());
    }
    if !model.composites.is_empty() {
        parts.push(format!("composites of {}", model.composites.file.display()));
    }
    parts
}

fn timing(plan: &Plan) -> String {
    let stop = &plan.timing.stop;
    format!(
        "until ±{} of the median or {} a point, {} to {} samples after {} warm-up calls",
        units::percent(stop.ci_target),
        units::wall(stop.budget_ns),
        stop.min_samples,
        stop.max_samples,
        plan.timing.warmup
    )
}

fn remeasure(plan: &Plan) -> String {
    match plan.remeasure_budget {
        0.0 => "every point is measured once, disturbed or not".to_owned(),
        times => format!("{times} × the measuring time, for points hit by interference"),
    }
}

fn worker(plan: &Plan) -> String {
    format!(
        "{} to compile, {} to check and measure a point, {} of memory",
        units::wall(plan.worker.compile_timeout_ns),
        units::wall(plan.worker.measure_timeout_ns),
        units::bytes(plan.worker.memory_limit_mib as f64 * 1024.0 * 1024.0)
    )
}

fn schedules(sweep: Option<&Sweep>) -> String {
    let Some(sweep) = sweep else {
        return "default".to_owned();
    };
    let from = match sweep.space {
        SpaceKind::Points => {
            let kernels = units::plural(sweep.points.len() as u64, "schedule");
            return format!("sweep {}: {kernels}, chosen one by one", sweep.name);
        }
        SpaceKind::Default => "the default one".to_owned(),
        SpaceKind::AsIs => "the default one, and the loops that each operator came with".to_owned(),
        space => format!(
            "the default one and {} of the space {} ({})",
            sweep.schedules,
            space.name(),
            match space {
                SpaceKind::Template => sweep.draw.name(),
                SpaceKind::Traces => "recorded",
                _ => "sampled by TVM",
            }
        ),
    };
    format!("sweep {}: {from} for each operator", sweep.name)
}

fn points(estimate: &PlanEstimate) -> String {
    format!(
        "{} ({} of {})",
        estimate.points,
        units::plural(estimate.kernels, "kernel"),
        units::plural(estimate.operators.len() as u64, "operator"),
    )
}

/// The operators of a sweep, with the draws for each.
fn operators(estimate: &PlanEstimate, style: Style) -> String {
    const COLUMNS: [Column; 6] = [
        Column::left("operator").shrinks_to(20),
        Column::left("kind").hides(0),
        Column::right("batch").hides(1),
        Column::right("factors"),
        Column::right("combinations"),
        Column::right("schedules"),
    ];
    let mut table = Table::new(&COLUMNS);
    for operator in &estimate.operators {
        let combinations = match operator.combinations {
            Some(count) if count < 1e6 => format!("{count}"),
            Some(count) => format!("{count:.1e}"),
            None => "-".to_owned(),
        };
        table.row(vec![
            operator.name.clone().into(),
            operator.kind.clone().into(),
            operator.batch.to_string().into(),
            operator.factors.to_string().into(),
            combinations.into(),
            operator.schedules.to_string().into(),
        ]);
    }
    table.render(style)
}

/// The plan with its cost; the figures are null as long as the model is unknown.
pub fn plan_json(plan: &Plan, estimate: Option<&PlanEstimate>) -> Value {
    json!({
        "plan": plan,
        "plan_hash": plan.hash(),
        "operators": estimate.map(|o| o.operators.len()),
        "kernels": estimate.map(|o| o.kernels),
        "points": estimate.map(|o| o.points),
        "estimated_time_ns": estimate.map(|o| o.time_ns as u64),
        "estimated_disk_bytes": estimate.map(|o| o.disk_bytes as u64),
        "operator_rows": estimate.map(|o| &o.operators),
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
        crate::plan::Planned::from_settings(&layers.merge().unwrap(), None, host)
            .unwrap()
            .plan
    }

    fn estimate() -> PlanEstimate {
        PlanEstimate {
            operators: vec![crate::preview::OperatorEstimate {
                name: "dense_add".to_owned(),
                kind: "dense".to_owned(),
                batch: 1,
                schedules: 9,
                factors: 4,
                combinations: Some(1440.0),
            }],
            kernels: 9,
            points: 36,
            time_ns: 2.5e9,
            disk_bytes: 216_000.0,
        }
    }

    #[test]
    fn in_words() {
        let text = plan_text(&plan(), Some(&estimate()), Style::PLAIN);
        insta::assert_snapshot!(text, @r#"
        model       bert-tiny (local), sequence 64
        target      llvm (the CPU of this machine, through LLVM)
        threads     1, 2
        cache       hot, flushed
        schedules   default
        whole model measured too
        timing      until ±3.0 % of the median or 1.0 s a point, 10 to 1000 samples after 3 warm-up calls
        re-measure  0.5 × the measuring time, for points hit by interference
        worker      2 min to compile, 60 s to check and measure a point, 8.00 GiB of memory
        seed        0
        may fail    no point
        out         runs/x
        points      36 (9 kernels of 1 operator)
        takes       about 2.5 s (to a factor of two) and 211 KiB of disk
        "#);
    }

    #[test]
    fn as_json() {
        let known = plan_json(&plan(), Some(&estimate()));
        assert_eq!(known["points"], 36);
        assert_eq!(known["plan"]["model"]["seqlen"], 64);
        assert!(plan_json(&plan(), None)["points"].is_null());
    }
}
