//! Pages of sections, each with sentences, a table and pictures: as HTML that needs no other file and no network, and in
//! Markdown. Sections fold; long tables can be filtered and sorted.

use opreport::chart::{CHART_SCRIPT, CHART_STYLE};
use opreport::html::escape;
use opreport::svg::RatioLine;
pub(super) use opreport::table::escape_markdown;

use super::compare::{estimate, word};
use crate::compare::{Change, Verdict};

const STYLE: &str = "\
:root{color-scheme:light dark;--line:#8884;--bad:#c0392b;--good:#1e8449;--dim:#888}\
body{font:15px/1.45 system-ui,sans-serif;max-width:75rem;margin:2rem auto;padding:0 1rem}\
h1{font-size:1.6rem;overflow-wrap:anywhere}h2{display:inline;font-size:1.15rem}\
details{margin:1.6rem 0}summary{cursor:pointer;margin:0 0 .5rem}\
input{font:inherit;padding:.15rem .5rem;margin:.2rem 0;max-width:100%}th[aria-sort]{cursor:pointer}\
th[aria-sort=ascending]::after{content:' ▲'}th[aria-sort=descending]::after{content:' ▼'}\
table{border-collapse:collapse;font-variant-numeric:tabular-nums;display:block;overflow-x:auto}\
th,td{padding:.2rem .7rem;border-bottom:1px solid var(--line);text-align:left;white-space:nowrap}\
.n{text-align:right}.w{white-space:normal;min-width:min(18rem,45vw)}\
p{margin:.4rem 0}.lead{font-size:1.15rem;font-weight:600}.bad{color:var(--bad)}.good{color:var(--good)}\
svg{max-width:100%;height:auto;font:12px system-ui,sans-serif}svg text:not([fill]){fill:currentColor}\
figure{display:inline-block;width:36rem;max-width:100%;margin:.4rem 0}figure:has(.wide){width:100%}\
figure>svg{background:#fff;color:#222;width:100%}\
@media(max-width:600px){body{margin:1rem auto;padding:0 .6rem}th,td{padding:.2rem .35rem}\
td:not(.n),th{white-space:normal;overflow-wrap:anywhere}}";

/// A part of a page.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Section {
    /// Its heading.
    pub title: String,
    /// Sentences above the table.
    pub text: Vec<String>,
    /// Headings of the table; those that begin with `#` are of numbers.
    pub head: Vec<&'static str>,
    /// The table's rows.
    pub rows: Vec<Vec<String>>,
    /// Pictures as SVG elements, below the table; Markdown leaves them out.
    pub pictures: Vec<String>,
}

impl Section {
    /// A part without anything in it.
    pub fn new(title: &str) -> Section {
        Section {
            title: title.to_owned(),
            ..Section::default()
        }
    }

    /// With a sentence more.
    pub fn says(mut self, text: impl Into<String>) -> Section {
        self.text.push(text.into());
        self
    }

    /// With a table.
    pub fn table(mut self, head: &[&'static str], rows: Vec<Vec<String>>) -> Section {
        self.head = head.to_vec();
        self.rows = rows;
        self
    }

    /// Without the table's columns in which no row says anything.
    pub fn without_empty_columns(mut self) -> Section {
        let filled: Vec<bool> = (0..self.head.len())
            .map(|place| {
                self.rows
                    .iter()
                    .any(|row| row.get(place).is_some_and(|c| !c.is_empty()))
            })
            .collect();
        let mut columns = filled.iter();
        self.head.retain(|_| columns.next() == Some(&true));
        for row in &mut self.rows {
            let mut columns = filled.iter();
            row.retain(|_| columns.next() == Some(&true));
        }
        self
    }

    /// Whether it says nothing.
    pub fn is_empty(&self) -> bool {
        self.text.is_empty() && self.rows.is_empty() && self.pictures.is_empty()
    }
}

/// The head of a page, up to its title.
pub(super) fn page_head(title: &str) -> String {
    format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\
         <title>{title}</title><style>{STYLE}</style></head><body>\n<h1>{title}</h1>\n",
        title = escape(title)
    )
}

/// Adds the end of a page: what filters and sorts its tables, and draws its charts if it has any.
pub(super) fn end_page(page: &mut String) {
    if page.contains("class=\"chart\"") {
        page.push_str(&format!(
            "<style>{CHART_STYLE}</style><script>{CHART_SCRIPT}</script>"
        ));
    }
    page.push_str(concat!(
        "<script>",
        include_str!("page.js"),
        "</script></body></html>\n"
    ));
}

/// Rows from which a table has a filter.
const FILTERED: usize = 10;

/// A section as HTML.
pub(super) fn section_html(section: &Section) -> String {
    let title = escape(&section.title);
    let mut out = format!("<details open><summary><h2>{title}</h2></summary>\n");
    for sentence in &section.text {
        out.push_str(&format!("<p>{}</p>\n", escape(sentence)));
    }
    out.push_str(&table_html(section));
    for picture in &section.pictures {
        out.push_str(&format!("<figure>{picture}</figure>\n"));
    }
    out.push_str("</details>\n");
    out
}

fn table_html(section: &Section) -> String {
    if section.rows.is_empty() {
        return String::new();
    }
    let mut out = String::new();
    if section.rows.len() >= FILTERED {
        out.push_str(
            "<input type=\"search\" placeholder=\"filter rows\" aria-label=\"filter rows\">\n",
        );
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

/// A section in Markdown.
pub(super) fn section_markdown(section: &Section) -> String {
    let mut out = format!("\n## {}\n", section.title);
    for sentence in &section.text {
        out.push_str(&format!("\n{}\n", escape_markdown(sentence)));
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
        out.push_str(&line(
            row.iter().map(|cell| escape_markdown(cell)).collect(),
        ));
    }
    out
}

/// A change as a line of a picture of ratios.
pub(super) fn ratio_line(change: &Change, label: String) -> RatioLine {
    RatioLine {
        label,
        verdict: word(change.verdict),
        colour: match change.verdict {
            Verdict::Regression => "var(--bad)",
            Verdict::Improvement => "var(--good)",
            _ => "var(--dim)",
        },
        ratio: change.ratio.value,
        interval: (change.ratio.low, change.ratio.high),
        value: estimate(&change.ratio),
    }
}
