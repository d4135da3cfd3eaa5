//! The report of a run: a page, Markdown and JSON.
//!
//! [`run_sections`] decides about content and order once; [`plots`] draws the pictures, which Markdown leaves out.

mod machine;
mod plots;

use opdata::Status;
use opdata::contract::Level;
use opdata::roofline::Roof;
use opreport::html::escape;
use opreport::page::{Section, end_page, section_html, section_markdown, titled_head};
use opreport::table::escape_markdown;
use opreport::units;
use serde_json::{Value, json};

use super::compare::{busy, estimate, noise as noise_words, operator, probability, word};
use super::profile::standing_json;
use crate::compare::{Comparison, Verdict};
use crate::run_report::curves::PAYS;
use crate::run_report::{OperatorTime, RunOverview, RunReportData};

/// Operators, changes and findings that are named one by one.
const SHOWN: usize = 40;

/// The report as one HTML file that needs no other.
pub fn report_html(report: &RunReportData) -> String {
    let title = title(report);
    let mut out = titled_head(&title);
    for sentence in headline(report) {
        out.push_str(&format!("<p class=\"lead\">{}</p>\n", escape(&sentence)));
    }
    for section in run_sections(report) {
        out.push_str(&section_html(&section));
    }
    end_page(&mut out);
    out
}

/// The report in Markdown.
pub fn report_markdown(report: &RunReportData) -> String {
    let mut out = format!("# {}\n", escape_markdown(&title(report)));
    for sentence in headline(report) {
        out.push_str(&format!("\n{}\n", escape_markdown(&sentence)));
    }
    for section in run_sections(report) {
        out.push_str(&section_markdown(&section));
    }
    out
}

/// The report in numbers.
pub fn report_json(report: &RunReportData) -> Value {
    let run = &report.run;
    let curves = run.curves.iter().map(|curve| {
        json!({
            "factor": curve.factor, "operator": curve.operator, "turn": curve.turn,
            "points": curve.points,
        })
    });
    let findings = run.findings.iter();
    let findings = findings.map(|(row, f)| json!({ "row_id": row, "finding": f.to_string() }));
    json!({
        "run_id": run.manifest.run_id,
        "models": run.models,
        "points": run.ended,
        "grades": run.grades,
        "operators": run.operators.iter().map(operator_json).collect::<Vec<_>>(),
        "curves": curves.collect::<Vec<_>>(),
        "findings": findings.collect::<Vec<_>>(),
        "comparison": report.comparison,
    })
}

fn operator_json(operator: &OperatorTime) -> Value {
    let standing = operator.standing.as_ref();
    json!({
        "model": operator.model, "name": operator.name, "shapes": operator.shapes,
        "count": operator.count, "threads": operator.threads,
        "time_median_ns": operator.median_ns, "gflops_per_s": operator.gflops_per_s,
        "quality": operator.quality, "roofline": standing.map(standing_json),
    })
}

fn title(report: &RunReportData) -> String {
    let id = &report.run.manifest.run_id;
    match &report.comparison {
        None => format!("Run {id}"),
        Some(_) => format!("Run {id}, compared"),
    }
}

/// The sentences that matter.
fn headline(report: &RunReportData) -> Vec<String> {
    let run = &report.run;
    let of = |status| run.ended.get(&status).copied().unwrap_or(0);
    let points: u64 = run.ended.values().sum();
    let (timed, how) = match of(Status::Simulated) {
        0 => (of(Status::Measured), "measured"),
        simulated => (simulated, "simulated, none measured,"),
    };
    let mut all = vec![format!(
        "{timed} of {} {how} on {}",
        units::plural(points, "point"),
        run.environment
            .machine
            .cpu
            .name
            .as_deref()
            .unwrap_or("an unknown processor"),
    )];
    if let Some(comparison) = &report.comparison {
        let count = |verdict| comparison.count(verdict);
        all.push(format!(
            "{}, {}, {} unchanged, {} unclear",
            units::plural(count(Verdict::Regression), "regression"),
            units::plural(count(Verdict::Improvement), "improvement"),
            count(Verdict::Unchanged),
            count(Verdict::Unclear) + count(Verdict::Unknown),
        ));
    }
    all
}

