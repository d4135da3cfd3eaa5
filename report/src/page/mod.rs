//! Pages of sections, each with sentences, a table and pictures: as HTML that needs no other file and no network, and in
//! Markdown. Sections fold; long tables can be filtered and sorted. A page that draws by itself takes only the head and
//! [`data_element`](crate::html::data_element).

use crate::chart::{CHART_SCRIPT, CHART_STYLE};
use crate::html::escape;
use crate::table::escape_markdown;

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
pub struct Section {
    /// Its heading.
    pub title: String,
    /// Sentences above the table.
    pub text: Vec<String>,
    /// Headings of the table; those that begin with `#` are for numbers.
    pub head: Vec<String>,
    /// The table's rows.
    pub rows: Vec<Vec<String>>,
    /// Link targets of the first cells of the rows; empty for none.
    pub links: Vec<String>,
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

    /// Adds a sentence to the section.
    pub fn says(mut self, text: impl Into<String>) -> Section {
        self.text.push(text.into());
        self
    }

    /// Adds a table to the section. `head` has the names of its columns with `|` between them.
    pub fn table(mut self, head: &str, rows: Vec<Vec<String>>) -> Section {
        self.head = head.split('|').map(str::to_owned).collect();
        self.rows = rows;
        self
    }

    /// Removes the table's columns that are empty in every row.
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

/// The head of a page, up to its body.
pub fn page_head(title: &str, style: &str) -> String {
    format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\
         <title>{title}</title><style>{STYLE}{style}</style></head><body>\n",
        title = escape(title)
    )
}

/// The head of a page and its title.
pub fn titled_head(title: &str) -> String {
    format!("{}<h1>{}</h1>\n", page_head(title, ""), escape(title))
}

/// Adds the end of a page: the scripts that filter and sort its tables, and draw its charts if it has any.
pub fn end_page(page: &mut String) {
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
pub fn section_html(section: &Section) -> String {
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
    for (number, row) in section.rows.iter().enumerate() {
        out.push_str("<tr>");
        let mut link = section.links.get(number);
        for (cell, head) in row.iter().zip(&section.head) {
            let text = match link.take() {
                Some(to) => format!("<a href=\"{}\">{}</a>", escape(to), escape(cell)),
                None => escape(cell),
            };
            out.push_str(&format!("<td{}>{text}</td>", class(head, cell)));
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
pub fn section_markdown(section: &Section) -> String {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_leads_where_its_link_says_and_no_text_is_markup() {
        let section = Section {
            links: vec!["./a%20b".to_owned()],
            ..Section::new("<t>").table(
                "name|#n",
                vec![
                    vec!["<a>".to_owned(), "1".to_owned()],
                    vec!["b".to_owned(), "2".to_owned()],
                ],
            )
        };
        let html = section_html(&section);
        assert!(html.contains("<td><a href=\"./a%20b\">&lt;a&gt;</a></td><td class=\"n\">1</td>"));
        assert!(html.contains("<td>b</td><td class=\"n\">2</td>"));
        assert!(html.contains("<h2>&lt;t&gt;</h2>"));
    }
}
