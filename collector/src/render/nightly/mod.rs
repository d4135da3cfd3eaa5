//! A nightly run: its summary in Markdown, as a page and as JSON; and its plan.
//!
//! [`content`] decides about content and order once; [`markdown`] and [`html`] give it their form.

mod content;
mod html;
mod markdown;
mod plan;
mod plot;
#[cfg(test)]
mod tests;

pub use html::nightly_html;
pub use markdown::nightly_markdown;
pub use plan::nightly_plan_text;

use crate::nightly::report::{NIGHTLY_JSON, NightlyReport, SUMMARY_HTML, SUMMARY_MD, SummaryFile};

/// The files of the summary.
pub fn nightly_summary(report: &NightlyReport) -> Vec<SummaryFile> {
    [
        (SUMMARY_MD, nightly_markdown(report)),
        (SUMMARY_HTML, nightly_html(report)),
        (NIGHTLY_JSON, nightly_json(report)),
    ]
    .map(|(name, text)| SummaryFile { name, text })
    .into()
}

/// The result of a nightly run as JSON.
pub fn nightly_json(report: &NightlyReport) -> String {
    // A value of numbers, texts and lists always has a JSON form.
    serde_json::to_string(report).unwrap_or_default()
}
