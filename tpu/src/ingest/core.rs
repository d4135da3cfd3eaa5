//! One core: its records in order, framed and bound to commands, still in ticks; then as events in ns.

use std::path::Path;

use crate::chip::{Chip, ChipSpec, Preamble};
use crate::error::Result;
use crate::ingest::clock::{Clocks, sync_place};
use crate::input::core::{CoreFile, read_core};
use crate::input::global::GlobalProfile;
use crate::input::nodes::{Command, CommandKind};
use crate::input::pmu::{bytes_moved, record_bytes};
use crate::matching::bind::{Binding, Bound, Stream as BindStream, bind};
use crate::matching::event::{Certainty, Event, Link, SyncGuess};
use crate::matching::order::{Ordered, Record, settle};
use crate::matching::sections::{Anchor, Fit};
use crate::matching::sync::{guess_dma, guess_tiu, preamble_len, trim_strays};
use crate::profile::CoreProfile;
use crate::report::{Engine, Fate, RecordNote, Report, Severity, Stream, StreamCounts, plural};

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
    bound: [Vec<Bound>; 3],
    /// Records at both ends that are outside the commands, per engine.
    outside: [(usize, usize); 3],
    /// Whether sync commands are to be guessed, per engine.
    guess: [bool; 3],
    /// The TIU record whose end all cores share.
    pub sync_record: Option<Record>,
    /// That moment in ns.
    pub sync_ns: Option<f64>,
    /// SDMA records that anchor CDMA ports.
    pub port_anchors: Vec<Record>,
    /// Findings.
    pub report: Report,
}

