//! The frame of a dump: the start of time, the window to keep, the sync commands around the program, and the count of
//! the rest.

use std::path::Path;

use opreport::units::plural;

use crate::chip::ChipSpec;
use crate::chip::names::{CDMA_SYS, DMA_SYS, TIU_SYS};
use crate::error::Result;
use crate::ingest::Window;
use crate::ingest::findings::{lose, note_event};
use crate::ingest::timed::TimedCore;
use crate::matching::event::{Certainty, Event};
use crate::matching::sync::{between_pairs, is_sync};
use crate::profile::{EventList, PortProfile};
use crate::report::{Engine, Fate, Report, Severity, Stream, WINDOW};

/// Lets time begin with the earliest record, on one clock for all cores. Returns the last end of each stream's last
/// record.
pub(super) fn shift_to_zero(
    cores: &mut [TimedCore],
    ports: &mut [PortProfile],
) -> Result<Option<i64>> {
    let mut lists: Vec<(&mut EventList, i64)> = cores
        .iter_mut()
        .flat_map(|core| {
            core.profile
                .events
                .iter_mut()
                .map(|list| (list, core.shift_ns))
        })
        .collect();
    lists.extend(ports.iter_mut().map(|port| (&mut port.events, 0)));
    let starts = lists
        .iter()
        .filter_map(|(list, ahead)| Some(list.earliest_ns()? - ahead));
    let Some(first) = starts.min() else {
        return Ok(None);
    };
    let mut tail = None;
    for (list, ahead) in lists {
        list.shift(-ahead - first)?;
        tail = tail.max(list.last().map(|event| event.end_ns));
    }
    Ok(tail)
}

/// Leaves out the sync commands that frame the profile.
pub(super) fn frame(
    spec: &ChipSpec,
    cores: &mut [TimedCore],
    ports: &mut [PortProfile],
    scratch: &Path,
    report: &mut Report,
) -> Result<()> {
    for port in ports.iter_mut() {
        let core_of = |event: &Event| {
            let core = cores
                .iter()
                .find(|core| Some(core.profile.number) == event.core())?;
            Some(&core.profile.file)
        };
        let stream = Stream::new(Engine::Cdma, port.number);
        let (kept, short) = between_pairs(spec.chip, &core_of, CDMA_SYS, false, &port.events);
        let is_sync = |event: &Event| short && is_sync(spec.chip, &core_of, CDMA_SYS, event);
        trim(&mut port.events, kept, is_sync, stream, scratch, report)?;
    }
    let has_traffic = ports.iter().any(|port| !port.events.is_empty());
    for core in cores {
        let (number, file) = (core.profile.number, &core.profile.file);
        for engine in Engine::OF_CORE {
            let code = match engine {
                Engine::Tiu => TIU_SYS,
                _ => DMA_SYS,
            };
            let stream = Stream::new(engine, number);
            let events = &mut core.profile.events[engine.slot()];
            let (kept, short) =
                between_pairs(spec.chip, &|_| Some(file), code, has_traffic, events);
            let is_sync = |event: &Event| short && is_sync(spec.chip, &|_| Some(file), code, event);
            trim(events, kept, is_sync, stream, scratch, report)?;
        }
    }
    Ok(())
}

/// Removes the events outside of `kept`. If at most two events remain, removes the sync commands among them too. Reports
/// what it removes.
fn trim(
    events: &mut EventList,
    kept: std::ops::Range<usize>,
    is_sync: impl Fn(&Event) -> bool,
    stream: Stream,
    scratch: &Path,
    report: &mut Report,
) -> Result<()> {
    let whole = kept == (0..events.len());
    if whole && !events.iter().take(2).any(&is_sync) {
        return Ok(());
    }
    let ends = events[kept.end..].iter().chain(&events[..kept.start]);
    let short = events[kept.clone()]
        .iter()
        .take(2)
        .filter(|event| is_sync(event));
    let taken: Vec<Event> = ends.chain(short).copied().collect();
    for event in &taken {
        note_event(report, stream, Fate::Outside, event, 0);
    }
    if let Some(counts) = report.streams.iter_mut().find(|s| s.stream == stream) {
        counts.outside += taken.len() as u64;
    }
    events.keep(kept);
    if events.len() <= 2 {
        events.retain(scratch, |event| !is_sync(event))?;
    }
    Ok(())
}

/// Leaves out the events outside of a window of time.
pub(super) fn cut(
    window: &Window,
    cores: &mut [TimedCore],
    ports: &mut [PortProfile],
    scratch: &Path,
    report: &mut Report,
) -> Result<()> {
    let from = window.from_ns.unwrap_or(i64::MIN);
    let to = window.to_ns.unwrap_or(i64::MAX);
    let lists = cores
        .iter_mut()
        .flat_map(|core| core.profile.events.iter_mut());
    let (mut all, mut left) = (0, 0);
    for list in lists.chain(ports.iter_mut().map(|port| &mut port.events)) {
        all += list.len() as u64;
        list.retain(scratch, |event| event.end_ns >= from && event.start_ns < to)?;
        left += list.len() as u64;
    }
    let text = format!(
        "{window}: {left} of {} are in it, and all numbers are of these",
        plural(all, "event")
    );
    report.add(Severity::Note, WINDOW, "dump", all - left, text);
    Ok(())
}

/// Counts the kept events by certainty, and reports losses.
pub(super) fn count_certainties(cores: &[TimedCore], ports: &[PortProfile], report: &mut Report) {
    let of_cores = cores.iter().flat_map(|core| {
        let number = core.profile.number;
        let stream = move |engine| Stream::new(engine, number);
        Engine::OF_CORE.map(|engine| (stream(engine), &core.profile.events[engine.slot()]))
    });
    let of_ports = ports.iter().map(|port| {
        let stream = Stream::new(Engine::Cdma, port.number);
        (stream, &port.events)
    });
    for (stream, events) in of_cores.chain(of_ports) {
        let Some(at) = report.streams.iter().position(|s| s.stream == stream) else {
            continue;
        };
        let mut counts = report.streams[at].clone();
        for event in events {
            let (count, fate) = match event.certainty() {
                Certainty::Matched => (&mut counts.matched, None),
                Certainty::NoCommands => (&mut counts.without_commands, None),
                Certainty::Guessed => (&mut counts.guessed, Some(Fate::Guessed)),
                Certainty::Unmatched => (&mut counts.unmatched, Some(Fate::Unmatched)),
            };
            *count += 1;
            if let Some(fate) = fate {
                note_event(report, stream, fate, event, 0);
            }
        }
        events.release();
        let (guessed, unmatched) = (counts.guessed, counts.unmatched);
        report.streams[at] = counts;
        let likely = "given a likely command, not a certain one";
        lose(report, "guessed", stream, guessed, likely);
        if unmatched > 0 {
            let text = format!(
                "no command fits {}; kept as unknown",
                plural(unmatched, "record")
            );
            report.lose("unmatched", stream, unmatched, text);
        }
    }
}
