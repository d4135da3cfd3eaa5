//! The summary of a nightly run in Markdown, as GitHub and GitLab show it.

use super::content::{Section, content};
use crate::nightly::report::NightlyReport;

/// The summary in Markdown.
pub fn nightly_markdown(report: &NightlyReport) -> String {
    let (title, headline, sections) = content(report);
    let mut out = format!("# {title}\n");
    for sentence in headline {
        out.push_str(&format!("\n{}\n", escape(&sentence)));
    }
    for section in &sections {
        out.push_str(&form(section));
    }
    out
}

fn form(section: &Section) -> String {
    let mut out = format!("\n## {}\n", section.title);
    for sentence in &section.text {
        out.push_str(&format!("\n{}\n", escape(sentence)));
    }
    if section.rows.is_empty() {
        return out;
    }
    let line = |cells: Vec<String>| format!("| {} |\n", cells.join(" | "));
    let heads = section.head.iter();
    out.push('\n');
    out.push_str(&line(
        heads
            .clone()
            .map(|h| h.trim_start_matches('#').to_owned())
            .collect(),
    ));
    out.push_str(&line(
        heads
            .map(|h| if h.starts_with('#') { "---:" } else { "---" }.to_owned())
            .collect(),
    ));
    for row in &section.rows {
        out.push_str(&line(row.iter().map(|cell| escape(cell)).collect()));
    }
    out
}

/// Text that Markdown takes as it is: reasons of failures hold anything.
fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            // Underscores are left alone: inside words they are letters to every Markdown in use.
            '\\' | '`' | '*' | '[' | ']' | '<' | '>' | '|' => {
                out.push('\\');
                out.push(c);
            }
            '\n' | '\r' => out.push(' '),
            c => out.push(c),
        }
    }
    out
}
