//! A night, as a summary in Markdown, as a page, as JSON; and a night's plan before it begins.
//!
//! What is said and in which order is decided once, in [`content`]; [`markdown`] and [`html`] give it their form.

mod content;
mod html;
mod markdown;
mod plan;
mod plot;
#[cfg(test)]
mod tests;

pub use html::night_html;
pub use markdown::night_markdown;
pub use plan::{night_plan_json, night_plan_text};

use crate::night::report::{NIGHT_JSON, NightReport, SUMMARY_HTML, SUMMARY_MD};

/// The files of a night's summary, by name.
pub fn night_files(report: &NightReport) -> Vec<(&'static str, String)> {
    vec![
        (SUMMARY_MD, night_markdown(report)),
        (SUMMARY_HTML, night_html(report)),
        (NIGHT_JSON, night_json(report)),
    ]
}

/// The night as JSON.
pub fn night_json(report: &NightReport) -> String {
    // Numbers, texts and lists: such a value always has a JSON form.
    serde_json::to_string(report).unwrap_or_default()
}
