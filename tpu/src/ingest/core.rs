//! One core: its records in order, framed and bound to commands, still in ticks.

use std::collections::HashSet;
use std::path::Path;

use opreport::units::plural;

use crate::chip::{ChipSpec, Preamble};
use crate::error::Result;
use crate::ingest::clock::{Clocks, join_turns, sync_place};
use crate::ingest::commands::Commands;
use crate::ingest::findings::{
    check_count, drop_impossible, drop_unwritten, fits_bus, note_fates, note_order, note_record,
};
use crate::ingest::give::give;
use crate::ingest::timed::to_events;
use crate::input::core::{CoreFile, read_core};
use crate::input::global::GlobalProfile;
use crate::input::pmu::{RawRecord, record_bytes};
use crate::matching::bind::Bound;
use crate::matching::event::{Certainty, Link};
use crate::matching::order::{Record, settle};
use crate::matching::sync::{drop_late, preamble_len, trim_strays};
use crate::profile::EventList;
use crate::report::{Engine, Fate, Report, Severity, Stream, StreamCounts};

/// A core whose records are events already, by its own clock.
#[derive(Debug)]
pub(super) struct ReadCore {
    /// The file.
    pub file: CoreFile,
    /// Events of TIU, GDMA, SDMA.
    pub events: [EventList; 3],
    /// Whether each engine has records beside the preamble.
    pub works: [bool; 3],
    /// Records of each engine, the preamble's as well.
    pub total: [usize; 3],
    /// End of each engine's second preamble record in ns, the moment that other cores share.
    pub preamble_ns: [Option<f64>; 3],
    /// The synchronisation moment on the TIU's clock, in ns.
    pub sync_ns: Option<f64>,
    /// Ends of the SDMA records that anchor CDMA ports, in ns.
    pub port_anchor_ends_ns: Vec<i64>,
    /// Findings.
    pub report: Report,
}

impl ReadCore {
    fn certainty(&self, engine: Engine) -> Option<Certainty> {
        let first = self.events[engine.slot()].first();
        first.map(|event| event.certainty())
    }

    /// Whether there are command nodes, but none of an engine that has records.
    fn lacks_commands(&self, engine: Engine) -> bool {
        self.file.has_nodes && self.certainty(engine) == Some(Certainty::NoCommands)
    }

    /// Whether an engine has commands and records.
    fn knows(&self, engine: Engine) -> bool {
        self.certainty(engine)
            .is_some_and(|certainty| certainty != Certainty::NoCommands)
    }
}

/// A core while its records are bound, in ticks.
#[derive(Debug)]
pub(super) struct CoreParts {
    /// The file.
    pub file: CoreFile,
    /// Records without the preamble, per engine.
    pub records: [Vec<Record>; 3],
    /// Preamble records per engine.
    pub preamble: [Vec<Record>; 3],
    /// The binding of each record.
    pub bound: [Vec<Bound>; 3],
    /// Records at both ends that are outside the commands, per engine.
    pub outside: [(usize, usize); 3],
    /// Whether sync commands are to be guessed, per engine.
    pub guess: [bool; 3],
    /// The TIU record whose end all cores share.
    pub sync_record: Option<Record>,
    /// SDMA records that anchor CDMA ports.
    pub port_anchors: Vec<Record>,
    /// Findings.
    pub report: Report,
}

/// Facts that all cores of a dump share.
pub(super) struct Common<'a> {
    /// `global.profile`.
    pub global: &'a GlobalProfile,
    /// The chip.
    pub spec: &'static ChipSpec,
    /// The clocks.
    pub clocks: &'a Clocks,
    /// CDMA ports with records.
    pub live_ports: usize,
    /// Folder for files of events.
    pub scratch: &'a Path,
}

/// One engine's records in order, with facts about them.
pub(super) struct Stage {
    /// The engine that wrote them.
    pub stream: Stream,
    /// Counts of the records so far.
    pub counts: StreamCounts,
    /// Whether the ring had lapped.
    pub lapped: bool,
    /// Whether the first record may be of no command: the chip writes one before the program.
    pub begins_with_stray: bool,
    /// The engine's commands.
    pub commands: Commands,
}

/// Reads one core, and makes events of its records.
pub(super) fn read(number: u32, path: &Path, common: &Common) -> Result<ReadCore> {
    let parts = read_parts(number, path, common)?;
    parts.file.file.release();
    to_events(parts, common.clocks, common.scratch)
}

/// Reads and binds one core.
fn read_parts(number: u32, path: &Path, common: &Common) -> Result<CoreParts> {
    let mut report = Report::default();
    let mut file = read_core(common.spec.chip, number, path, &mut report)?;
    let mut raw = std::mem::take(&mut file.records);
    let mut parts = CoreParts {
        file,
        records: Default::default(),
        preamble: Default::default(),
        bound: Default::default(),
        outside: Default::default(),
        guess: [false; 3],
        sync_record: None,
        port_anchors: Vec::new(),
        report,
    };
    let mut stages = Engine::OF_CORE.map(|engine| {
        let raw = std::mem::take(&mut raw[engine.slot()]);
        order(engine, raw, &mut parts, common)
    });
    parts.file.file.release();
    drop_far(&mut parts, &mut stages[Engine::Sdma.slot()]);
    take_frames(&mut parts, &mut stages, common);
    join_turns(&mut parts, common.clocks);
    give(&mut parts, &mut stages, common);
    for mut stage in stages {
        drop_wild(&mut parts, &mut stage);
        parts.report.streams.push(stage.counts);
    }
    check_blocks(&mut parts);
    Ok(parts)
}

