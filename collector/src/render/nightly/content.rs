//! The content of a nightly run's summary, in order: regressions first, then the jobs, then the detail.

use opdata::Status;
use opdata::contract::interference::SLOWDOWN_BOUND;
use opreport::page::Section;
use opreport::units;

use crate::compare::{Change, Comparison, Subject, Verdict};
use crate::nightly::again_name;
use crate::nightly::digest::OperatorTime;
use crate::nightly::report::{JobReport, NightlyReport, NightlyState, NotCompared};
use crate::render::compare::{estimate, failure, interval, noise, operator, probability, word};

/// Failed points that are named one by one.
const FAILED_SHOWN: usize = 20;
/// Maximum number of jobs named for each reason why they were not compared.
const NOT_COMPARED_SHOWN: usize = 5;

/// The whole summary: title, the sentence that matters, sections.
pub(super) fn content(report: &NightlyReport) -> (String, Vec<String>, Vec<Section>) {
    let title = format!("Night of {}", report.date);
    let mut sections = Vec::new();
    if let Some(comparison) = &report.comparison {
        sections.extend(news(comparison));
    }
    sections.push(not_compared(report));
    sections.push(jobs(report));
    sections.push(points(report));
    sections.push(times("Slowest operators", &report.findings.slowest));
    sections.push(times(
        "Operators with the highest rates",
        &report.findings.fastest,
    ));
    sections.push(machine(report));
    sections.push(nights(report));
    sections.retain(|section| !section.is_empty());
    (title, headline(report), sections)
}

fn headline(report: &NightlyReport) -> Vec<String> {
    let counts = report.counts();
    let count = |of: fn(&&JobReport) -> bool| report.jobs.iter().filter(of).count() as u64;
    let failed = count(|job| job.has_failed());
    let again = count(|job| job.again == 1);
    let mut jobs = units::plural(count(|job| job.again == 0), "job");
    if again > 0 {
        jobs.push_str(&format!(
            ", {again} of them measured again because something else disturbed them"
        ));
    }
    if failed > 0 {
        jobs.push_str(&format!(", {failed} failed"));
    }
    let mut first = match (report.regressions(), &report.comparison) {
        (0, None) => "Nothing to compare with.".to_owned(),
        (0, Some(_)) => "No regression.".to_owned(),
        (found, _) => format!("{}.", units::plural(found, "regression")),
    };
    if report.state == NightlyState::Interrupted {
        first = format!("Interrupted. {first}");
    }
    let second = format!(
        "{jobs}; {}, {} measured, {} of those tried failed (allowed: {}); {} of {} used.",
        units::plural(counts.rows(), "point"),
        counts.of(Status::Measured),
        units::percent(report.failed_share()),
        units::percent(report.max_failed_share),
        units::wall(report.wall_ns),
        units::wall(report.budget_ns)
    );
    vec![first, second]
}

const CHANGE_HEAD: &str = "operator|model|shapes|#threads|#before|#tonight|#ratio|95 % interval|#p";

fn news(comparison: &Comparison) -> Vec<Section> {
    let threshold = units::percent(comparison.threshold);
    let operators =
        |verdict| -> Vec<Vec<String>> { comparison.with(verdict).map(change_row).collect() };
    let mut regressions =
        Section::new("Regressions").table(CHANGE_HEAD, operators(Verdict::Regression));
    if !regressions.rows.is_empty() {
        regressions = regressions.says(format!(
            "Surely slower than before, by more than {threshold}."
        ));
    }
    let mut unclear = Section::new("Unclear").table(CHANGE_HEAD, operators(Verdict::Unclear));
    if !unclear.rows.is_empty() {
        unclear = unclear.says(format!(
            "Beyond {threshold}, but it may be noise or a busy machine."
        ));
    }
    let whole: Vec<Vec<String>> = comparison
        .changes
        .iter()
        .filter(|c| c.subject == Subject::WholeModel)
        .map(|change| {
            let mut row = change_row(change);
            row.push(word(change.verdict).to_owned());
            row
        })
        .collect();
    vec![
        regressions,
        newly_failed(comparison),
        unclear,
        Section::new("Improvements").table(CHANGE_HEAD, operators(Verdict::Improvement)),
        Section::new("Whole models").table(&format!("{CHANGE_HEAD}|verdict"), whole),
        overall(comparison),
    ]
}

fn change_row(change: &Change) -> Vec<String> {
    vec![
        operator(change),
        change.model.clone(),
        change.shapes.clone(),
        change.threads.map_or(String::new(), |t| t.to_string()),
        units::time(change.a_ns),
        units::time(change.b_ns),
        format!("{:.3}", change.ratio.value),
        interval(&change.ratio).unwrap_or_default(),
        probability(change.p_adjusted),
    ]
}

fn newly_failed(comparison: &Comparison) -> Section {
    let section = Section::new("Failed tonight, measured before");
    let new: Vec<_> = comparison.failed.iter().filter(|f| f.is_new()).collect();
    let mut rows: Vec<Vec<String>> = new
        .iter()
        .take(FAILED_SHOWN)
        .map(|point| vec![failure(point)])
        .collect();
    if new.len() > FAILED_SHOWN {
        rows.push(vec![format!("… {} more", new.len() - FAILED_SHOWN)]);
    }
    section.table("point (A: before, B: tonight)", rows)
}

