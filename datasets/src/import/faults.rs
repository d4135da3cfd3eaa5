//! Faults that an importer found, counted by kind with the first of each.

use std::collections::BTreeMap;
use std::path::Path;

use super::Imported;
use crate::error::{Error, Result};

/// Why a line gives no row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    /// A line that begins as comments do.
    Comment,
    /// A line that is not the file's syntax, as a torn or damaged one.
    Syntax,
    /// A line that lacks something, or has something impossible in it.
    Record,
    /// A time that is physically impossible, or that nobody waits for.
    Physics,
    /// The compressed file ends early or is damaged from here on.
    Cut,
}

impl Kind {
    fn words(self) -> &'static str {
        match self {
            Self::Comment => "comments",
            Self::Syntax => "damaged lines",
            Self::Record => "lines that are no record",
            Self::Physics => "records with an impossible time",
            Self::Cut => "the end of a damaged file",
        }
    }
}

/// A line that gives no row.
#[derive(Debug)]
pub(super) struct Fault {
    pub kind: Kind,
    pub detail: String,
}

impl Fault {
    /// Something is wrong with the record itself.
    pub fn record(detail: impl Into<String>) -> Self {
        Self {
            kind: Kind::Record,
            detail: detail.into(),
        }
    }
}

/// The faults of one file.
#[derive(Debug, Default)]
pub(super) struct Faults {
    strict: bool,
    /// The number of faults of each kind, with the line and detail of the first one.
    counts: BTreeMap<Kind, (u64, String, u64)>,
}

impl Faults {
    /// Starts without faults. If `strict`, the first fault is an error.
    pub fn new(strict: bool) -> Self {
        Self {
            strict,
            counts: BTreeMap::new(),
        }
    }

    /// Counts a fault.
    ///
    /// # Errors
    /// Fails with the fault itself if the import is strict.
    pub fn add(&mut self, path: &Path, line: u64, fault: Fault) -> Result<()> {
        if self.strict && fault.kind != Kind::Comment {
            return Err(at(path, line, shown(&fault.detail)));
        }
        let entry = self
            .counts
            .entry(fault.kind)
            .or_insert_with(|| (line, shown(&fault.detail), 0));
        entry.2 += 1;
        Ok(())
    }

    /// Adds the counts to the imported rows.
    ///
    /// # Errors
    /// Fails with the first fault if the file has nothing else: it is probably another file.
    pub fn finish(self, path: &Path, mut imported: Imported) -> Result<Imported> {
        let nothing = imported.rows.is_empty() && imported.left_out.is_empty();
        let first = self.counts.iter().filter(|(k, _)| **k != Kind::Physics);
        if let (true, Some((_, (line, detail, _)))) = (
            nothing,
            first.min_by_key(|(k, (line, ..))| (**k == Kind::Comment, *line)),
        ) {
            return Err(at(path, *line, detail.clone()));
        }
        for (kind, (line, detail, count)) in self.counts {
            let reason = format!("{} (first in line {line}: {detail})", kind.words());
            *imported.left_out.entry(reason).or_default() += count;
        }
        Ok(imported)
    }
}

/// Characters of a file's text that a message has at most.
const LONGEST_DETAIL: usize = 240;

/// A text from a file for use in a message: not too long, and without control characters for a terminal.
pub(super) fn shown(text: &str) -> String {
    let plain = |c: char| if c.is_control() { '\u{fffd}' } else { c };
    let mut shown: String = text.chars().take(LONGEST_DETAIL).map(plain).collect();
    if shown.len() < text.len() && text.chars().nth(LONGEST_DETAIL).is_some() {
        shown.push('…');
    }
    shown
}

fn at(path: &Path, line: u64, detail: String) -> Error {
    Error::Record {
        path: path.to_owned(),
        line,
        detail,
    }
}
