//! The marks that frame a profile: preambles, strays, and pairs of sync commands at both ends.
//!
//! Firmware writes them; they are no part of the profiled program. Also guesses, in dumps without commands, which
//! records are sync commands.

use std::ops::Range;

use crate::chip::{Chip, Preamble};
use crate::input::core::CoreFile;
use crate::input::pmu::{moves_nothing, record_bytes, word};
use crate::input::source::SourceFile;
use crate::matching::event::{Event, SyncGuess};
use crate::matching::order::Record;
use crate::report::Engine;

/// Number of records of the preamble. It is a section of its own, of two records if whole. If ids are not reset after
/// it, the first command's id shows its length; it may be missing. Without commands it is assumed to be whole.
pub fn preamble_len(chip: Chip, records: &[Record], first_command: Option<u32>) -> usize {
    let full = chip.spec().preamble_len();
    let first_section = 1 + records.windows(2).take_while(|w| w[1].id > w[0].id).count();
    if records.is_empty() || full == 0 {
        return 0;
    }
    match first_command {
        _ if first_section < full && records.len() > first_section => first_section,
        Some(0) if first_section > full => 0,
        _ => full.min(records.len()),
    }
}

/// The preambles of a core's engines are written at the same time. A preamble that begins after the earliest has ended
/// is the rest of a stream without its head: its length is set to 0. `spans` are their starts and ends in ns.
pub fn drop_late(spans: &[Option<(f64, f64)>; 3], lengths: &mut [usize; 3]) {
    const SLACK_NS: f64 = 50.0;
    // Clocks that ran over a different number of times cannot be compared yet.
    const TURN_NS: f64 = 1e8;
    let found = spans.iter().flatten();
    let Some(&(_, end)) = found.min_by(|a, b| a.0.total_cmp(&b.0)) else {
        return;
    };
    for (span, length) in spans.iter().zip(lengths) {
        let Some((start, _)) = span else { continue };
        if *start > end + SLACK_NS && *start < end + TURN_NS {
            *length = 0;
        }
    }
}

/// Takes stray TIU records off both ends (CV84X6). `commands` is the number of commands of the last section, if any
/// were recorded. Returns those taken.
pub fn trim_strays(chip: Chip, records: &mut Vec<Record>, commands: Option<u64>) -> Vec<Record> {
    let mut taken = Vec::new();
    if chip.spec().preamble != Preamble::Strays || records.is_empty() {
        return taken;
    }
    // The head stray carries an old id: the ids fall right after it. A core that never ran has nothing else.
    if records.len() == 1 && records[0].id != 0
        || records.len() > 1 && records[1].id <= records[0].id
    {
        taken.push(records.remove(0));
    }
    let Some(&last) = records.last() else {
        return taken;
    };
    let before = records.len().checked_sub(2).map(|i| records[i].id);
    let stray = match commands {
        Some(count) => u64::from(last.id) >= count || before.is_some_and(|b| last.id <= b),
        None => before.is_some_and(|b| last.id <= b),
    };
    if stray {
        taken.extend(records.pop());
    }
    taken
}

/// Duration of a transfer that no sync "send" reaches, in ns: they retire in about 10.
const SEND_MAX_NS: i64 = 1000;

/// Finds DMA records that look like sync commands by their counters: sends and waits alternate, and the waits last
/// longer. Call it with all records of a stream, so that the alternation is not broken.
pub fn guess_dma(chip: Chip, engine: Engine, file: &SourceFile, events: &mut [Event]) {
    let size = record_bytes(chip, engine);
    let mut totals = [0i64; 2];
    let mut found = Vec::new();
    for (place, event) in events.iter().enumerate() {
        if moves_nothing(chip, engine, file.slice(event.offset(), size)) {
            let parity = found.len() % 2;
            totals[parity] += event.end_ns - event.start_ns;
            found.push(place);
        }
    }
    let waits = usize::from(totals[1] > totals[0]);
    for (number, &place) in found.iter().enumerate() {
        let event = &mut events[place];
        let long = event.end_ns - event.start_ns > SEND_MAX_NS;
        let wait = long || number % 2 == waits;
        event.set_sync(if wait {
            SyncGuess::Wait
        } else {
            SyncGuess::Send
        });
    }
}

/// Finds TIU records of a stream without commands that look like a send and a wait. They are neighbours that both carry
/// the mark of a system command (2 in the last word), one of them as short as a send. A single mark is no evidence: a
/// computation with one bank conflict leaves it too.
pub fn guess_tiu(chip: Chip, file: &SourceFile, events: &mut [Event]) {
    if !matches!(chip, Chip::Aks | Chip::Aksv) {
        return;
    }
    let marked = |event: &Event| word(file.slice(event.offset(), 16), 3) == 2;
    for first in 0..events.len().saturating_sub(1) {
        let (a, b) = (events[first], events[first + 1]);
        let pair = marked(&a)
            && marked(&b)
            && b.id == a.id.wrapping_add(1)
            && a.cycles().min(b.cycles()) <= 16;
        if pair && a.sync() == SyncGuess::None {
            let waits_first = a.cycles() > b.cycles();
            let (wait, send) = if waits_first {
                (first, first + 1)
            } else {
                (first + 1, first)
            };
            events[wait].set_sync(SyncGuess::Wait);
            events[send].set_sync(SyncGuess::Send);
        }
    }
}

/// The places of a stream's events between the pairs of sync commands at both ends. The second result says whether sync
/// commands between these pairs are dropped as well. They are dropped from a stream of at most two records, unless CDMA
/// traffic explains them.
pub fn between_pairs<'a>(
    chip: Chip,
    core_of: &dyn Fn(&Event) -> Option<&'a CoreFile>,
    code: u32,
    keep_short: bool,
    events: &[Event],
) -> (Range<usize>, bool) {
    let is_sync = |event: &Event| is_sync(chip, core_of, code, event);
    let (mut head, mut tail) = (0, events.len());
    loop {
        let list = &events[head..tail];
        let n = list.len();
        if n < 3 {
            break;
        }
        if list[n - 1].id == list[n - 2].id.wrapping_add(1)
            && list[n - 2].id <= list[n - 3].id
            && is_sync(&list[n - 2])
        {
            tail -= 2;
        } else if list[1].id == list[0].id.wrapping_add(1)
            && list[2].id <= list[1].id
            && is_sync(&list[0])
        {
            head += 2;
        } else {
            break;
        }
    }
    (head..tail, !keep_short && tail - head <= 2)
}

/// Whether an event is a sync command, by its command's `code` or by its counters.
pub fn is_sync<'a>(
    chip: Chip,
    core_of: &dyn Fn(&Event) -> Option<&'a CoreFile>,
    code: u32,
    event: &Event,
) -> bool {
    let codes = || core_of(event).and_then(|core| event.codes(chip, core));
    event.sync() != SyncGuess::None || codes().is_some_and(|(task, _)| task == code)
}