fn run_sections(report: &RunReportData) -> Vec<Section> {
    let run = &report.run;
    let mut all = Vec::new();
    all.extend(report.comparison.as_ref().map(changes));
    all.push(summary(run));
    all.push(whole_models(run));
    all.push(operators(run));
    all.push(curves(run));
    all.push(heats(run));
    all.push(roofline(run));
    all.push(counters(run));
    all.push(machine::noise(run));
    all.push(machine::environment(run));
    all.retain(|section| !section.is_empty());
    all
}

fn changes(comparison: &Comparison) -> Section {
    let rows = comparison.changes.iter().take(SHOWN).map(|change| {
        vec![
            format!("{} ({})", operator(change), change.model),
            change.threads.map_or_else(String::new, |t| t.to_string()),
            units::time(change.a_ns),
            units::time(change.b_ns),
            estimate(&change.ratio),
            probability(change.p_adjusted),
            word(change.verdict).to_owned(),
        ]
    });
    let head = "operator|#threads|#before|#after|#ratio|#p|verdict";
    let mut section = Section::new("What changed")
        .says(noise_words(comparison))
        .table(head, rows.collect());
    if let Some(text) = busy(comparison) {
        section = section.says(text);
    }
    let hidden = comparison.changes.len().saturating_sub(SHOWN);
    if hidden > 0 {
        section = section.says(format!("{hidden} more, which changed less, are left out."));
    }
    section.pictures.push(plots::changes(comparison));
    section
}

/// The names. If there are many: their number and the first ones.
fn few(names: &[&str]) -> String {
    const FIRST: usize = 5;
    if names.len() <= 2 * FIRST {
        return names.join(", ");
    }
    format!("{}: {}, …", names.len(), names[..FIRST].join(", "))
}

fn summary(run: &RunOverview) -> Section {
    let manifest = &run.manifest;
    let ended = run.ended.iter();
    let ended: Vec<String> = ended.map(|(status, n)| format!("{n} {status}")).collect();
    let models: Vec<&str> = run.models.iter().map(String::as_str).collect();
    let line = |name: &str, value: String| vec![name.to_owned(), value];
    let mut rows = vec![
        line("models", few(&models)),
        line("points", ended.join(", ")),
        line("begun", manifest.created.to_string()),
    ];
    if let Some(end) = manifest.ended {
        rows.push(line("ended", end.to_string()));
    }
    rows.push(line("command", manifest.command_line.join(" ")));
    Section::new("Summary").table("|what", rows)
}

fn whole_models(run: &RunOverview) -> Section {
    let rows = run.whole_models.iter().map(|time| {
        let (low, high) = time.interval_ns;
        vec![
            time.import
                .clone()
                .unwrap_or_else(|| "the model".to_owned()),
            threads(time.threads.into(), &time.device_conditions),
            units::time(time.median_ns),
            format!("{} … {}", units::time(low), units::time(high)),
            units::time(time.latency.p95_ns),
            units::time(time.latency.p99_ns),
            time.latency
                .calls_per_s()
                .map_or_else(String::new, units::count),
            time.explained.map_or_else(String::new, units::percent),
        ]
    });
    let head = "model|#threads|#end to end|#95 % interval|#p95|#p99|#calls/s|#operators explain";
    Section::new("Whole models").table(head, rows.collect())
}

/// A number of threads, with the conditions that only the device has.
fn threads(threads: u64, device_conditions: &str) -> String {
    match device_conditions {
        "" => threads.to_string(),
        conditions => format!("{threads}, {conditions}"),
    }
}

fn operators(run: &RunOverview) -> Section {
    let rows = run.operators.iter().take(SHOWN).map(|o| {
        vec![
            o.name.clone(),
            o.model.clone(),
            threads(o.threads, &o.device_conditions),
            o.count.to_string(),
            units::time(o.median_ns),
            units::time(o.total_ns()),
            o.gflops_per_s
                .map_or_else(String::new, |g| units::giga(g * 1e9)),
            o.standing
                .as_ref()
                .and_then(|s| s.words())
                .unwrap_or_default(),
            share(o, Roof::Compute),
            share(o, Roof::Read(Level::L1)),
            share(o, Roof::Read(Level::L2)),
            share(o, Roof::Read(Level::L3)),
            share(o, Roof::Read(Level::Memory)),
            o.quality.map_or_else(String::new, |q| q.to_string()),
            o.shapes.clone(),
        ]
    });
    let head = "operator|model|#threads|#calls|#median|#all calls|#GFLOP/s|bound by|#compute|\
        #L1|#L2|#L3|#memory|grade|shapes";
    // Without a calibration nothing is known of the roofs.
    let section = Section::new("Operators")
        .table(head, rows.collect())
        .without_empty_columns();
    match run.operators.len().saturating_sub(SHOWN) {
        0 => section,
        hidden => section.says(format!(
            "Default schedules, longest first; {hidden} shorter ones are left out."
        )),
    }
}

