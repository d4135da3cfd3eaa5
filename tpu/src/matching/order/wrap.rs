//! Counters that wrapped around: the slots of a ring, 16-bit ids, 32-bit clocks.

use std::collections::VecDeque;

use super::{HALF, WRAP};
use crate::input::pmu::RawRecord;

fn regressions(records: impl Iterator<Item = RawRecord>) -> usize {
    let mut last_end = 0;
    let mut count = 0;
    for (index, record) in records.enumerate() {
        if index > 0 && record.start < last_end {
            count += 1;
        }
        last_end = last_end.max(record.end);
    }
    count
}

/// Turns a lapped ring back: it is dumped by slot, so its oldest record lies in the middle. A clock that wrapped looks
/// alike, but there the ids go on and the seam is short.
pub(super) fn unroll_ring(raw: &mut [RawRecord]) -> bool {
    let before = regressions(raw.iter().copied());
    // A lapped ring is a full one, never a handful of records.
    if before == 0 || raw.len() < 8 {
        return false;
    }
    let pivot = (0..raw.len()).min_by_key(|&i| raw[i].start).unwrap_or(0);
    if pivot == 0 {
        return false;
    }
    let after = regressions(raw[pivot..].iter().chain(&raw[..pivot]).copied());
    // A few records may be out of order because they are damaged.
    if after > 8 || after * 4 > before {
        return false;
    }
    let (newest, oldest) = (raw[pivot - 1], raw[pivot]);
    let ring_gap = i64::from(raw[0].start) - i64::from(raw[raw.len() - 1].end);
    if i64::from(newest.end) > HALF || newest.end < newest.start {
        let wrap_gap = i64::from(oldest.start.wrapping_sub(newest.end));
        if oldest.id == newest.id.wrapping_add(1) || wrap_gap < ring_gap {
            return false;
        }
    }
    // Two records that changed places at the very start look like a ring with a tiny part before the seam.
    if pivot < 3 && ring_gap < 0 {
        return false;
    }
    if pivot < 3
        && raw[pivot].start < raw[0].start
        && raw[0].start < raw[(pivot + 1).min(raw.len() - 1)].start
    {
        return false;
    }
    raw.rotate_left(pivot);
    true
}

/// Unwraps 16-bit ids.
pub(super) fn unwrap_ids(raw: &mut [RawRecord]) {
    let mut lift = 0u32;
    let mut last = 0;
    for record in raw {
        if last > 65000 && last <= 0xffff && record.id < 1000 {
            lift += 1 << 16;
        }
        last = record.id;
        record.id = record.id.wrapping_add(lift);
    }
}

/// Moves each start by whole turns of the clock, as near as possible to the median of the starts in sequence.
pub(super) fn starts_around_middle(raw: &[RawRecord]) -> Vec<i64> {
    let apart = |from: u32, to: u32| i64::from(to.wrapping_sub(from) as i32);
    // Neighbours that are near each other are sound, at any time of the clock.
    let near = |w: &&[RawRecord]| apart(w[0].start, w[1].start).abs() < HALF / 16;
    let Some(origin) = raw.windows(2).find(near).map(|w| w[0].start) else {
        return raw.iter().map(|r| i64::from(r.start)).collect();
    };
    let mut offsets: Vec<i64> = raw
        .windows(2)
        .filter(near)
        .map(|w| apart(origin, w[0].start))
        .collect();
    offsets.sort_unstable();
    let middle = offsets[offsets.len() / 2];
    let level = origin.wrapping_add(middle as u32);
    let first = i64::from(origin) + middle;
    let around = |r: &RawRecord| first + apart(level, r.start);
    raw.iter().map(around).collect()
}

/// Starts with the clock's wraps undone. Where a start goes back, each is placed as near as possible to the median of
/// the latest five. Records out of place or with a wrong clock then do not shift the others. A leap of a quarter of the
/// clock's range or more is believed if the records after it follow.
pub(super) fn unwrapped_starts(raw: &[RawRecord]) -> Vec<i64> {
    let apart = |from: u32, to: u32| i64::from(to.wrapping_sub(from) as i32);
    let Some(first) = raw.first() else {
        return Vec::new();
    };
    let mut at = i64::from(first.start);
    if raw.windows(2).all(|w| apart(w[0].start, w[1].start) >= 0) {
        let steps = raw.windows(2).map(|w| apart(w[0].start, w[1].start));
        let rest = steps.map(|step| {
            at += step;
            at
        });
        return std::iter::once(i64::from(first.start))
            .chain(rest)
            .collect();
    }
    const LEAP: i64 = HALF / 2;
    let mut latest = VecDeque::from([at]);
    let mut starts = Vec::with_capacity(raw.len());
    for (i, r) in raw.iter().enumerate() {
        let mut sorted: Vec<i64> = latest.iter().copied().collect();
        sorted.sort_unstable();
        let level = sorted[sorted.len() / 2];
        let level_ticks = level as u32;
        let mut start = level + apart(level_ticks, r.start);
        if (start - level).abs() > LEAP {
            let behind = &raw[i + 1..raw.len().min(i + 5)];
            let following = behind
                .iter()
                .filter(|b| apart(r.start, b.start).abs() < apart(level_ticks, b.start).abs())
                .count();
            let believed = if behind.is_empty() {
                start > level || r.start > level_ticks
            } else {
                following * 2 > behind.len()
            };
            if believed {
                // Time does not go back: it is a long gap.
                start += if start < level { WRAP } else { 0 };
                latest.clear();
            } else {
                starts.push(start);
                continue;
            }
        }
        latest.push_back(start);
        if latest.len() > 5 {
            latest.pop_front();
        }
        starts.push(start);
    }
    starts
}
