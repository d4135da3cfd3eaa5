//! The report of the sample dataset, which is a run's folder, and of that run against itself.

use std::path::Path;

use super::*;
use crate::run_report::{ReportRequest, read};

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
    let addresses = html.replace("http://www.w3.org/2000/svg", "");
    for outside in ["http:", "https:", "<script", "<link", "src=", "url("] {
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
