//! Several dumps on one page: `comparison.html`, with totals and operators side by side, each against the first dump.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use opreport::html::escape;

use crate::analysis::rollup::{Filter, Grouping, roll_up};
use crate::analysis::summary::Summary;
use crate::error::{Result, io_at};
use crate::profile::Profile;
use crate::report::Engine;

/// What is kept of a dump, so that its events need not be.
#[derive(Debug, Clone)]
pub struct Side {
    /// Folder of its files, within that of the page.
    folder: String,
    chip: String,
    summary: Summary,
    /// What is lost in it, if anything is.
    headline: Option<String>,
    /// Total time in ns of each operator.
    operators: BTreeMap<(String, Option<Engine>), i64>,
}

impl Side {
    /// Of a profile whose files are in `folder`.
    pub fn of(profile: &Profile, summary: &Summary, filter: &Filter, folder: &Path) -> Side {
        let mut operators = BTreeMap::new();
        for group in roll_up(profile, Grouping::Operator, filter) {
            *operators.entry((group.label(), group.engine)).or_default() += group.total_ns;
        }
        let name = folder.file_name().unwrap_or(folder.as_os_str());
        Side {
            folder: name.to_string_lossy().into_owned(),
            chip: format!("{}, mode {}", profile.chip, profile.mode.name()),
            summary: summary.clone(),
            headline: profile.report.headline(),
            operators,
        }
    }
}

/// Writes the page; at most `top` operators, those that differ most first. `unread` are the dumps that could not be read.
pub fn write(sides: &[Side], unread: &[PathBuf], top: usize, path: &Path) -> Result<()> {
    let part = path.with_extension("html.part");
    std::fs::write(&part, page(sides, unread, top)).map_err(io_at(&part, "cannot write"))?;
    std::fs::rename(&part, path).map_err(io_at(path, "cannot write"))
}

/// Removes the page of an earlier job: it would speak of results that are no longer there.
pub fn remove_old(path: &Path) -> Result<()> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            Err(io_at(path, "cannot replace")(error))
        }
        _ => Ok(()),
    }
}

