//! Several dumps on one page: `comparison.html`, with totals and operators side by side, each against the first dump.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use opreport::page::{Section, end_page, section_html, titled_head};
use opreport::units;

use crate::analysis::rollup::{Filter, Grouping, roll_up};
use crate::analysis::summary::Summary;
use crate::error::{Result, io_at};
use crate::profile::Profile;
use crate::report::Engine;

/// Facts kept of a dump, so that its events can be freed.
#[derive(Debug, Clone)]
pub struct Side {
    /// Folder of its files, within that of the page.
    folder: String,
    chip: String,
    summary: Summary,
    /// A summary of its losses, if there are any.
    headline: Option<String>,
    /// Total time in ns of each operator.
    operators: BTreeMap<(String, Option<Engine>), i64>,
}

impl Side {
    /// The side of a profile whose files are in `folder`.
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

/// Writes the page with at most `top` operators, the largest differences first. `unread` are the dumps that could not
/// be read.
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

fn page(sides: &[Side], unread: &[PathBuf], top: usize) -> String {
    let mut page = titled_head("TPU dumps compared");
    page.push_str(&section_html(&totals(sides, unread)));
    page.push_str(&section_html(&operators(sides, top)));
    end_page(&mut page);
    page
}

fn totals(sides: &[Side], unread: &[PathBuf]) -> Section {
    let first = sides.first().map(|side| side.summary.total_ns);
    let row = |side: &Side| {
        let share = |share: f64| format!("{:.2} %", share * 100.0);
        let total = Some(side.summary.total_ns);
        vec![
            side.folder.clone(),
            side.chip.clone(),
            time(total),
            ratio(total, first),
            share(side.summary.tiu_working_ratio),
            share(side.summary.parallelism),
            side.headline.clone().unwrap_or_default(),
        ]
    };
    let head = "dump|chip, mode|#total|#of the first|#TIU|#parallelism|lost";
    let mut section = Section::new("Totals").table(head, sides.iter().map(row).collect());
    let addresses = sides.iter().map(|side| address(&side.folder));
    section.links = addresses.map(|to| format!("{to}/result.html")).collect();
    for dump in unread {
        section = section.says(format!("{} could not be read", dump.display()));
    }
    if sides.windows(2).any(|pair| pair[0].chip != pair[1].chip) {
        section = section.says("Chips or modes differ: the same command may have another name.");
    }
    section
}

fn operators(sides: &[Side], top: usize) -> Section {
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
    let mut head = vec!["operator".to_owned(), "engine".to_owned()];
    for (number, side) in sides.iter().enumerate() {
        head.push(format!("#{}", side.folder));
        head.extend((number > 0).then(|| "#of the first".to_owned()));
    }
    let rows = lines.iter().take(top).map(|((name, engine), times)| {
        let engine = engine.map_or("", Engine::name);
        let mut row = vec![name.clone(), engine.to_owned()];
        for (number, &own) in times.iter().enumerate() {
            row.push(time(own));
            row.extend((number > 0).then(|| ratio(own, times[0])));
        }
        row
    });
    let section = Section {
        head,
        rows: rows.collect(),
        ..Section::new("Operators, those that differ most first")
    };
    match lines.len().saturating_sub(top) {
        0 => section,
        more => section.says(format!("{more} more (--top)")),
    }
}

/// A time in ns; empty where the dump has none.
fn time(ns: Option<i64>) -> String {
    ns.map_or_else(String::new, |ns| units::time(ns as f64))
}

/// A time over the first dump's.
fn ratio(ns: Option<i64>, first: Option<i64>) -> String {
    match (ns, first) {
        (Some(ns), Some(first)) if first > 0 => format!("{:.3}", ns as f64 / first as f64),
        _ => String::new(),
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
        assert_eq!(ratio(Some(110), Some(100)), "1.100");
        assert_eq!(ratio(Some(1), None) + &ratio(None, Some(1)), "");
    }
}
