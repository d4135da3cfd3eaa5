//! Records' outcomes in the account: the same words and counts for cores and ports.

use opreport::units::plural;

use crate::chip::{Chip, ChipSpec, Preamble};
use crate::ingest::commands::first_gaps;
use crate::input::global::GlobalProfile;
use crate::input::pmu::{RawRecord, bytes_moved, bytes_reported, record_bytes};
use crate::input::source::SourceFile;
use crate::matching::bind::Binding;
use crate::matching::event::Event;
use crate::matching::order::Record;
use crate::report::{Engine, Fate, RecordNote, Report, Severity, Stream, StreamCounts};

/// Notes a record; `bytes` is what it moved.
pub(super) fn note_record(
    report: &mut Report,
    stream: Stream,
    fate: Fate,
    record: &Record,
    bytes: u64,
) {
    report.note(RecordNote {
        stream,
        fate,
        id: u64::from(record.id),
        offset: record.offset,
        cycles: record.cycles(),
        bytes,
    });
}

/// Notes an event; `bytes` is what it moved.
pub(super) fn note_event(
    report: &mut Report,
    stream: Stream,
    fate: Fate,
    event: &Event,
    bytes: u64,
) {
    report.note(RecordNote {
        stream,
        fate,
        id: u64::from(event.id),
        offset: event.offset(),
        cycles: event.cycles(),
        bytes,
    });
}

/// Notes records that were moved or left out, and counts them.
pub(super) fn note_fates(
    fates: &[(Record, Fate)],
    chip: Chip,
    file: &SourceFile,
    counts: &mut StreamCounts,
    report: &mut Report,
) {
    let stream = counts.stream;
    let size = record_bytes(chip, stream.engine);
    for (record, fate) in fates {
        let raw = file.slice(record.offset, size);
        let bytes = bytes_moved(chip, stream.engine, raw);
        note_record(report, stream, *fate, record, bytes);
        match fate {
            Fate::Duplicate => counts.duplicates += 1,
            Fate::Moved => counts.moved += 1,
            Fate::Outside => counts.outside += 1,
            _ => counts.implausible += 1,
        }
    }
}

/// A loss of this many records, if there is any.
pub(super) fn lose(
    report: &mut Report,
    kind: &'static str,
    stream: Stream,
    count: u64,
    text: &str,
) {
    if count > 0 {
        let text = format!("{} {text}", plural(count, "record"));
        report.lose(kind, stream, count, text);
    }
}

/// Reports the findings from ordering a core's records.
pub(super) fn note_order(lapped: bool, counts: &StreamCounts, report: &mut Report) {
    let stream = counts.stream;
    for (kind, count, text) in [
        (
            "duplicates",
            counts.duplicates,
            "that stood there already, left out",
        ),
        (
            "out_of_order",
            counts.moved,
            "out of order, put where the times say",
        ),
        (
            "implausible",
            counts.implausible,
            "whose times contradict all around, left out",
        ),
    ] {
        lose(report, kind, stream, count, text);
    }
    if lapped {
        let text = "the record ring lapped: only the latest records survive; profile with a larger max_record_num \
                    (PROFILE_RECORD_SIZE)"
            .to_string();
        report.lose("ring_lapped", stream, 1, text);
    }
}

/// Reports that a file's number of records differs from `global.profile`.
pub(super) fn note_mismatch(expected: u64, counts: &StreamCounts, report: &mut Report) {
    let text = format!(
        "global.profile says {}, the file has {}",
        plural(expected, "record"),
        counts.records
    );
    let by = counts.records.abs_diff(expected);
    report.lose("count_mismatch", counts.stream, by, text);
}

/// Compares a core's records with `global.profile`.
pub(super) fn check_count(
    global: &GlobalProfile,
    spec: &ChipSpec,
    counts: &StreamCounts,
    lapped: bool,
    report: &mut Report,
) {
    let Some(expected) = counts.expected else {
        return;
    };
    let stream = counts.stream;
    // Strays are written by the hardware and may not be counted by the runtime.
    let strays = if spec.preamble == Preamble::Strays && stream.engine == Engine::Tiu {
        2
    } else {
        0
    };
    let full = lapped && global.max_records.is_some_and(|max| counts.records >= max);
    if counts.records < expected && !full || counts.records > expected + strays {
        note_mismatch(expected, counts, report);
    }
    if expected == 1 && strays == 0 {
        let text = "global.profile says 1 record; records come in pairs, so the dump is incomplete"
            .to_string();
        report.lose("count_of_one", stream, 1, text);
    }
    if expected == 0 && counts.records == 0 {
        let text = "no records: the engine was idle".to_string();
        report.add(Severity::Note, "idle", stream, 0, text);
    }
}

