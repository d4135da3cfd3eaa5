//! The summary of a nightly run as one HTML file that needs no other file, no script and no network.

use opreport::html::escape;

use super::content::{Section, content};
use super::plot::ratios;
use crate::nightly::report::NightlyReport;

const STYLE: &str = "\
:root{color-scheme:light dark;--line:#8884;--bad:#c0392b;--good:#1e8449;--dim:#888}\
body{font:15px/1.45 system-ui,sans-serif;max-width:75rem;margin:2rem auto;padding:0 1rem}\
h1{font-size:1.6rem}h2{font-size:1.15rem;margin:2rem 0 .5rem}\
table{border-collapse:collapse;font-variant-numeric:tabular-nums;display:block;overflow-x:auto}\
th,td{padding:.2rem .7rem;border-bottom:1px solid var(--line);text-align:left;white-space:nowrap}\
.n{text-align:right}.w{white-space:normal;min-width:18rem}\
p{margin:.4rem 0}.lead{font-size:1.15rem;font-weight:600}.bad{color:var(--bad)}.good{color:var(--good)}\
svg{max-width:100%;height:auto;font:12px system-ui,sans-serif}svg text{fill:currentColor}";

/// The summary as a page.
pub fn nightly_html(report: &NightlyReport) -> String {
    let (title, headline, sections) = content(report);
    let tone = if report.regressions() > 0 || report.jobs.iter().any(|job| job.has_failed()) {
        "bad"
    } else {
        "good"
    };
    let mut out = format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\
         <title>{title}</title><style>{STYLE}</style></head><body>\n<h1>{title}</h1>\n",
        title = escape(&title)
    );
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
        out.push_str(&form(section));
    }
    out.push_str("</body></html>\n");
    out
}

fn form(section: &Section) -> String {
    let mut out = format!("<h2>{}</h2>\n", escape(&section.title));
    for sentence in &section.text {
        out.push_str(&format!("<p>{}</p>\n", escape(sentence)));
    }
    if section.rows.is_empty() {
        return out;
    }
    out.push_str("<table><thead><tr>");
    for head in &section.head {
        let name = head.trim_start_matches('#');
        out.push_str(&format!("<th{}>{}</th>", class(head, name), escape(name)));
    }
    out.push_str("</tr></thead><tbody>\n");
    for row in &section.rows {
        out.push_str("<tr>");
        for (cell, head) in row.iter().zip(&section.head) {
            out.push_str(&format!("<td{}>{}</td>", class(head, cell), escape(cell)));
        }
        out.push_str("</tr>\n");
    }
    out.push_str("</tbody></table>\n");
    out
}

fn class(head: &str, text: &str) -> &'static str {
    const LONG: usize = 60;
    if head.starts_with('#') {
        " class=\"n\""
    } else if text.chars().count() > LONG {
        " class=\"w\""
    } else {
        ""
    }
}
