//! The account of every run: what was read, matched, guessed, left over and damaged.
//!
//! Counts per core and engine, findings in words, and one note for each record that is not plainly matched. Owns no
//! policy but one: a finding of severity [`Severity::Loss`] means that numbers lack something (exit status 4, and an
//! error with `--strict`).

use std::fmt;

use opreport::units::plural;
use serde::Serialize;

/// An engine of a core, or a chip-to-chip port.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Engine {
    /// Tensor computing unit.
    Tiu,
    /// The core's DMA.
    Gdma,
    /// System DMA.
    Sdma,
    /// Chip-to-chip DMA.
    Cdma,
}

impl Engine {
    /// The engines of a core.
    pub const OF_CORE: [Engine; 3] = [Engine::Tiu, Engine::Gdma, Engine::Sdma];

    /// Name as in reports.
    pub fn name(self) -> &'static str {
        match self {
            Engine::Tiu => "TIU",
            Engine::Gdma => "GDMA",
            Engine::Sdma => "SDMA",
            Engine::Cdma => "CDMA",
        }
    }

    /// Number in RegInfo files.
    pub fn id(self) -> u32 {
        match self {
            Engine::Tiu => 0,
            Engine::Gdma => 1,
            Engine::Sdma => 3,
            Engine::Cdma => 4,
        }
    }

    /// Place in arrays over a core's engines (CDMA has none there and gives 3).
    pub fn slot(self) -> usize {
        self as usize
    }
}

impl fmt::Display for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The owner of a stream: an engine of a core, or a port.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
pub struct Stream {
    /// The engine.
    pub engine: Engine,
    /// The core's number as in its file name; the port's for CDMA.
    pub number: u32,
}

impl Stream {
    /// The stream of a core's engine, or of a port.
    pub const fn new(engine: Engine, number: u32) -> Stream {
        Stream { engine, number }
    }
}

impl fmt::Display for Stream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.engine {
            Engine::Cdma => write!(f, "CDMA port {}", self.number),
            engine => write!(f, "core {} {engine}", self.number),
        }
    }
}

/// Severity of a finding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Worth knowing; the numbers are whole.
    Note,
    /// Something is missing, doubtful or damaged.
    Loss,
}

/// Something found while reading a dump.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Finding {
    /// Its severity.
    pub severity: Severity,
    /// A word for scripts, e.g. `records_lost`.
    pub kind: &'static str,
    /// Place of the finding: a file, `core 3 GDMA`, …
    pub place: String,
    /// Number of records, commands or files that it is about.
    pub count: u64,
    /// A sentence, with a remedy if there is one.
    pub text: String,
}

/// The outcome of a record that is not plainly matched.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Fate {
    /// Kept, but no command is known for it.
    Unmatched,
    /// Kept with the likeliest of several commands.
    Guessed,
    /// Left out: the same record stands in the stream already.
    Duplicate,
    /// Kept, moved to the place that its time says.
    Moved,
    /// Left out: its times or its id contradict its neighbours.
    Implausible,
    /// Left out: before the first or after the last record of the profiled program.
    Outside,
}

/// One record that is not plainly matched.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RecordNote {
    /// The stream that it belongs to.
    pub stream: Stream,
    /// Its outcome.
    pub fate: Fate,
    /// Command id in the record.
    pub id: u64,
    /// Byte offset of the record in its file.
    pub offset: u64,
    /// Duration in clock cycles.
    pub cycles: u64,
    /// Bytes it moved, for DMA.
    pub bytes: u64,
}

/// Counts of one stream.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct StreamCounts {
    /// The stream that it belongs to.
    pub stream: Stream,
    /// Records that `global.profile` says were written.
    pub expected: Option<u64>,
    /// Records in the file.
    pub records: u64,
    /// Records of the preamble.
    pub preamble: u64,
    /// Records that kept their command.
    pub matched: u64,
    /// Records with a guessed command.
    pub guessed: u64,
    /// Records that were kept without a command, although commands were recorded.
    pub unmatched: u64,
    /// Records that were kept in a stream without recorded commands.
    pub without_commands: u64,
    /// Sync records and transfers outside the profiled program, left out.
    pub outside: u64,
    /// Records left out as duplicates.
    pub duplicates: u64,
    /// Records left out as implausible.
    pub implausible: u64,
    /// Kept records that were moved to their place in time.
    pub moved: u64,
    /// Commands recorded, without the preamble's.
    pub commands: u64,
    /// Commands without a record.
    pub commands_without_record: u64,
}

impl StreamCounts {
    /// Counts that are all zero.
    pub fn new(stream: Stream) -> StreamCounts {
        StreamCounts {
            stream,
            expected: None,
            records: 0,
            preamble: 0,
            matched: 0,
            guessed: 0,
            unmatched: 0,
            without_commands: 0,
            outside: 0,
            duplicates: 0,
            implausible: 0,
            moved: 0,
            commands: 0,
            commands_without_record: 0,
        }
    }
}

/// The account of one dump.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Report {
    /// Findings in the order in which they were made.
    pub findings: Vec<Finding>,
    /// One for each stream that has a file.
    pub streams: Vec<StreamCounts>,
    /// Records that are not plainly matched: the first [`NOTES`] of them.
    pub records: Vec<RecordNote>,
    /// Number of further records; the counts of the streams include them.
    pub records_not_listed: u64,
}

/// The kind of the finding that says which part of the time was kept.
pub(crate) const WINDOW: &str = "window";

/// Maximum number of records that are listed one by one. A longer list would not help, and would grow with the dump.
pub const NOTES: usize = 20_000;

impl Report {
    /// Adds a finding.
    pub fn add(
        &mut self,
        severity: Severity,
        kind: &'static str,
        place: impl fmt::Display,
        count: u64,
        text: String,
    ) {
        self.findings.push(Finding {
            severity,
            kind,
            place: place.to_string(),
            count,
            text,
        });
    }

    /// Adds a finding of something that is missing, doubtful or damaged.
    pub fn lose(&mut self, kind: &'static str, place: impl fmt::Display, count: u64, text: String) {
        self.add(Severity::Loss, kind, place, count, text);
    }

    /// Notes a record.
    pub fn note(&mut self, note: RecordNote) {
        if self.records.len() < NOTES {
            self.records.push(note);
        } else {
            self.records_not_listed += 1;
        }
    }

    /// Findings that mean a loss.
    pub fn losses(&self) -> impl Iterator<Item = &Finding> {
        self.findings
            .iter()
            .filter(|f| f.severity == Severity::Loss)
    }

    /// Whether nothing is missing or doubtful.
    pub fn is_whole(&self) -> bool {
        self.losses().next().is_none()
    }

    /// One line for the top of a report of a dump that is not whole.
    pub fn headline(&self) -> Option<String> {
        let count = self.losses().count() as u64;
        let first = self.losses().next()?;
        let more = match count - 1 {
            0 => String::new(),
            more => format!(" (and {} more, see report.json)", plural(more, "finding")),
        };
        Some(format!("NOT WHOLE: {}: {}{more}", first.place, first.text))
    }

    /// The part of the dump's time that was kept, if not all of it.
    pub fn window(&self) -> Option<&str> {
        let window = self.findings.iter().find(|f| f.kind == WINDOW)?;
        Some(&window.text)
    }

    /// Adds another account, of another file of the same dump.
    pub fn merge(&mut self, other: Report) {
        self.findings.extend(other.findings);
        self.streams.extend(other.streams);
        self.records_not_listed += other.records_not_listed;
        for note in other.records {
            self.note(note);
        }
    }
}
