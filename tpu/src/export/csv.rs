//! RegInfo as CSV: all events of all engines by start, with the columns of all RegInfo fields that occur.

use std::collections::BTreeSet;
use std::path::Path;

use crate::error::{Error, Result};
use crate::matching::event::Event;
use crate::profile::Profile;
use crate::view::Viewer;
use crate::view::fields::{Fields, fields};

/// Columns that come first, in this order.
pub(crate) const FIRST: [&str; 12] = [
    "Engine Id",
    "Core Id",
    "Global Idx",
    "Cmd Id",
    "Function Type",
    "Function Name",
    "kernel_func",
    "Start Time(ns)",
    "End Time(ns)",
    "Asic Cycle",
    "Direction",
    "DMA data size(B)",
];

/// The keys of all events of some viewers: those of [`FIRST`], then the others as they come.
pub(crate) fn columns<'a>(streams: &[(Viewer<'a>, &'a [Event])]) -> Vec<&'static str> {
    let mut seen: BTreeSet<&'static str> = FIRST.into_iter().collect();
    let mut columns: Vec<&'static str> = FIRST.to_vec();
    // The keys depend on a few things only, so most events need no look.
    let mut shapes = std::collections::HashSet::new();
    for (viewer, events) in streams {
        for (index, event) in events.iter().enumerate() {
            let view = viewer.view(index, event);
            let shape = (
                view.stream.engine,
                view.decoded.map(|d| d.layout.name),
                view.event.tags.mode,
                view.kernel.is_some(),
                view.event.tags.batch == crate::input::nodes::NONE,
                view.kind == "sys",
            );
            if !shapes.insert(shape) {
                continue;
            }
            let fields = fields(&view);
            for (key, _) in fields.info.0.iter().chain(&fields.command.0) {
                if seen.insert(key) {
                    columns.push(key);
                }
            }
        }
    }
    columns
}

/// The value of a column as text; empty if the event has none.
pub(crate) fn cell(fields: &Fields, column: &str) -> String {
    fields
        .info
        .get(column)
        .or_else(|| fields.command.get(column))
        .map(ToString::to_string)
        .unwrap_or_default()
}

/// Writes the file.
pub fn write(profile: &Profile, path: &Path) -> Result<()> {
    let failed = |error: csv::Error| Error::Io {
        path: path.to_path_buf(),
        action: "cannot write",
        source: std::io::Error::other(error),
    };
    let streams: Vec<(Viewer, &[Event])> = profile
        .streams()
        .filter_map(|(stream, events)| Some((Viewer::new(profile, stream)?, events)))
        .collect();
    let columns = columns(&streams);
    let mut order: Vec<(i64, u32, u32)> = Vec::new();
    for (number, (_, events)) in streams.iter().enumerate() {
        order.extend(
            events
                .iter()
                .enumerate()
                .map(|(i, e)| (e.start_ns, number as u32, i as u32)),
        );
    }
    order.sort_unstable();
    let mut out = csv::Writer::from_path(path).map_err(failed)?;
    out.write_record(&columns).map_err(failed)?;
    for (_, number, index) in order {
        let (viewer, events) = &streams[number as usize];
        let fields = fields(&viewer.view(index as usize, &events[index as usize]));
        out.write_record(columns.iter().map(|column| cell(&fields, column)))
            .map_err(failed)?;
    }
    out.flush().map_err(|source| Error::Io {
        path: path.to_path_buf(),
        action: "cannot write",
        source,
    })
}