/// Leaves out impossible records; `text` gives the reason.
pub(super) fn drop_impossible(
    records: &mut Vec<Record>,
    counts: &mut StreamCounts,
    report: &mut Report,
    text: &str,
    possible: impl Fn(&Record) -> Result<(), u64>,
) {
    let before = records.len();
    records.retain(|record| match possible(record) {
        Ok(()) => true,
        Err(bytes) => {
            note_record(report, counts.stream, Fate::Implausible, record, bytes);
            false
        }
    });
    let dropped = (before - records.len()) as u64;
    counts.implausible += dropped;
    lose(report, "implausible", counts.stream, dropped, text);
}

/// Leaves out records that were never written: all their bytes are equal, 0 or 255. Returns their number.
pub(super) fn drop_unwritten(
    raw: &mut Vec<RawRecord>,
    file: &SourceFile,
    size: usize,
    counts: &StreamCounts,
    report: &mut Report,
) -> u64 {
    let blank = |r: &RawRecord| {
        let ends = (r.start, r.end) == (0, 0) || (r.start, r.end) == (u32::MAX, u32::MAX);
        let bytes = file.slice(r.offset, size);
        ends && bytes.iter().all(|&b| b == bytes[0])
    };
    let before = raw.len();
    raw.retain(|r| {
        let unwritten = blank(r);
        if unwritten {
            let record = Record {
                start: i64::from(r.start),
                end: i64::from(r.end),
                id: r.id,
                offset: r.offset,
            };
            note_record(report, counts.stream, Fate::Implausible, &record, 0);
        }
        !unwritten
    });
    let dropped = (before - raw.len()) as u64;
    let text = "that was never written (all of its bytes are the same), left out";
    lose(report, "never_written", counts.stream, dropped, text);
    dropped
}

/// Whether a DMA record moved no more than the bus can in its time; the bytes if it did. The limit is four times the
/// bus, because the bytes may include counters of both ends and bursts that began before.
pub(super) fn fits_bus(
    spec: &ChipSpec,
    engine: Engine,
    record: &[u8],
    cycles: u64,
) -> Result<(), u64> {
    const SLACK_CYCLES: u64 = 1024;
    let bytes = bytes_reported(spec.chip, engine, record);
    let most = (cycles + SLACK_CYCLES).saturating_mul(spec.bus_bytes_per_cycle * 4);
    if bytes <= most { Ok(()) } else { Err(bytes) }
}

/// Says which ids are missing in a stream without commands: there each section counts from 0, the first from `first`.
pub(super) fn note_gaps(
    spec: &ChipSpec,
    records: &[Record],
    first: u32,
    stream: Stream,
    report: &mut Report,
) {
    let mut gaps = Vec::new();
    let mut expected = first;
    // The stray record at the end has an id of its own.
    let stray = spec.preamble == Preamble::Strays && stream.engine == Engine::Tiu;
    let counted = records.len() - usize::from(stray && !records.is_empty());
    for record in &records[..counted] {
        if record.id < expected {
            expected = 0;
        }
        if record.id > expected {
            gaps.push((expected, u64::from(record.id - expected)));
        }
        expected = record.id.saturating_add(1);
    }
    let missing = gaps.iter().map(|g| g.1).sum();
    if let Some(ids) = first_gaps(&gaps) {
        let text = format!("{} missing; ids: {ids}", plural(missing, "record"));
        report.lose("records_lost", stream, missing, text);
    }
}

/// Reports the findings from matching records with commands.
pub(super) fn note_binding(
    binding: &Binding,
    counts: &mut StreamCounts,
    report: &mut Report,
    lapped: bool,
) {
    let stream = counts.stream;
    counts.commands += binding.commands;
    let missing = binding.commands - binding.commands_used.min(binding.commands);
    counts.commands_without_record += missing;
    if missing > 0 {
        let mut text = format!("{} without a record", plural(missing, "command"));
        if let Some(ids) = first_gaps(&binding.gaps) {
            text += &format!("; missing ids: {ids}");
        }
        if lapped {
            text += "; the ring lapped";
        }
        report.lose("records_lost", stream, missing, text);
    }
    if binding.resets_lost > 0 {
        let text = format!(
            "{} of ids missing among the commands; put where the records' ids fall",
            plural(binding.resets_lost, "reset")
        );
        report.lose("resets_lost", stream, binding.resets_lost, text);
    }
    lose(
        report,
        "id_mended",
        stream,
        binding.mended.len() as u64,
        "whose id does not fit between its neighbours'; taken by their place",
    );
    lose(
        report,
        "contradiction",
        stream,
        binding.contradictions,
        "whose counters contradict the command",
    );
}