/// Brings an engine's records into order, without those that cannot be ordered.
fn order(engine: Engine, mut raw: Vec<RawRecord>, parts: &mut CoreParts, common: &Common) -> Stage {
    let Common { global, spec, .. } = *common;
    let chip = spec.chip;
    let stream = Stream::new(engine, parts.file.number);
    let mut counts = StreamCounts::new(stream);
    counts.records = raw.len() as u64;
    counts.expected = global.counts.get(&stream).copied();
    let size = record_bytes(chip, engine);
    let file = &parts.file.file;
    let report = &mut parts.report;
    let unwritten = drop_unwritten(&mut raw, file, size, &counts, report);
    let ordered = settle(engine, raw);
    let lapped = ordered.lapped;
    note_fates(&ordered.notes, chip, file, &mut counts, report);
    note_order(lapped, &counts, report);
    counts.implausible += unwritten;
    check_count(global, spec, &counts, lapped, report);
    let mut records = ordered.records;
    if engine != Engine::Tiu {
        drop_impossible(
            &mut records,
            &mut counts,
            report,
            "with more bytes than the bus can move in its time, left out",
            |record| {
                fits_bus(
                    spec,
                    engine,
                    file.slice(record.offset, size),
                    record.cycles(),
                )
            },
        );
    }
    parts.records[engine.slot()] = records;
    Stage {
        stream,
        counts,
        lapped,
        begins_with_stray: false,
        commands: Commands::take(&mut parts.file, engine, global, spec),
    }
}

/// Leaves out system DMA records far from the activity of the core's other engines, if their own neighbours contradict
/// them too.
fn drop_far(parts: &mut CoreParts, stage: &mut Stage) {
    const SLACK: i64 = 1_000_000;
    let gdma = &parts.records[Engine::Gdma.slot()];
    let (Some(first), Some(last)) = (gdma.first(), gdma.last()) else {
        return;
    };
    let slack = (last.end - first.start).max(SLACK);
    let (from, to) = (first.start - slack, last.end + slack);
    let slot = Engine::Sdma.slot();
    let mut records = std::mem::take(&mut parts.records[slot]);
    let far: HashSet<u64> = (0..records.len())
        .filter(|&i| records[i].start < from || records[i].end > to)
        .filter(|&i| !in_step(&records, i, SLACK))
        .map(|i| records[i].offset)
        .collect();
    drop_impossible(
        &mut records,
        &mut stage.counts,
        &mut parts.report,
        "far outside the time of the core's other engines and of their own neighbours, left out",
        |record| {
            if far.contains(&record.offset) {
                Err(0)
            } else {
                Ok(())
            }
        },
    );
    parts.records[slot] = records;
}

/// Whether a record starts and ends between its neighbours; the first and the last: no further from them than all the
/// others are long.
fn in_step(records: &[Record], at: usize, slack: i64) -> bool {
    let record = records[at];
    let before = at.checked_sub(1).map(|i| records[i]);
    match (before, records.get(at + 1)) {
        (Some(a), Some(b)) => a.start - slack <= record.start && record.end <= b.end + slack,
        (Some(a), None) => {
            let span = (a.end - records[0].start).max(slack);
            a.start - slack <= record.start && record.end - a.end <= span
        }
        (None, Some(b)) => {
            let span = (records[records.len() - 1].end - b.start).max(slack);
            record.end <= b.end + slack && b.start - record.start <= span
        }
        (None, None) => true,
    }
}