fn overall(comparison: &Comparison) -> Section {
    let section = Section::new("All operators");
    let Some(ratio) = &comparison.overall else {
        return section;
    };
    let count = |verdict| comparison.count(verdict);
    section
        .says(format!(
            "Geometric mean of tonight's times over those before: {}; {}.",
            estimate(ratio),
            noise(comparison)
        ))
        .says(format!(
            "{} slower, {} faster, {} unclear, {} the same; {} in both, {} only before, {} only tonight.",
            count(Verdict::Regression),
            count(Verdict::Improvement),
            count(Verdict::Unclear),
            count(Verdict::Unchanged),
            units::plural(comparison.shared_points, "point"),
            comparison.only_in_a,
            comparison.only_in_b
        ))
}

fn not_compared(report: &NightlyReport) -> Section {
    let row = |note: &NotCompared| {
        let mut jobs: Vec<&str> = note.jobs.iter().map(String::as_str).collect();
        let left = jobs.len().saturating_sub(NOT_COMPARED_SHOWN);
        jobs.truncate(NOT_COMPARED_SHOWN);
        let more = format!("… {left} more");
        if left > 0 {
            jobs.push(&more);
        }
        vec![
            note.reason.clone(),
            note.jobs.len().to_string(),
            jobs.join("; "),
        ]
    };
    Section::new("Not compared").table(
        "reason|#jobs|which",
        report.not_compared.iter().map(row).collect(),
    )
}

fn jobs(report: &NightlyReport) -> Section {
    let row = |job: &JobReport| {
        let counts = &job.digest.counts;
        let baseline = job.baseline.as_ref().and_then(|path| date_of(path));
        let sweep = job.sweep.iter().cloned().chain(again_name(job.again));
        vec![
            job.model.clone(),
            job.target.clone(),
            sweep.collect::<Vec<_>>().join(", "),
            counts.rows().to_string(),
            counts.of(Status::Measured).to_string(),
            units::wall(job.wall_ns),
            units::wall(job.share_ns),
            baseline.unwrap_or_default(),
            job.words(),
        ]
    };
    Section::new("Jobs").table(
        "model|target|sweep|#points|#measured|#time|#of|against|end",
        report.jobs.iter().map(row).collect(),
    )
}

/// The night of a run's folder.
fn date_of(path: &std::path::Path) -> Option<String> {
    path.iter()
        .filter_map(|part| part.to_str()?.strip_prefix("date="))
        .map(str::to_owned)
        .next_back()
}

fn points(report: &NightlyReport) -> Section {
    let counts = report.counts();
    let all: Vec<String> = counts
        .ended
        .iter()
        .map(|(status, count)| format!("{count} {status}"))
        .collect();
    let reasons = report.findings.reasons.iter().map(|reason| {
        vec![
            reason.points.to_string(),
            reason.status.to_string(),
            reason.reason.clone(),
            reason.example.clone(),
        ]
    });
    let section =
        Section::new("Points").table("#points|status|reason|for example", reasons.collect());
    if all.is_empty() {
        section
    } else {
        section.says(format!("{}.", all.join(", ")))
    }
}

fn times(title: &str, times: &[OperatorTime]) -> Section {
    let row = |time: &OperatorTime| {
        vec![
            time.operator.clone(),
            time.model.clone(),
            time.shapes.clone(),
            time.threads.map_or(String::new(), |t| t.to_string()),
            units::time(time.median_ns),
            time.gflops_per_s
                .map_or(String::new(), |rate| units::giga(rate * 1e9)),
            time.row_id.clone(),
        ]
    };
    Section::new(title).table(
        "operator|model|shapes|#threads|#best median|#GFLOP/s|row",
        times.iter().map(row).collect(),
    )
}

fn machine(report: &NightlyReport) -> Section {
    let rows: Vec<Vec<String>> = report
        .jobs
        .iter()
        .filter_map(|job| {
            let drift = job.digest.drift?;
            let models = job.digest.models;
            let models = match models.timed {
                0 => "none timed".to_owned(),
                timed => format!("{} of {timed}", models.disturbed),
            };
            Some(vec![
                job.label.clone(),
                format!("{:.3}", drift.median),
                format!("{:.3}", drift.p95),
                format!("{:.3}", drift.max),
                format!("{} of {}", drift.disturbed, drift.points),
                models,
            ])
        })
        .collect();
    let section = Section::new("Steadiness of the machine");
    if rows.is_empty() {
        return section;
    }
    section
        .says(format!(
            "Time of the reference kernel around each point over its best in the run; beyond {SLOWDOWN_BOUND:.2} the machine was disturbed. \
             Whole models count once for each number of threads."
        ))
        .table(
            "job|#median|#95th percentile|#largest|#points disturbed|#whole models disturbed",
            rows,
        )
}

fn nights(report: &NightlyReport) -> Section {
    let mut section = Section::new("Older nights");
    for path in &report.retention.removed {
        let date = date_of(path).unwrap_or_default();
        section = section.says(format!("Removed {date}."));
    }
    for night in &report.retention.spared {
        let jobs: Vec<String> = night
            .baseline_of
            .iter()
            .map(|key| key.display().to_string())
            .collect();
        section = section.says(format!(
            "Kept {}: no newer night has measured {}.",
            night.date,
            jobs.join(", ")
        ));
    }
    section
}
