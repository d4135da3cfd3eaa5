//! The report of an evaluation as text.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use opdata::contract::interference::SLOWDOWN_BOUND;
use oplearn::crossval::metrics::{Metrics, RANKED_SAMPLES};

use opreport::Style;
use opreport::table::{Cell, Column, Table};
use opreport::units::plural;

use super::{figure, number, optional, too_few};
use crate::eval::Report;
use crate::eval::report::Ordering;
use crate::eval::whole::WholeModel;
use crate::eval::within::ModelsWithin;
use crate::transfer::machines::Transfer;

fn metrics_cells(name: &str, m: &Metrics) -> [Cell; 9] {
    [
        name.into(),
        m.samples.to_string().into(),
        number(m.mape, 1),
        number(m.median_ape, 1),
        number(m.within_5, 1),
        number(m.within_10, 1),
        number(m.within_20, 1),
        optional(m.r2_log2, 3).into(),
        optional(m.spearman, 3).into(),
    ]
}

/// Errors of samples that have something in common, a line each.
fn errors<'a>(
    common: &'static str,
    lines: impl IntoIterator<Item = (&'a str, &'a Metrics)>,
    style: Style,
) -> String {
    let mut table = Table::new(&[
        Column::left(common).shrinks_to(10),
        Column::right("samples"),
        Column::right("MAPE %"),
        Column::right("median %"),
        Column::right("±5 %").hides(1),
        Column::right("±10 %"),
        Column::right("±20 %").hides(0),
        Column::right("R2 log2").hides(2),
        Column::right("Spearman").hides(3),
    ]);
    for (name, metrics) in lines {
        table.row(metrics_cells(name, metrics));
    }
    table.render(style)
}

/// Errors of all samples and by kind of operator. If some samples were measured under interference and some were not,
/// each group has errors of its own.
fn all_errors(report: &Report, style: Style) -> String {
    let kinds = report.by_kind.iter().map(|(kind, m)| (kind.as_str(), m));
    let all = [("all", &report.overall)].into_iter().chain(kinds);
    let mut text = errors("kind", all, style);
    if let Some(apart) = &report.by_disturbance {
        let lines = [
            ("quietly", &apart.quiet),
            ("while something else ran", &apart.disturbed),
        ];
        text.push('\n');
        text += &errors("measured", lines, style);
    }
    text
}

fn ordering_line(name: &str, o: &Ordering) -> String {
    if o.ranked_workloads == 0 {
        return format!(
            "{name}: no workload has {RANKED_SAMPLES} samples, which telling their order takes\n"
        );
    }
    format!(
        "{name}: pairwise {} % (all pairs {} %), top-1 {}, top-5 {} over {}\n",
        optional(o.pairwise, 1),
        optional(o.pairwise_micro, 1),
        optional(o.top1, 3),
        optional(o.top5, 3),
        plural(o.ranked_workloads as u64, "workload")
    )
}

/// The report of an evaluation; `workloads` lines by workload.
pub fn report(report: &Report, workloads: usize, style: Style) -> String {
    let mut text = format!(
        "{}, {}: {} of {}, {}, {}\n",
        report.split,
        report.model.name(),
        plural(report.overall.samples as u64, "sample"),
        plural(report.data.rows as u64, "row"),
        plural(report.workloads as u64, "workload"),
        plural(report.folds as u64, "fold")
    );
    let noise = report.data.repeat_noise;
    if report.data.duplicates > 0 {
        let _ = writeln!(
            text,
            "{} of a point measured before (median spread {} %)",
            plural(report.data.duplicates as u64, "row"),
            optional(noise.map(|n| 100.0 * n), 1)
        );
    }
    for (reason, count) in &report.data.left_out {
        let _ = writeln!(text, "{} left out: {reason}", plural(*count, "record"));
    }
    text.push('\n');
    text += &all_errors(report, style);
    let _ = writeln!(
        text,
        "\nMAPE as the mean over workloads: {:.1} %",
        report.mape_workloads
    );
    text.push_str(&ordering_line("predicted times", &report.ordering));
    if let Some(ranker) = &report.ranker {
        text.push_str(&ordering_line("ranker", ranker));
    }
    text += &coverage(report);
    for point in &report.curve {
        let _ = writeln!(
            text,
            "learned from {:.0} %: MAPE {:.1} %, pairwise {} %",
            100.0 * point.share,
            point.mape,
            optional(point.pairwise, 1)
        );
    }
    text.push_str(&models(report, style));
    text.push_str(&by_workload(report, workloads, style));
    text
}

/// Coverage of the intervals, or why there are none.
fn coverage(report: &Report) -> String {
    let Some(c) = &report.coverage else {
        return "no intervals: each fold needs errors of two workloads or more in the others\n"
            .to_owned();
    };
    let mut text = format!(
        "intervals of {} % hold {:.1} % of the samples ({:.1} % as the mean over workloads); median upper/lower end {:.2}\n",
        figure(c.nominal),
        c.samples,
        c.workloads,
        c.median_ratio
    );
    if report.workloads < c.workloads_needed {
        text += &too_few(report.workloads, c.nominal, c.workloads_needed);
        text.push('\n');
    }
    text
}

/// The imports of each model: one for each batch or size of input.
struct Imports<'a>(BTreeMap<&'a str, BTreeSet<&'a str>>);