/// A core on the common clock.
pub(super) struct TimedCore {
    /// The core.
    pub profile: CoreProfile,
    /// What was taken from its times.
    pub shift_ns: f64,
    /// SDMA records that anchor CDMA ports: their ends in ns, by the core's own time.
    pub port_anchor_ends_ns: Vec<i64>,
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
        note_order(&ordered, chip, &parts.file, &mut counts, &mut parts.report);
        check_count(global, spec, &counts, ordered.lapped, &mut parts.report);
        let lapped = ordered.lapped;
        let mut records = ordered.records;
        drop_impossible_counters(
            chip,
            spec,
            engine,
            &parts.file,
            &mut records,
            &mut counts,
            &mut parts.report,
        );
        if engine == Engine::Sdma {
            let gdma = Engine::Gdma.slot();
            let other: Vec<&Record> = parts.preamble[gdma]
                .iter()
                .chain(&parts.records[gdma])
                .collect();
            if let (Some(first), Some(last)) = (other.first(), other.last()) {
                let window = (first.start, last.end);
                drop_beyond(window, &mut records, &mut counts, &mut parts.report);
            }
        }
        let commands = take_commands(&mut parts.file, engine, global, spec);
        let preamble = if lapped {
            0
        } else {
            preamble_len(chip, &records, first_command(&commands))
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
            let last_section = last_section(&commands);
            for stray in trim_strays(chip, &mut records, last_section) {
                push_note(&mut parts.report, stream, Fate::Outside, &stray, 0);
                counts.outside += 1;
            }
            let place = sync_place(chip, global.bmodel);
            parts.sync_record = match spec.preamble {
                _ if lapped => None,
                Preamble::SyncPair => parts.preamble[slot].get(place).copied(),
                _ => records.get(place).copied(),
            };
        }
        let mut skip_commands = 0;
        if engine == Engine::Sdma && !global.bmodel && number + 1 == spec.cores {
            let anchors = live_ports.min(records.len());
            parts.port_anchors = records.drain(..anchors).collect();
            counts.preamble += anchors as u64;
            skip_commands = anchors;
        }
        let (bound, outside) = bind_engine(
            chip,
            engine,
            &parts.file,
            &mut records,
            &commands,
            skip_commands,
            global.bmodel,
            lapped,
            &mut counts,
            &mut parts.report,
        );
        parts.guess[slot] =
            !global.bmodel || !commands.descriptors.is_empty() || !commands.nodes.is_empty();
        parts.bound[slot] = bound;
        parts.outside[slot] = outside;
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

struct Commands {
    descriptors: Vec<Command>,
    nodes: Vec<Command>,
}

fn take_commands(
    file: &mut CoreFile,
    engine: Engine,
    global: &GlobalProfile,
    spec: &ChipSpec,
) -> Commands {
    let lists = std::mem::take(&mut file.commands[engine.slot()]);
    let mut nodes = lists.nodes;
    nodes.drain(..spec.preamble_len().min(nodes.len()));
    Commands {
        descriptors: if global.bmodel {
            lists.descriptors
        } else {
            Vec::new()
        },
        nodes,
    }
}

/// Id of the first command, if there are any.
fn first_command(commands: &Commands) -> Option<u32> {
    commands
        .descriptors
        .first()
        .or(commands.nodes.first())
        .map(|command| command.id)
}

/// Commands in the last section, if there are any.
fn last_section(commands: &Commands) -> Option<u64> {
    let list = if commands.descriptors.is_empty() {
        &commands.nodes
    } else {
        &commands.descriptors
    };
    let last = list.last()?;
    Some(match last.kind {
        CommandKind::Reference { count, .. } => u64::from(count),
        _ => u64::from(last.id) + 1,
    })
}

#[allow(clippy::too_many_arguments)]
fn bind_engine(
    chip: Chip,
    engine: Engine,
    file: &CoreFile,
    records: &mut [Record],
    commands: &Commands,
    skip_commands: usize,
    bmodel: bool,
    lapped: bool,
    counts: &mut StreamCounts,
    report: &mut Report,
) -> (Vec<Bound>, (usize, usize)) {
    let nodes = &commands.nodes[skip_commands.min(commands.nodes.len())..];
    let anchor = if lapped { Anchor::End } else { Anchor::Start };
    let stream = BindStream {
        chip,
        engine,
        core: file,
        record_file: &file.file,
        base: 0,
        anchor,
        fit: Fit::Partial,
    };
    if commands.descriptors.is_empty() && nodes.is_empty() {
        let none = Bound {
            certainty: Certainty::NoCommands,
            ..Bound::UNMATCHED
        };
        return (vec![none; records.len()], (0, 0));
    }
    let first = if commands.descriptors.is_empty() {
        nodes
    } else {
        &commands.descriptors
    };
    let mut binding = bind(&stream, records, first);
    note_binding(&binding, counts, report, lapped);
    if !commands.descriptors.is_empty() && !nodes.is_empty() {
        // A compiled model with parts sent at run time: what the descriptors left goes to the nodes.
        let places: Vec<usize> = (0..records.len())
            .filter(|&i| binding.bound[i].link == Link::None)
            .collect();
        let mut left: Vec<Record> = places.iter().map(|&i| records[i]).collect();
        let second = bind(&stream, &mut left, nodes);
        note_binding(&second, counts, report, lapped);
        for (&place, bound) in places.iter().zip(&second.bound) {
            binding.bound[place] = *bound;
        }
        return (binding.bound, (0, 0));
    }
    // Whole sections before and after everything that has commands are not of the program.
    let framed = bmodel || engine == Engine::Tiu;
    let any = binding.bound.iter().any(|b| b.link != Link::None);
    let outside = if framed && any {
        (binding.before, binding.after)
    } else {
        (0, 0)
    };
    (binding.bound, outside)
}

fn note_binding(binding: &Binding, counts: &mut StreamCounts, report: &mut Report, lapped: bool) {
    counts.commands += binding.commands;
    let missing = binding.commands - binding.commands_used.min(binding.commands);
    counts.commands_without_record += missing;
    if missing > 0 {
        let at: Vec<String> = binding
            .gaps
            .iter()
            .take(5)
            .map(|&(id, n)| {
                if n == 1 {
                    format!("{id}")
                } else {
                    format!("{id}–{}", u64::from(id) + n - 1)
                }
            })
            .collect();
        let mut text = format!("{} without a record", plural(missing, "command"));
        if !at.is_empty() {
            let more = binding.gaps.len().saturating_sub(5);
            text += &format!(
                "; missing ids: {}{}",
                at.join(", "),
                if more > 0 {
                    format!(" and {more} more places")
                } else {
                    String::new()
                }
            );
        }
        if lapped {
            text += "; the ring lapped";
        }
        report.add(Severity::Loss, "records_lost", counts.stream, missing, text);
    }
    if !binding.mended.is_empty() {
        let text = format!(
            "{} whose id does not fit between its neighbours'; taken by their place",
            plural(binding.mended.len() as u64, "record")
        );
        report.add(
            Severity::Loss,
            "id_mended",
            counts.stream,
            binding.mended.len() as u64,
            text,
        );
    }
    if binding.contradictions > 0 {
        let text = format!(
            "counters of {} contradict its command",
            plural(binding.contradictions, "record")
        );
        report.add(
            Severity::Loss,
            "contradiction",
            counts.stream,
            binding.contradictions,
            text,
        );
    }
}

fn push_note(report: &mut Report, stream: Stream, fate: Fate, record: &Record, bytes: u64) {
    let id = u64::from(record.id);
    report.records.push(RecordNote {
        stream,
        fate,
        id,
        offset: record.offset,
        cycles: record.cycles(),
        bytes,
    });
}

fn note_order(
    ordered: &Ordered,
    chip: Chip,
    file: &CoreFile,
    counts: &mut StreamCounts,
    report: &mut Report,
) {
    let stream = counts.stream;
    for (record, fate) in &ordered.notes {
        let raw = file
            .file
            .slice(record.offset, record_bytes(chip, stream.engine));
        push_note(
            report,
            stream,
            *fate,
            record,
            bytes_moved(chip, stream.engine, raw),
        );
        match fate {
            Fate::Duplicate => counts.duplicates += 1,
            Fate::Moved => counts.moved += 1,
            _ => counts.implausible += 1,
        }
    }
    if counts.duplicates > 0 {
        let text = format!(
            "{} that stood there already, left out",
            plural(counts.duplicates, "record")
        );
        report.add(
            Severity::Loss,
            "duplicates",
            stream,
            counts.duplicates,
            text,
        );
    }
    if counts.moved > 0 {
        let text = format!(
            "{} out of order, put where the times say",
            plural(counts.moved, "record")
        );
        report.add(Severity::Loss, "out_of_order", stream, counts.moved, text);
    }
    if counts.implausible > 0 {
        let text = format!(
            "{} whose times contradict all around, left out",
            plural(counts.implausible, "record")
        );
        report.add(
            Severity::Loss,
            "implausible",
            stream,
            counts.implausible,
            text,
        );
    }
    if ordered.lapped {
        let text = "the record ring lapped: only the latest records survive; profile with a larger max_record_num \
                    (PROFILE_RECORD_SIZE)"
            .to_string();
        report.add(Severity::Loss, "ring_lapped", stream, 1, text);
    }
}

fn check_count(
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
        report.add(
            Severity::Loss,
            "count_mismatch",
            stream,
            counts.records.abs_diff(expected),
            format!(
                "global.profile says {}, the file has {}",
                plural(expected, "record"),
                counts.records
            ),
        );
    }
    if expected == 1 && strays == 0 {
        let text = "global.profile says 1 record; records come in pairs, so the dump is incomplete"
            .to_string();
        report.add(Severity::Loss, "count_of_one", stream, 1, text);
    }
    if expected == 0 && counts.records == 0 {
        report.add(
            Severity::Note,
            "idle",
            stream,
            0,
            "no records: the engine was idle".to_string(),
        );
    }
}

