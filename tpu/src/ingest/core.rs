//! One core: its records in order, framed and bound to commands, still in ticks.

use std::path::Path;

use crate::chip::{ChipSpec, Preamble};
use crate::error::Result;
use crate::ingest::clock::sync_place;
use crate::ingest::commands::Commands;
use crate::ingest::findings::{check_count, drop_impossible, note_fates, note_order, note_record};
use crate::input::core::{CoreFile, read_core};
use crate::input::global::GlobalProfile;
use crate::input::pmu::{bytes_moved, record_bytes};
use crate::matching::bind::Bound;
use crate::matching::order::{Record, settle};
use crate::matching::sync::{preamble_len, trim_strays};
use crate::report::{Engine, Fate, Report, Severity, Stream, StreamCounts, plural};

/// A core whose records are bound but have no common clock yet.
#[derive(Debug)]
pub(super) struct CoreParts {
    /// The file.
    pub file: CoreFile,
    /// Records without the preamble, per engine.
    pub records: [Vec<Record>; 3],
    /// Preamble records per engine.
    pub preamble: [Vec<Record>; 3],
    /// What each record was bound to.
    pub bound: [Vec<Bound>; 3],
    /// Records at both ends that are outside the commands, per engine.
    pub outside: [(usize, usize); 3],
    /// Whether sync commands are to be guessed, per engine.
    pub guess: [bool; 3],
    /// The TIU record whose end all cores share.
    pub sync_record: Option<Record>,
    /// That moment in ns.
    pub sync_ns: Option<f64>,
    /// SDMA records that anchor CDMA ports.
    pub port_anchors: Vec<Record>,
    /// Findings.
    pub report: Report,
}

/// Reads and binds one core.
pub(super) fn read(
    number: u32,
    path: &Path,
    global: &GlobalProfile,
    spec: &ChipSpec,
    live_ports: usize,
) -> Result<CoreParts> {
    let mut report = Report::default();
    let chip = global.chip;
    let mut file = read_core(chip, number, path, &mut report)?;
    let raw = std::mem::take(&mut file.records);
    let mut parts = CoreParts {
        file,
        records: Default::default(),
        preamble: Default::default(),
        bound: Default::default(),
        outside: Default::default(),
        guess: [false; 3],
        sync_record: None,
        sync_ns: None,
        port_anchors: Vec::new(),
        report,
    };
    for engine in Engine::OF_CORE {
        let slot = engine.slot();
        let stream = Stream { engine, number };
        let mut counts = StreamCounts::new(stream);
        counts.records = raw[slot].len() as u64;
        counts.expected = global.counts.get(&stream).copied();
        let ordered = settle(engine, &raw[slot]);
        let lapped = ordered.lapped;
        let file = &parts.file.file;
        note_fates(&ordered.notes, chip, file, &mut counts, &mut parts.report);
        note_order(lapped, &counts, &mut parts.report);
        check_count(global, spec, &counts, lapped, &mut parts.report);
        let mut records = ordered.records;
        if engine != Engine::Tiu {
            let size = record_bytes(chip, engine);
            drop_impossible(
                &mut records,
                &mut counts,
                &mut parts.report,
                "with more bytes than the bus can move in its time, left out",
                |record| {
                    let bytes = bytes_moved(chip, engine, file.slice(record.offset, size));
                    let cycles = record.cycles() + 1024;
                    let most = cycles.saturating_mul(spec.bus_bytes_per_cycle * 4);
                    if bytes <= most { Ok(()) } else { Err(bytes) }
                },
            );
        }
        if engine == Engine::Sdma {
            let gdma = Engine::Gdma.slot();
            let mut other = parts.preamble[gdma].iter().chain(&parts.records[gdma]);
            if let Some(first) = other.next() {
                let (start, end) = (first.start, other.next_back().unwrap_or(first).end);
                let slack = (end - start).max(1_000_000);
                drop_impossible(
                    &mut records,
                    &mut counts,
                    &mut parts.report,
                    "far outside the time of the core's other engines, left out",
                    |record| {
                        let near = record.start >= start - slack && record.end <= end + slack;
                        if near { Ok(()) } else { Err(0) }
                    },
                );
            }
        }
        let mut commands = Commands::take(&mut parts.file, engine, global, spec);
        let preamble = if lapped {
            0
        } else {
            preamble_len(chip, &records, commands.first_id())
        };
        counts.preamble = preamble as u64;
        let framed = spec.preamble_len();
        if preamble < framed && !lapped && !records.is_empty() {
            let lost = (framed - preamble) as u64;
            let text = format!(
                "{} missing of the pair that opens a profile",
                plural(lost, "record")
            );
            parts
                .report
                .add(Severity::Loss, "preamble_lost", stream, lost, text);
        }
        parts.preamble[slot] = records.drain(..preamble).collect();
        if engine == Engine::Tiu {
            for stray in trim_strays(chip, &mut records, commands.last_section()) {
                note_record(&mut parts.report, stream, Fate::Outside, &stray, 0);
                counts.outside += 1;
            }
            let place = sync_place(chip, global.bmodel);
            parts.sync_record = match spec.preamble {
                _ if lapped => None,
                Preamble::SyncPair => parts.preamble[slot].get(place).copied(),
                _ => records.get(place).copied(),
            };
        }
        let commands_known = commands.any();
        if engine == Engine::Sdma && !global.bmodel && number + 1 == spec.cores {
            let anchors = live_ports.min(records.len());
            parts.port_anchors = records.drain(..anchors).collect();
            counts.preamble += anchors as u64;
            commands.nodes.drain(..anchors.min(commands.nodes.len()));
        }
        let given = commands.give(
            &parts.file,
            &mut records,
            global,
            lapped,
            &mut counts,
            &mut parts.report,
        );
        parts.guess[slot] = !global.bmodel || commands_known;
        parts.bound[slot] = given.bound;
        parts.outside[slot] = given.outside;
        parts.records[slot] = records;
        parts.report.streams.push(counts);
    }
    for (engine, what) in [(Engine::Tiu, "TIU"), (Engine::Gdma, "GDMA")] {
        if !parts.file.present[engine.slot()] {
            let name = parts.file.file.name();
            let text = format!(
                "there is no block of {what} records; the file may be cut off between two blocks"
            );
            parts
                .report
                .add(Severity::Loss, "block_missing", name, 1, text);
        }
    }
    Ok(parts)
}

/// Engines that have records on some cores and none on others.
pub(super) fn check_across(parts: &[CoreParts], report: &mut Report) {
    for engine in Engine::OF_CORE {
        let slot = engine.slot();
        let total = |part: &CoreParts| part.records[slot].len() + part.preamble[slot].len();
        let present = parts.iter().filter(|part| total(part) > 0).count();
        for part in parts
            .iter()
            .filter(|part| total(part) == 0 && part.file.present[slot])
        {
            if present > 0
                && Engine::OF_CORE
                    .iter()
                    .any(|e| !part.records[e.slot()].is_empty())
            {
                let stream = Stream {
                    engine,
                    number: part.file.number,
                };
                let text = format!("no records, though {} other cores have some", present);
                report.add(Severity::Note, "no_records", stream, 0, text);
            }
        }
    }
}
