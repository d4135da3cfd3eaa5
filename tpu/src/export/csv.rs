//! RegInfo as CSV: all events of all engines by start, with bigTpuProfile's columns and all further fields that occur.

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
        let view = viewer.view(index as usize, &events[index as usize]);
        let row = Row::new(profile, &view, events);
        let cell = |column: &&str| row.cell(column, Addresses::Decimal);
        let text = |value: Option<_>| value.map(|v: crate::view::fields::Value| v.to_string());
        out.write_record(columns.iter().map(|c| text(cell(c)).unwrap_or_default()))
            .map_err(failed)?;
    }
    out.flush().map_err(io_at(path, "cannot write"))
}
