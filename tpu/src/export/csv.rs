//! RegInfo as CSV: all events of all engines by start, with bigTpuProfile's columns and all further fields that occur.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::path::Path;

use crate::error::{Error, Result, io_at};
use crate::export::layout::{Addresses, Row, table_columns};
use crate::matching::event::Event;
use crate::profile::Profile;
use crate::view::Viewer;

/// Writes the file.
pub fn write(profile: &Profile, path: &Path) -> Result<()> {
    let failed = |error: csv::Error| Error::Io {
        path: path.to_path_buf(),
        action: "cannot write",
        reason: std::io::Error::other(error),
    };
    let streams: Vec<(Viewer, &[Event])> = profile
        .streams()
        .filter_map(|(stream, events)| Some((Viewer::new(profile, stream)?, events)))
        .collect();
    let columns = table_columns(profile);
    // All streams are in order of time but for a few records, so they are merged instead of sorted together.
    let mut merged: Vec<Merging> = streams.iter().map(|(_, e)| Merging::new(e)).collect();
    let mut next: BinaryHeap<Reverse<(i64, usize)>> = BinaryHeap::new();
    for (number, stream) in merged.iter().enumerate() {
        next.extend(stream.start_ns().map(|start| Reverse((start, number))));
    }
    let mut out = csv::Writer::from_path(path).map_err(failed)?;
    out.write_record(&columns).map_err(failed)?;
    let mut written = 0u64;
    while let Some(Reverse((_, number))) = next.pop() {
        let (viewer, events) = &streams[number];
        let index = merged[number].take();
        next.extend(
            merged[number]
                .start_ns()
                .map(|start| Reverse((start, number))),
        );
        let view = viewer.view(index, &events[index]);
        let row = Row::new(profile, &view, events);
        let cell = |column: &&str| row.cell(column, Addresses::Decimal);
        let text = |value: Option<_>| value.map(|v: crate::view::fields::Value| v.to_string());
        out.write_record(columns.iter().map(|c| text(cell(c)).unwrap_or_default()))
            .map_err(failed)?;
        written += 1;
        if written.is_multiple_of(1 << 18) {
            profile.release();
        }
    }
    out.flush().map_err(io_at(path, "cannot write"))
}

/// A stream whose events are taken in order of their start.
struct Merging<'a> {
    events: &'a [Event],
    /// Indices of the events sorted by start, if the events are not in order.
    order: Option<Vec<u32>>,
    taken: usize,
}

impl Merging<'_> {
    fn new(events: &[Event]) -> Merging<'_> {
        let sorted = events.is_sorted_by_key(|event| event.start_ns);
        let order = (!sorted).then(|| {
            let mut places: Vec<u32> = (0..events.len() as u32).collect();
            places.sort_by_key(|&place| events[place as usize].start_ns);
            places
        });
        Merging {
            events,
            order,
            taken: 0,
        }
    }

    fn place(&self) -> usize {
        let place = |order: &Vec<u32>| {
            order
                .get(self.taken)
                .map_or(self.events.len(), |&p| p as usize)
        };
        self.order.as_ref().map_or(self.taken, place)
    }

    /// Start of the next event, if there is one.
    fn start_ns(&self) -> Option<i64> {
        self.events.get(self.place()).map(|event| event.start_ns)
    }

    /// Place of the next event, which is taken.
    fn take(&mut self) -> usize {
        let place = self.place();
        self.taken += 1;
        place
    }
}
