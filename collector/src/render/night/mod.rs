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

use crate::night::report::NightReport;

/// The night as JSON.
pub fn night_json(report: &NightReport) -> String {
    // Numbers, texts and lists: such a value always has a JSON form.
    serde_json::to_string(report).unwrap_or_default()
}
