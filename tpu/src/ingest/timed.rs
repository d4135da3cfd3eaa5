//! A core's records as events in ns, by the core's own clock; then the clocks of all cores brought together.

use std::path::Path;

use opreport::units::plural;

use crate::error::Result;
use crate::ingest::clock::Clocks;
use crate::ingest::core::{CoreParts, ReadCore};
use crate::ingest::findings::note_event;
use crate::input::pmu::{bytes_moved, record_bytes};
use crate::matching::event::{Event, Link, SyncGuess};
use crate::matching::sync::{guess_dma, guess_tiu};
use crate::profile::{CoreProfile, EventList};
use crate::report::{Engine, Fate, Report, Severity, Stream};

/// A core on the common clock.
pub(super) struct TimedCore {
    /// The core.
    pub profile: CoreProfile,
    /// The shift subtracted from its times.
    pub shift_ns: i64,
    /// SDMA records that anchor CDMA ports: their ends in ns, by the core's own time.
    pub port_anchor_ends_ns: Vec<i64>,
}

/// Makes events of a core's records.
pub(super) fn to_events(mut parts: CoreParts, clocks: &Clocks, scratch: &Path) -> Result<ReadCore> {
    let sync_ns = parts
        .sync_record
        .map(|record| clocks.plain_ns(Engine::Tiu, record.end));
    // With other clocks durations are stretched around the sync record; without one around where the core begins.
    let starts = Engine::OF_CORE.into_iter().filter_map(|engine| {
        let first = parts.records[engine.slot()].first()?;
        Some(clocks.plain_ns(engine, first.start))
    });
    let anchor = sync_ns
        .or_else(|| starts.min_by(f64::total_cmp))
        .unwrap_or(0.0);
    let total = Engine::OF_CORE.map(|engine| {
        let slot = engine.slot();
        parts.records[slot].len() + parts.preamble[slot].len()
    });
    let works = parts.records.each_ref().map(|list| !list.is_empty());
    let preamble_ns = Engine::OF_CORE.map(|engine| {
        let second = parts.preamble[engine.slot()].get(1)?;
        Some(clocks.plain_ns(engine, second.end))
    });
    let port_anchor_ends_ns = parts
        .port_anchors
        .iter()
        .map(|record| clocks.ns(Engine::Sdma, record.end, anchor))
        .collect();
    let mut events = [EventList::empty(), EventList::empty(), EventList::empty()];
    for engine in Engine::OF_CORE {
        let made = make_events(&mut parts, engine, clocks, anchor);
        events[engine.slot()] = EventList::new(made, scratch)?;
        events[engine.slot()].release();
        parts.file.file.release();
    }
    Ok(ReadCore {
        file: parts.file,
        events,
        works,
        total,
        preamble_ns,
        sync_ns,
        port_anchor_ends_ns,
        report: parts.report,
    })
}

/// Numbers the kernel launches of all cores and says by how much each core's clock is ahead of the first one's.
pub(super) fn to_profiles(cores: Vec<ReadCore>, report: &mut Report) -> Vec<TimedCore> {
    let base_ns = cores.iter().find_map(|core| core.sync_ns);
    let mut scope_base = 0;
    let mut timed = Vec::with_capacity(cores.len());
    for core in cores {
        // Rounded like any time, so that whole ns stay whole.
        let shift_ns = match (core.sync_ns, base_ns) {
            (Some(sync), Some(base)) => sync.round_ties_even() - base.round_ties_even(),
            _ => 0.0,
        };
        report.merge(core.report);
        let scopes = core.file.scopes.len() as u32;
        timed.push(TimedCore {
            profile: CoreProfile {
                number: core.file.number,
                file: core.file,
                events: core.events,
                scope_base,
            },
            shift_ns: shift_ns as i64,
            port_anchor_ends_ns: core.port_anchor_ends_ns,
        });
        scope_base += scopes;
    }
    timed
}

fn make_events(part: &mut CoreParts, engine: Engine, clocks: &Clocks, anchor: f64) -> Vec<Event> {
    let slot = engine.slot();
    let (records, bound) = (
        std::mem::take(&mut part.records[slot]),
        std::mem::take(&mut part.bound[slot]),
    );
    let file = &part.file;
    let ns = |ticks: i64| clocks.ns(engine, ticks, anchor);
    let mut events: Vec<Event> = records
        .iter()
        .zip(&bound)
        .map(|(record, bound)| {
            let times = (ns(record.start), ns(record.end));
            Event::new(times, record, bound, Some(file.number))
        })
        .collect();
    drop((records, bound));
    if part.guess[slot] {
        match engine {
            Engine::Tiu => guess_tiu(file.chip, &file.file, &mut events),
            _ => guess_dma(file.chip, engine, &file.file, &mut events),
        }
    }
    let (before, after) = part.outside[slot];
    let stream = Stream::new(engine, file.number);
    let tail = events.len() - after;
    let mut moved_bytes = 0;
    let size = record_bytes(file.chip, engine);
    for event in events[..before].iter().chain(&events[tail..]) {
        let raw = file.file.slice(event.offset(), size);
        let bytes = bytes_moved(file.chip, engine, raw);
        moved_bytes += bytes;
        note_event(&mut part.report, stream, Fate::Outside, event, bytes);
    }
    let outside = (before + after) as u64;
    if let Some(counts) = part.report.streams.iter_mut().find(|s| s.stream == stream) {
        counts.outside += outside;
    }
    if moved_bytes > 0 {
        let text = format!(
            "{} before and after the program's commands left out; they moved {moved_bytes} bytes (inputs and outputs)",
            plural(outside, "record")
        );
        part.report
            .add(Severity::Note, "outside", stream, outside, text);
    }
    events.truncate(tail);
    events.drain(..before);
    for event in &mut events {
        if event.link() != Link::None {
            event.set_sync(SyncGuess::None);
        }
    }
    events
}