const HEAD: &str = "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><meta name=\"viewport\" content=\"width=device-width\"><title>TPU dumps compared</title><style>
body{font:14px system-ui,sans-serif;margin:2em}table{border-collapse:collapse;margin:1em 0}
th,td{padding:.25em .7em;border-bottom:1px solid #ddd;text-align:right}th{background:#f4f4f4;cursor:pointer}
th:first-child,td:first-child,.word{text-align:left}.wide{overflow-x:auto}@media(max-width:600px){body{margin:1em}}
.more{color:#b00020}.less{color:#0a7a2f}.lost{color:#b00020;text-align:left}
</style><h1>TPU dumps compared</h1>";

/// Rows sort by the number or text of the column that is clicked, the other way round at the second click.
const SORT: &str = "<script>
for(const th of document.querySelectorAll('th'))th.onclick=()=>{
const body=th.closest('table').tBodies[0],at=th.cellIndex,up=th.dataset.up=th.dataset.up==='1'?'0':'1';
const of=row=>{const cell=row.cells[at];return cell.dataset.v===undefined?cell.textContent:+cell.dataset.v};
[...body.rows].sort((a,b)=>{const x=of(a),y=of(b);return(x<y?-1:x>y?1:0)*(up==='1'?1:-1)}).forEach(r=>body.append(r));
};</script></html>
";

fn page(sides: &[Side], unread: &[PathBuf], top: usize) -> String {
    let mut text = HEAD.to_string();
    totals(&mut text, sides);
    for dump in unread {
        let dump = escape(&dump.to_string_lossy());
        let _ = write!(text, "<p class=\"lost\">{dump} could not be read");
    }
    if sides.windows(2).any(|pair| pair[0].chip != pair[1].chip) {
        text += "<p>Chips or modes differ: the same command may have another name.";
    }
    operators(&mut text, sides, top);
    text + SORT
}

fn totals(text: &mut String, sides: &[Side]) {
    *text += "<div class=\"wide\"><table><thead><tr><th>dump<th class=\"word\">chip, mode<th>total (us)<th>of the first<th>TIU<th>parallelism<th>\
              </thead><tbody>";
    let first = sides.first().map_or(0, |side| side.summary.total_ns);
    for side in sides {
        let folder = escape(&side.folder);
        let _ = write!(
            text,
            "<tr><td><a href=\"{}/result.html\">{folder}</a><td class=\"word\">{}",
            address(&side.folder),
            escape(&side.chip)
        );
        time_cell(text, Some(side.summary.total_ns));
        ratio_cell(text, Some(side.summary.total_ns), Some(first));
        for share in [side.summary.tiu_working_ratio, side.summary.parallelism] {
            let _ = write!(text, "<td data-v=\"{share}\">{:.2}%", share * 100.0);
        }
        let lost = side.headline.as_deref().unwrap_or_default();
        let _ = write!(text, "<td class=\"lost\">{}", escape(lost));
    }
    *text += "</tbody></table></div>";
}

fn operators(text: &mut String, sides: &[Side], top: usize) {
    let mut names: Vec<&(String, Option<Engine>)> = sides
        .iter()
        .flat_map(|side| side.operators.keys())
        .collect();
    names.sort_unstable();
    names.dedup();
    let times = |name| -> Vec<Option<i64>> {
        let time = |side: &Side| side.operators.get(name).copied();
        sides.iter().map(time).collect()
    };
    let mut lines: Vec<_> = names.into_iter().map(|name| (name, times(name))).collect();
    let spread = |times: &[Option<i64>]| {
        let known = || times.iter().map(|time| time.unwrap_or(0));
        known().max().unwrap_or(0) - known().min().unwrap_or(0)
    };
    lines.sort_by_key(|(_, times)| std::cmp::Reverse(spread(times)));
    *text += "<h2>Operators, those that differ most first (us)</h2><div class=\"wide\"><table><thead><tr><th>operator<th class=\"word\">engine";
    for (number, side) in sides.iter().enumerate() {
        let _ = write!(text, "<th>{}", escape(&side.folder));
        *text += if number > 0 { "<th>of the first" } else { "" };
    }
    *text += "</thead><tbody>";
    let more = lines.len().saturating_sub(top);
    for ((name, engine), times) in lines.iter().take(top) {
        let engine = engine.map_or("", Engine::name);
        let _ = write!(text, "<tr><td>{}<td class=\"word\">{engine}", escape(name));
        for (number, &time) in times.iter().enumerate() {
            time_cell(text, time);
            if number > 0 {
                ratio_cell(text, time, times[0]);
            }
        }
    }
    *text += "</tbody></table></div>";
    if more > 0 {
        let _ = write!(text, "<p>… {more} more (--top)</p>");
    }
}

/// A time in ns as a cell in µs; empty where the dump has none.
fn time_cell(text: &mut String, ns: Option<i64>) {
    match ns {
        Some(ns) => {
            let _ = write!(text, "<td data-v=\"{ns}\">{:.3}", ns as f64 / 1000.0);
        }
        None => *text += "<td data-v=\"-1\">",
    }
}

/// A time over the first dump's; red if it is longer by more than a hundredth, green if shorter.
fn ratio_cell(text: &mut String, ns: Option<i64>, first: Option<i64>) {
    match (ns, first) {
        (Some(ns), Some(first)) if first > 0 => {
            let ratio = ns as f64 / first as f64;
            let class = match ratio {
                r if r > 1.01 => "more",
                r if r < 0.99 => "less",
                _ => "",
            };
            let _ = write!(text, "<td class=\"{class}\" data-v=\"{ratio}\">{ratio:.3}");
        }
        _ => *text += "<td data-v=\"-1\">",
    }
}

/// A folder's name as a relative address.
fn address(name: &str) -> String {
    let plain = |b: u8| b.is_ascii_alphanumeric() || b"-_.~".contains(&b);
    let bytes = name.bytes();
    let encoded = bytes.map(|b| match plain(b) {
        true => char::from(b).to_string(),
        false => format!("%{b:02X}"),
    });
    format!("./{}", encoded.collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_no_markup_and_no_scheme() {
        assert_eq!(address("a b<c>"), "./a%20b%3Cc%3E");
        assert_eq!(address("javascript:x"), "./javascript%3Ax");
    }

    #[test]
    fn a_ratio_is_of_the_first() {
        let cell = |ns, first| {
            let mut text = String::new();
            ratio_cell(&mut text, ns, first);
            text
        };
        assert!(cell(Some(110), Some(100)).contains("class=\"more\""));
        assert!(cell(Some(100), Some(100)).ends_with(">1.000"));
        assert_eq!(cell(Some(1), None), "<td data-v=\"-1\">");
    }
}
