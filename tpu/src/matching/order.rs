//! Order in time of one engine's records.
//!
//! Hardware writes records in the order in which an engine finishes its commands, into a ring, with 32-bit clocks and
//! (mostly) 16-bit ids. This undoes a lapped ring and wrapped counters. It finds records at the wrong place, doubled,
//! or with impossible times, and leaves all others alone. A record is impossible only if its neighbours agree with
//! each other and not with it.

mod wrap;

use std::collections::HashSet;

use crate::input::pmu::RawRecord;
use crate::report::{Engine, Fate};
use wrap::{starts_around_middle, unroll_ring, unwrap_ids, unwrapped_starts};

const WRAP: i64 = 1 << 32;
const HALF: i64 = 1 << 31;

/// A record with unwrapped times and id.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Record {
    /// Ticks at the start.
    pub start: i64,
    /// Ticks at the end.
    pub end: i64,
    /// Command id.
    pub id: u32,
    /// Byte offset in the file.
    pub offset: u64,
}

impl Record {
    /// Cycles, both ends counted.
    pub fn cycles(&self) -> u64 {
        (self.end - self.start + 1).max(0) as u64
    }
}

/// Records in order, and the fate of the others.
#[derive(Debug, Default)]
pub struct Ordered {
    /// The records in order.
    pub records: Vec<Record>,
    /// Left out, or moved.
    pub notes: Vec<(Record, Fate)>,
    /// Whether the ring had lapped: earlier records are lost.
    pub lapped: bool,
}

/// Brings records into order.
pub fn settle(engine: Engine, mut raw: Vec<RawRecord>) -> Ordered {
    let lapped = unroll_ring(&mut raw);
    unwrap_ids(&mut raw);
    // Two threads share the system DMA, so its records may overlap and stand out of order in time without any harm.
    // They are moved by time only if that makes their ids consecutive.
    let as_written = (engine == Engine::Sdma).then(|| in_file_order(&raw));
    let mut ordered = unwrap_times(raw);
    if let Some(as_written) = as_written {
        if steps_missed(&as_written.records) <= steps_missed(&ordered.records) {
            ordered = as_written;
        }
    } else {
        drop_containers(&mut ordered);
    }
    ordered.lapped = lapped;
    ordered
}

/// How often an id is not the one after its predecessor's.
fn steps_missed(records: &[Record]) -> usize {
    records
        .windows(2)
        .filter(|w| w[1].id != w[0].id.wrapping_add(1))
        .count()
}

/// Records in the order of the file, without duplicates. Neighbours that the hardware is known to swap are put in order.
fn in_file_order(raw: &[RawRecord]) -> Ordered {
    let mut ordered = Ordered::default();
    let mut seen = HashSet::new();
    let (mut lift, mut last) = (0i64, 0i64);
    for r in raw {
        let length = i64::from(r.end.wrapping_sub(r.start));
        if i64::from(r.start) + lift + HALF < last {
            lift += WRAP;
        }
        let start = i64::from(r.start) + lift;
        let record = Record {
            start,
            end: start + length,
            id: r.id,
            offset: r.offset,
        };
        if length >= HALF {
            let shown = Record {
                end: i64::from(r.end) + lift,
                ..record
            };
            ordered.notes.push((shown, Fate::Implausible));
        } else if seen.insert((record.id, record.start, record.end)) {
            last = start;
            ordered.records.push(record);
        } else {
            ordered.notes.push((record, Fate::Duplicate));
        }
    }
    order_by_retirement(&mut ordered.records);
    order_by_id(&mut ordered.records);
    ordered
}

/// Sorts records by retirement. Of two commands that both begin after a third has ended, the earlier comes first.
fn order_by_retirement(records: &mut [Record]) {
    for i in 1..records.len().saturating_sub(1) {
        let gap = records[i].start - records[i - 1].end;
        let next_gap = records[i + 1].start - records[i - 1].end;
        if next_gap < gap && next_gap > 0 {
            records.swap(i, i + 1);
        }
    }
}

fn unwrap_times(mut sound: Vec<RawRecord>) -> Ordered {
    let mut ordered = Ordered::default();
    sound.retain(|r| {
        let possible = i64::from(r.end.wrapping_sub(r.start)) < HALF;
        if !possible {
            // The end lies before the start, and not because the clock ran over in between.
            let shown = Record {
                start: i64::from(r.start),
                end: i64::from(r.end),
                id: r.id,
                offset: r.offset,
            };
            ordered.notes.push((shown, Fate::Implausible));
        }
        possible
    });
    let with_starts = |starts: Vec<i64>| -> Vec<Record> {
        let record = |(start, r): (i64, &RawRecord)| Record {
            start,
            end: start + i64::from(r.end.wrapping_sub(r.start)),
            id: r.id,
            offset: r.offset,
        };
        starts.into_iter().zip(&sound).map(record).collect()
    };
    let mut records = with_starts(unwrapped_starts(&sound));
    if records.windows(2).any(|w| w[0].start > w[1].start) {
        // Damaged times can look like a clock that wraps around. If so, most starts increase without any wrap, and the
        // others increase only by chance: among n random numbers, 2·√n.
        let calm = with_starts(starts_around_middle(&sound));
        let count = |list: &[Record]| longest_in_step(list).iter().filter(|&&s| s).count();
        let (in_step, all) = (count(&calm), calm.len());
        let chance = 3 * all.isqrt() + all / 10;
        if in_step * 2 > all && in_step + chance >= count(&records) {
            records = calm;
        }
    }
    if records
        .windows(2)
        .all(|w| w[0].start <= w[1].start && key(&w[0]) != key(&w[1]))
    {
        ordered.records = records;
        return ordered;
    }
    let in_step = longest_in_step(&records);
    let mut pending = Vec::new();
    let mut same_start = HashSet::new();
    let mut start = i64::MIN;
    for (record, keep) in records.into_iter().zip(in_step) {
        if !keep {
            pending.push(record);
            continue;
        }
        if record.start != start {
            start = record.start;
            same_start.clear();
        }
        if same_start.insert(key(&record)) {
            ordered.records.push(record);
        } else {
            ordered.notes.push((record, Fate::Duplicate));
        }
    }
    place(&mut ordered, pending);
    ordered
}