/// Leaves out records whose counters say that more bytes moved than four buses could.
fn drop_impossible_counters(
    chip: Chip,
    spec: &ChipSpec,
    engine: Engine,
    file: &CoreFile,
    records: &mut Vec<Record>,
    counts: &mut StreamCounts,
    report: &mut Report,
) {
    if engine == Engine::Tiu {
        return;
    }
    let size = record_bytes(chip, engine);
    let before = records.len();
    records.retain(|record| {
        let bytes = bytes_moved(chip, engine, file.file.slice(record.offset, size));
        let possible =
            bytes <= (record.cycles() + 1024).saturating_mul(spec.bus_bytes_per_cycle * 4);
        if !possible {
            push_note(report, counts.stream, Fate::Implausible, record, bytes);
        }
        possible
    });
    let dropped = (before - records.len()) as u64;
    if dropped > 0 {
        counts.implausible += dropped;
        let text = format!(
            "{} with more bytes than the bus can move in its time, left out",
            plural(dropped, "record")
        );
        report.add(Severity::Loss, "implausible", counts.stream, dropped, text);
    }
}

/// Leaves out SDMA records that lie farther from the core's GDMA records than these reach: their clock is damaged.
fn drop_beyond(
    (first, last): (i64, i64),
    records: &mut Vec<Record>,
    counts: &mut StreamCounts,
    report: &mut Report,
) {
    let slack = (last - first).max(1_000_000);
    let before = records.len();
    records.retain(|record| {
        let near = record.start >= first - slack && record.end <= last + slack;
        if !near {
            push_note(report, counts.stream, Fate::Implausible, record, 0);
        }
        near
    });
    let dropped = (before - records.len()) as u64;
    if dropped > 0 {
        counts.implausible += dropped;
        let text = format!(
            "{} far outside the time of the core's other engines, left out",
            plural(dropped, "record")
        );
        report.add(Severity::Loss, "implausible", counts.stream, dropped, text);
    }
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

/// Puts the cores on one clock, and makes events of their records.
pub(super) fn to_profiles(
    parts: Vec<CoreParts>,
    clocks: &Clocks,
    report: &mut Report,
) -> Vec<TimedCore> {
    let base_ns = parts.iter().find_map(|part| part.sync_ns);
    let mut scope_base = 0;
    let mut cores = Vec::with_capacity(parts.len());
    for mut part in parts {
        let anchor = part.sync_ns.unwrap_or(0.0);
        // Rounded like any time, so that whole ns stay whole.
        let shift_ns = match (part.sync_ns, base_ns) {
            (Some(sync), Some(base)) => sync.round_ties_even() - base.round_ties_even(),
            _ => 0.0,
        };
        let mut events: [Vec<Event>; 3] = Default::default();
        for engine in Engine::OF_CORE {
            let slot = engine.slot();
            events[slot] = make_events(&mut part, engine, clocks, anchor, shift_ns as i64);
        }
        let port_anchor_ends_ns = part
            .port_anchors
            .iter()
            .map(|record| clocks.ns(Engine::Sdma, record.end, anchor))
            .collect();
        report.merge(std::mem::take(&mut part.report));
        let scopes = part.file.scopes.len() as u32;
        cores.push(TimedCore {
            profile: CoreProfile {
                number: part.file.number,
                file: part.file,
                events,
                scope_base,
            },
            shift_ns,
            port_anchor_ends_ns,
        });
        scope_base += scopes;
    }
    cores
}

fn make_events(
    part: &mut CoreParts,
    engine: Engine,
    clocks: &Clocks,
    anchor: f64,
    shift_ns: i64,
) -> Vec<Event> {
    let slot = engine.slot();
    let chip_file = &part.file;
    let mut events: Vec<Event> = part.records[slot]
        .iter()
        .zip(&part.bound[slot])
        .map(|(record, bound)| Event {
            start_ns: clocks.ns(engine, record.start, anchor) - shift_ns,
            end_ns: clocks.ns(engine, record.end, anchor) - shift_ns,
            cycles: record.cycles(),
            id: record.id,
            offset: record.offset,
            link: bound.link,
            tags: bound.tags,
            sync: SyncGuess::None,
            certainty: bound.certainty,
            core: Some(chip_file.number),
        })
        .collect();
    if part.guess[slot] {
        match engine {
            Engine::Tiu => guess_tiu(chip_file.chip, &chip_file.file, &mut events),
            _ => guess_dma(chip_file.chip, engine, &chip_file.file, &mut events),
        }
    }
    let (before, after) = part.outside[slot];
    let mut moved_bytes = 0;
    let stream = Stream {
        engine,
        number: chip_file.number,
    };
    let size = record_bytes(chip_file.chip, engine);
    let tail = events.len() - after;
    for event in events[..before].iter().chain(&events[tail..]) {
        let bytes = bytes_moved(
            chip_file.chip,
            engine,
            chip_file.file.slice(event.offset, size),
        );
        moved_bytes += bytes;
        part.report.records.push(RecordNote {
            stream,
            fate: Fate::Outside,
            id: u64::from(event.id),
            offset: event.offset,
            cycles: event.cycles,
            bytes,
        });
    }
    if let Some(counts) = part.report.streams.iter_mut().find(|s| s.stream == stream) {
        counts.outside += (before + after) as u64;
    }
    if moved_bytes > 0 {
        let text = format!(
            "{} before and after the program's commands left out; they moved {moved_bytes} bytes (inputs and outputs)",
            plural((before + after) as u64, "record")
        );
        part.report.add(
            Severity::Note,
            "outside",
            stream,
            (before + after) as u64,
            text,
        );
    }
    events.truncate(tail);
    events.drain(..before);
    for event in &mut events {
        if event.link != Link::None {
            event.sync = SyncGuess::None;
        }
    }
    events
}