/// An operator's share of a roof.
fn share(operator: &OperatorTime, roof: Roof) -> String {
    let standing = operator.standing.as_ref();
    let share = standing.and_then(|standing| standing.share(roof));
    share.map_or_else(String::new, |share| format!("{:.0} %", share * 100.0))
}

fn curves(run: &RunOverview) -> Section {
    let rows = run.curves.iter().map(|curve| {
        let best = curve.points.iter().copied();
        let best = best.min_by(|a, b| a.1.total_cmp(&b.1)).unwrap_or_default();
        let at_turn = curve.points.iter().find(|p| p.0 == curve.turn);
        vec![
            curve.factor.to_owned(),
            curve.operator.clone(),
            curve.turn.to_string(),
            at_turn.map_or_else(String::new, |p| units::time(p.1)),
            best.0.to_string(),
            units::time(best.1),
        ]
    });
    let head = "factor|operator|#turns at|#time there|#best at|#best time";
    let rows: Vec<_> = rows.collect();
    if rows.is_empty() {
        return Section::default();
    }
    let mut section = Section::new("Factors")
        .says(format!(
            "The best time at each value of a factor, whatever the others were. A factor turns at the smallest value whose time is within {} of the best: more of it does not pay.",
            units::percent(PAYS)
        ))
        .table(head, rows);
    section.pictures = plots::curves(&run.curves);
    section
}

fn heats(run: &RunOverview) -> Section {
    if run.heats.is_empty() {
        return Section::default();
    }
    let mut section = Section::new("Tile × threads")
        .says("Each row is coloured by the time over the best of as many threads.");
    section.pictures = run.heats.iter().map(plots::heat_map).collect();
    // Markdown has no pictures: the best of each number of threads says the same.
    let rows = run.heats.iter().flat_map(|heat| {
        let mut best: std::collections::BTreeMap<u64, [f64; 3]> = Default::default();
        for cell in &heat.cells {
            let entry = best.entry(cell[1] as u64).or_insert(*cell);
            if cell[2] < entry[2] {
                *entry = *cell;
            }
        }
        best.into_values().map(|[tile, threads, time]| {
            vec![
                heat.operator.clone(),
                threads.to_string(),
                tile.to_string(),
                units::time(time),
            ]
        })
    });
    let head = "operator|#threads|#best tile, elements|#time";
    let rows = rows.collect();
    section.table(head, rows)
}

fn roofline(run: &RunOverview) -> Section {
    let Some(calibration) = &run.environment.calibration else {
        return Section::new("Roofline").says(
            "The machine was not calibrated: `opcollect doctor --calibrate` measures its peak and bandwidths, which later runs record.",
        );
    };
    let rows = calibration.rates.iter().map(|rates| {
        let read = |level| {
            let rate = rates.read_gbytes_per_s.get(&level);
            rate.map_or_else(String::new, |r| units::giga(r.rate.best * 1e9))
        };
        let mut cells = vec![
            rates.threads.to_string(),
            units::giga(rates.peak_gflops_per_s.best * 1e9),
        ];
        cells.extend(Level::ALL.map(read));
        cells
    });
    let head = "#threads|#GFLOP/s|#L1, GB/s|#L2, GB/s|#L3, GB/s|#memory, GB/s";
    let mut section = Section::new("Roofline").table(head, rows.collect());
    section
        .pictures
        .push(plots::roofline(&run.points, calibration));
    section
}

fn counters(run: &RunOverview) -> Section {
    let rows = run.counters.iter().map(|(name, counts)| {
        let median = opdata::stats::median(counts.iter().map(|of| of.count));
        let median = median.map_or_else(String::new, units::count);
        vec![name.clone(), counts.len().to_string(), median]
    });
    let head = "counter|#rows|#median count";
    let mut section = Section::new("Counters")
        .says("Counts of one run, in calls that were not timed.")
        .table(head, rows.collect());
    section.pictures = plots::counters(&run.counters);
    if run.counters.is_empty() {
        Section::default()
    } else {
        section
    }
}

#[cfg(test)]
mod tests;