/// Key of equal records: an engine does not run two commands at one time.
fn key(record: &Record) -> (i64, i64, u32) {
    (record.start, record.end, record.id)
}

/// Marks the most records that are in order of time as they stand; all others are out of place.
fn longest_in_step(records: &[Record]) -> Vec<bool> {
    // `ends[k]` is the earliest record that ends a series of k + 1.
    let mut ends: Vec<usize> = Vec::new();
    let mut before = vec![usize::MAX; records.len()];
    for (i, record) in records.iter().enumerate() {
        let length = ends.partition_point(|&e| records[e].start <= record.start);
        if length > 0 {
            before[i] = ends[length - 1];
        }
        if length == ends.len() {
            ends.push(i);
        } else {
            ends[length] = i;
        }
    }
    let mut marks = vec![false; records.len()];
    let mut at = ends.last().copied().unwrap_or(usize::MAX);
    while at != usize::MAX {
        marks[at] = true;
        at = before[at];
    }
    marks
}

/// Puts records that stood at the wrong place where their times say, if they fit there and are not there already.
fn place(ordered: &mut Ordered, mut pending: Vec<Record>) {
    if pending.is_empty() {
        return;
    }
    pending.sort_by_key(|r| (r.start, r.id));
    let wanted: HashSet<_> = pending.iter().map(key).collect();
    let mut there: HashSet<_> = ordered
        .records
        .iter()
        .map(key)
        .filter(|k| wanted.contains(k))
        .collect();
    let span = match (ordered.records.first(), ordered.records.last()) {
        (Some(first), Some(last)) => (last.end - first.start).max(1 << 20),
        _ => 1 << 20,
    };
    let mut merged: Vec<Record> = Vec::with_capacity(ordered.records.len() + pending.len());
    let mut rest = ordered.records.iter().copied().peekable();
    for record in pending {
        while let Some(next) = rest.next_if(|n| n.start <= record.start) {
            merged.push(next);
        }
        let last = merged.last().copied();
        let next = rest.peek().copied();
        let fate = if !there.insert(key(&record)) {
            Fate::Duplicate
        } else {
            let overlaps = last.is_some_and(|l| l.end > record.start)
                || next.is_some_and(|n| record.end > n.start);
            let in_step =
                last.is_none_or(|l| l.id < record.id) && next.is_none_or(|n| record.id < n.id);
            let fits = match (last, next) {
                (Some(_), Some(_)) => in_step || !overlaps,
                // Beyond all others: only by a little, or its clock is wrong rather than its place.
                (Some(last), None) => !overlaps && record.start - last.end <= span,
                (None, Some(next)) => !overlaps && next.start - record.end <= span,
                (None, None) => true,
            };
            if fits { Fate::Moved } else { Fate::Implausible }
        };
        if fate == Fate::Moved {
            merged.push(record);
        }
        ordered.notes.push((record, fate));
    }
    merged.extend(rest);
    ordered.records = merged;
}

/// A record that contains two later ones of the same engine has a wrong end. So has a last one that is far longer than
/// all the others together.
fn drop_containers(ordered: &mut Ordered) {
    let records = &ordered.records;
    let count = records.len();
    let span = match (records.first(), records.get(count.wrapping_sub(2))) {
        (Some(first), Some(last)) if count > 8 => (last.end - first.start).max(1),
        _ => i64::MAX / 1000,
    };
    let impossible = |i: usize| {
        let r = records[i];
        match (records.get(i + 1), records.get(i + 2)) {
            (Some(a), Some(b)) => r.end > a.end && r.end > b.end,
            (None, None) => {
                r.end - r.start > span.saturating_mul(100) && r.end - r.start > 1_000_000
            }
            (Some(a), _) => r.end > a.end && r.end - a.end > span.saturating_mul(100),
            _ => false,
        }
    };
    let bad: Vec<usize> = (0..count).filter(|&i| impossible(i)).collect();
    for &i in bad.iter().rev() {
        let record = ordered.records.remove(i);
        ordered.notes.push((record, Fate::Implausible));
    }
}

/// The system DMA retires commands of two threads: neighbours may stand in the wrong order of ids.
fn order_by_id(records: &mut [Record]) {
    let length = records.len();
    for i in 1..length {
        if records[i].id >= records[i - 1].id {
            continue;
        }
        if i >= 2 && records[i].id == records[i - 2].id.wrapping_add(1) {
            records.swap(i, i - 1);
        } else if i + 1 < length && records[i + 1].id == records[i - 1].id.wrapping_add(1) {
            records.swap(i, i + 1);
        }
    }
}

#[cfg(test)]
mod tests;