/// Takes off what frames the profile: the preamble, strays, and the records that anchor CDMA ports.
fn take_frames(parts: &mut CoreParts, stages: &mut [Stage; 3], common: &Common) {
    let Common {
        global,
        spec,
        clocks,
        live_ports,
        ..
    } = *common;
    let mut lengths = [0; 3];
    for (stage, length) in stages.iter().zip(&mut lengths) {
        if !stage.lapped {
            let records = &parts.records[stage.stream.engine.slot()];
            *length = preamble_len(spec.chip, records, stage.commands.first_id());
        }
    }
    let spans = Engine::OF_CORE.map(|engine| {
        let length = lengths[engine.slot()].checked_sub(1)?;
        let list = &parts.records[engine.slot()];
        let ns = |ticks| clocks.plain_ns(engine, ticks);
        Some((ns(list[0].start), ns(list[length].end)))
    });
    drop_late(&spans, &mut lengths);
    for stage in stages {
        let engine = stage.stream.engine;
        let slot = engine.slot();
        let records = &mut parts.records[slot];
        let framed = spec.preamble_len();
        let (preamble, counts) = (lengths[slot], &mut stage.counts);
        counts.preamble = preamble as u64;
        if preamble < framed && !stage.lapped && !records.is_empty() {
            let lost = (framed - preamble) as u64;
            let text = format!(
                "{} missing of the pair that opens a profile",
                plural(lost, "record")
            );
            let report = &mut parts.report;
            report.lose("preamble_lost", stage.stream, lost, text);
        }
        parts.preamble[slot] = records.drain(..preamble).collect();
        if engine == Engine::Tiu {
            let first = records.first().map(|record| record.offset);
            let strays = trim_strays(spec.chip, records, stage.commands.last_section());
            let kept = records.first().filter(|r| Some(r.offset) == first);
            // A ring that lapped has overwritten the preamble.
            stage.begins_with_stray = spec.preamble == Preamble::Strays
                && !stage.lapped
                && kept.is_some_and(|record| record.id > 0);
            for stray in strays {
                note_record(&mut parts.report, stage.stream, Fate::Outside, &stray, 0);
                counts.outside += 1;
            }
            let place = sync_place(spec.chip, global.bmodel);
            parts.sync_record = match spec.preamble {
                _ if stage.lapped => None,
                Preamble::SyncPair => parts.preamble[slot].get(place).copied(),
                _ => records.get(place).copied(),
            };
        }
        let anchors = engine == Engine::Sdma && !global.bmodel;
        if anchors && stage.stream.number + 1 == spec.cores {
            let anchors = live_ports.min(records.len());
            parts.port_anchors = records.drain(..anchors).collect();
            counts.preamble += anchors as u64;
            let nodes = &mut stage.commands.nodes;
            nodes.drain(..anchors.min(nodes.len()));
        }
    }
}

/// Leaves out records without command whose times are far from those with one.
fn drop_wild(parts: &mut CoreParts, stage: &mut Stage) {
    const LEAST: usize = 4;
    const FAR: i64 = 100;
    let slot = stage.stream.engine.slot();
    let bound = std::mem::take(&mut parts.bound[slot]);
    let mut records = std::mem::take(&mut parts.records[slot]);
    let sure = |b: &Bound| b.certainty == Certainty::Matched;
    let known = || {
        records
            .iter()
            .zip(&bound)
            .filter(|(_, b)| sure(b))
            .map(|(r, _)| r)
    };
    let span = known().next().zip(known().map(|r| r.end).max());
    let (first, last) = match span {
        Some((first, end)) if known().nth(LEAST).is_some() => (first.start, end),
        _ => (i64::MIN / 4, i64::MAX / 4),
    };
    let slack = (last - first).saturating_mul(FAR).min(i64::MAX / 4);
    let (before, after) = parts.outside[slot];
    let inner = before..records.len() - after;
    let wild = |(at, (r, b)): (usize, (&Record, &Bound))| {
        let far = r.start < first.saturating_sub(slack) || r.end > last.saturating_add(slack);
        (far && b.link == Link::None && inner.contains(&at)).then_some(r.offset)
    };
    let pairs = records.iter().zip(&bound).enumerate();
    let wild: HashSet<u64> = pairs.filter_map(wild).collect();
    let kept = records
        .iter()
        .zip(&bound)
        .filter(|(r, _)| !wild.contains(&r.offset));
    let bound: Vec<Bound> = kept.map(|(_, b)| *b).collect();
    drop_impossible(
        &mut records,
        &mut stage.counts,
        &mut parts.report,
        "without command and far from all that have one, left out",
        |record| {
            if wild.contains(&record.offset) {
                Err(0)
            } else {
                Ok(())
            }
        },
    );
    parts.records[slot] = records;
    parts.bound[slot] = bound;
}

/// Blocks that each core's file has.
fn check_blocks(parts: &mut CoreParts) {
    for (engine, what) in [(Engine::Tiu, "TIU"), (Engine::Gdma, "GDMA")] {
        if !parts.file.present[engine.slot()] {
            let name = parts.file.file.name();
            let text = format!(
                "there is no block of {what} records; the file may be cut off between two blocks"
            );
            parts.report.lose("block_missing", name, 1, text);
        }
    }
}

/// Engines that have records on some cores and none on others.
pub(super) fn check_across(cores: &[ReadCore], report: &mut Report) {
    for engine in Engine::OF_CORE {
        let slot = engine.slot();
        let present = cores.iter().filter(|core| core.total[slot] > 0).count() as u64;
        for core in cores {
            let idle = core.total[slot] == 0 && core.file.present[slot];
            if present > 0 && idle && core.works.contains(&true) {
                let stream = Stream::new(engine, core.file.number);
                let text = format!("no records, though {} some", others(present));
                report.add(Severity::Note, "no_records", stream, 0, text);
            }
            if core.lacks_commands(engine) && cores.iter().any(|other| other.knows(engine)) {
                let stream = Stream::new(engine, core.file.number);
                let text = "no commands of it among the nodes, unlike on other cores".to_string();
                report.lose("commands_missing", stream, 1, text);
            }
        }
    }
}

/// `1 other core has`, `2 other cores have`.
fn others(count: u64) -> String {
    let verb = if count == 1 { "has" } else { "have" };
    format!("{} {verb}", plural(count, "other core"))
}
