//! The summary of a nightly run in Markdown, as GitHub and GitLab show it.

use opreport::page::section_markdown;
use opreport::table::escape_markdown;

use super::content::content;
use crate::nightly::report::NightlyReport;

/// The summary in Markdown.
pub fn nightly_markdown(report: &NightlyReport) -> String {
    let (title, headline, sections) = content(report);
    let mut out = format!("# {title}\n");
    for sentence in headline {
        out.push_str(&format!("\n{}\n", escape_markdown(&sentence)));
    }
    for section in &sections {
        out.push_str(&section_markdown(section));
    }
    out
}
