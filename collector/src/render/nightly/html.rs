//! The summary of a nightly run as one HTML file that needs no other file and no network.

use opreport::html::escape;
use opreport::page::{end_page, section_html, titled_head};

use super::content::content;
use super::plot::ratios;
use crate::nightly::report::NightlyReport;

/// The summary as a page.
pub fn nightly_html(report: &NightlyReport) -> String {
    let (title, headline, sections) = content(report);
    let tone = if report.regressions() > 0 || report.jobs.iter().any(|job| job.has_failed()) {
        "bad"
    } else {
        "good"
    };
    let mut out = titled_head(&title);
    for (place, sentence) in headline.iter().enumerate() {
        let class = match place {
            0 => format!(" class=\"lead {tone}\""),
            _ => String::new(),
        };
        out.push_str(&format!("<p{class}>{}</p>\n", escape(sentence)));
    }
    if let Some(comparison) = &report.comparison {
        out.push_str(&ratios(comparison));
    }
    for section in &sections {
        out.push_str(&section_html(section));
    }
    end_page(&mut out);
    out
}
