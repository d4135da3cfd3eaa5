//! The report of the sample dataset, which is a run's folder, and of that run against itself.

use std::path::Path;

use super::*;
use crate::run_report::{CountOfRow, ReportRequest, read};

fn report(later: bool) -> RunReportData {
    let sample = Path::new(env!("CARGO_MANIFEST_DIR")).join("../datasets/sample");
    read(&ReportRequest {
        later: later.then(|| sample.clone()),
        run: sample,
        out: None,
    })
    .unwrap()
}

#[test]
fn a_page_has_every_part_and_needs_nothing_from_elsewhere() {
    let data = report(false);
    let html = report_html(&data);
    for part in [
        "<h2>Summary</h2>",
        "<h2>Whole models</h2>",
        "<h2>Operators</h2>",
        "<h2>Factors</h2>",
        "<h2>Roofline</h2>",
        "<h2>Noise</h2>",
        "<h2>Environment</h2>",
        "turns at",
        "compute ",
    ] {
        assert!(html.contains(part), "no {part}");
    }
    // Names of XML are no addresses to fetch.
    let addresses = html
        .replace("http://www.w3.org/2000/svg", "")
        // A comment at the head of the library of charts.
        .replace("https://github.com/leeoniya/uPlot", "");
    for outside in ["http:", "https:", "<script src", "<link", "src=", "url("] {
        assert!(!addresses.contains(outside), "{outside}");
    }
    assert!(html.len() < 4_000_000, "{} bytes", html.len());
    let markdown = report_markdown(&data);
    assert!(markdown.contains("## Operators") && !markdown.contains("<svg"));
    assert!(report_json(&data)["curves"].as_array().unwrap().len() > 3);
}

#[test]
fn two_runs_say_what_changed() {
    let html = report_html(&report(true));
    assert!(html.contains("<h2>What changed</h2>") && html.contains("0 regressions"));
}

#[test]
fn counters_stand_against_time_by_threads_and_unknown_roofs_have_no_columns() {
    let mut data = report(false);
    let of = |count, threads| CountOfRow {
        count,
        time_ns: 1e6,
        threads,
    };
    let rows = [of(10.0, 1), of(30.0, 1), of(20.0, 2)];
    data.run.counters = [
        ("perf:task-clock".to_owned(), rows.to_vec()),
        ("perf:page-faults".to_owned(), vec![of(0.0, 1)]),
    ]
    .into();
    for operator in &mut data.run.operators {
        operator.standing = None;
    }
    let html = report_html(&data);
    for part in [
        "<td>perf:task-clock</td><td class=\"n\">3</td><td class=\"n\">20</td>",
        "1 thread",
        "2 threads",
    ] {
        assert!(html.contains(part), "no {part}");
    }
    let pictures = |name: &str| html.matches(&format!(">{name}</text>")).count();
    assert!(pictures("perf:task-clock") > 0);
    assert_eq!(pictures("perf:page-faults"), 0);
    assert!(!report_markdown(&data).contains("bound by"));
}
