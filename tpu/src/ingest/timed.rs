//! Cores on one clock: their records as events in ns.

use crate::ingest::clock::Clocks;
use crate::ingest::core::CoreParts;
use crate::ingest::findings::note_event;
use crate::input::pmu::{bytes_moved, record_bytes};
use crate::matching::event::{Event, Link, SyncGuess};
use crate::matching::sync::{guess_dma, guess_tiu};
use crate::profile::CoreProfile;
use crate::report::{Engine, Fate, Report, Severity, Stream, plural};

/// A core on the common clock.
pub(super) struct TimedCore {
    /// The core.
    pub profile: CoreProfile,
    /// What was taken from its times.
    pub shift_ns: f64,
    /// SDMA records that anchor CDMA ports: their ends in ns, by the core's own time.
    pub port_anchor_ends_ns: Vec<i64>,
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
        let raw = chip_file.file.slice(event.offset, size);
        let bytes = bytes_moved(chip_file.chip, engine, raw);
        moved_bytes += bytes;
        note_event(&mut part.report, stream, Fate::Outside, event, bytes);
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