impl<'a> Imports<'a> {
    fn of(models: &'a [WholeModel]) -> Self {
        let mut of_model: BTreeMap<_, BTreeSet<_>> = BTreeMap::new();
        for m in models {
            let own = of_model.entry(m.model.as_str()).or_default();
            own.extend(m.import_key.as_deref());
        }
        Self(of_model)
    }

    /// Distinguishes several imports of one model: the key without the model's name in front. `None` if there is one
    /// import.
    fn of_several(&self, m: &'a WholeModel) -> Option<&'a str> {
        let several = self.0.get(m.model.as_str())?.len() > 1;
        let key = m.import_key.as_deref().filter(|_| several)?;
        let own = key.strip_prefix(m.model.as_str());
        Some(own.and_then(|own| own.strip_prefix('-')).unwrap_or(key))
    }
}

/// Whole models from their operators; nothing where none was held out.
fn models(report: &Report, style: Style) -> String {
    if report.models.is_empty() {
        return String::new();
    }
    let disturbed = report.models.iter().any(|m| m.disturbed() == Some(true));
    let imports = Imports::of(&report.models);
    let mut table = Table::new(&[
        Column::left("model"),
        Column::left("import").shrinks_to(7).only_if_filled(),
        Column::right("threads"),
        Column::right("measured ms"),
        Column::right("predicted ms"),
        Column::right("interval ms").only_if_filled(),
        Column::right("error %"),
        Column::right("drift").only_if_filled(),
    ]);
    for m in &report.models {
        let drift = disturbed.then(|| optional(m.drift, 2));
        table.row([
            Cell::from(m.model.as_str()),
            imports.of_several(m).unwrap_or_default().into(),
            m.threads.to_string().into(),
            number(m.measured_ms, 3),
            number(m.predicted_ms, 3),
            m.interval_ms
                .map(|[low, high]| format!("{low:.3} to {high:.3}"))
                .unwrap_or_default()
                .into(),
            number(m.error, 1),
            drift.unwrap_or_default().into(),
        ]);
    }
    let mut text = format!("\n{}", table.render(style));
    if imports.0.values().any(|own| own.len() > 1) {
        text +=
            "import: one batch or input size of the model; import_key of its rows ends with it\n";
    }
    if disturbed {
        let _ = writeln!(
            text,
            "drift: time of the reference kernel around the model over its idle time; beyond {SLOWDOWN_BOUND:.2} something else ran, and the model is predicted for that"
        );
    }
    if let (Some(inside), Some(c)) = (report.models_inside, &report.coverage) {
        let _ = writeln!(
            text,
            "intervals of {} % hold {inside:.1} % of the whole models, each counted once",
            figure(c.nominal)
        );
    }
    for count in &report.models_within_10 {
        text += &within_10(count);
    }
    text
}

/// Number of whole models within 10 %. If some were measured under interference, the others are counted separately.
fn within_10(count: &ModelsWithin) -> String {
    let mut text = format!(
        "{}: {} of {} within 10 %",
        plural(count.threads, "thread"),
        count.all.within,
        plural(count.all.models as u64, "whole model"),
    );
    if let Some(quiet) = count.quiet.filter(|quiet| quiet.models < count.all.models) {
        let _ = write!(
            text,
            ", {} of {} measured quietly",
            quiet.within, quiet.models
        );
    }
    text.push('\n');
    text
}

/// The workloads with most samples.
fn by_workload(report: &Report, workloads: usize, style: Style) -> String {
    if workloads == 0 {
        return String::new();
    }
    let mut table = Table::new(&[
        Column::right("samples"),
        Column::right("MAPE %"),
        Column::right("bias log2"),
        Column::right("pairwise %"),
        Column::left("workload").shrinks_to(16),
    ]);
    for w in report.by_workload.iter().take(workloads) {
        table.row([
            w.samples.to_string().into(),
            number(w.mape, 1),
            number(w.bias_log2, 2),
            optional(w.pairwise, 1).into(),
            w.workload.as_str().into(),
        ]);
    }
    format!("\n{}", table.render(style))
}

/// The gain of measurements on held-out machines.
pub fn transfer(transfer: &Transfer, style: Style) -> String {
    let mut table = Table::new(&[
        Column::right("measurements"),
        Column::right("old %"),
        Column::right("alone %"),
        Column::right("adapted %"),
        Column::right("random %"),
        Column::left("shares: old, factor, kinds, trees, rates, alone").hides(0),
        Column::left("machine held out").shrinks_to(12),
    ]);
    for machine in &transfer.machines {
        for g in &machine.gains {
            let shares = g.shares.map(|share| format!("{:.0}", 100.0 * share));
            table.row([
                g.measurements.to_string().into(),
                number(g.zero_shot_mape, 1),
                optional(g.afresh_mape, 1).into(),
                number(g.adapted_mape, 1),
                number(g.random_mape, 1),
                shares.join(" ").into(),
                machine.machine.as_str().into(),
            ]);
        }
    }
    let mut text = table.render(style);
    for mean in &transfer.means {
        let _ = writeln!(
            text,
            "{} measurements, mean of {} machines: old {:.1} %, alone {} %, adapted {:.1} %; adapted at most {:.2} times the better of the two",
            mean.measurements,
            mean.machines,
            mean.old_mape,
            optional(mean.alone_mape, 1),
            mean.adapted_mape,
            mean.worst_ratio
        );
    }
    text
}
