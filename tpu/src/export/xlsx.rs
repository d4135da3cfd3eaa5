//! Workbook: totals, operators, layers, and one sheet for each engine of each core (as many as its rows need).
//!
//! A sheet holds 1,048,576 rows; an engine with more goes on in `TIU_0 (2)` and so on. Rows are written as they come,
//! so that memory does not grow with the dump.

use std::path::Path;

use rust_xlsxwriter::{Format, Workbook, Worksheet, XlsxError};

use crate::analysis::rollup::{Filter, Grouping, roll_up};
use crate::analysis::summary::Summary;
use crate::error::{Error, Result};
use crate::export::csv::columns;
use crate::matching::event::Event;
use crate::profile::Profile;
use crate::report::{Engine, Stream};
use crate::view::Viewer;
use crate::view::fields::{Value, fields};

/// Rows a sheet can hold.
pub const MAX_ROWS: u32 = 1_048_576;

/// Writes the workbook.
pub fn write(profile: &Profile, summary: &Summary, path: &Path) -> Result<()> {
    let failed = |error: XlsxError| Error::Workbook {
        path: path.to_path_buf(),
        what: error.to_string(),
    };
    let mut book = Workbook::new();
    let bold = Format::new().set_bold();
    totals(profile, summary, book.add_worksheet(), &bold).map_err(failed)?;
    for (grouping, name) in [
        (Grouping::Operator, "Operators"),
        (Grouping::Kernel, "Kernels"),
        (Grouping::Layer, "Layer by Layer Info"),
    ] {
        groups(profile, grouping, name, &mut book, &bold).map_err(failed)?;
    }
    for (stream, events) in profile.streams().filter(|(_, events)| !events.is_empty()) {
        engine(profile, stream, events, MAX_ROWS, &mut book, &bold).map_err(failed)?;
    }
    book.save(path).map_err(failed)
}

fn header(
    sheet: &mut Worksheet,
    row: u32,
    names: &[&str],
    bold: &Format,
) -> std::result::Result<(), XlsxError> {
    for (column, name) in names.iter().enumerate() {
        sheet.write_with_format(row, column as u16, *name, bold)?;
    }
    Ok(())
}

fn totals(
    profile: &Profile,
    summary: &Summary,
    sheet: &mut Worksheet,
    bold: &Format,
) -> std::result::Result<(), XlsxError> {
    sheet.set_name("Engine Summary")?;
    let names = [
        "Core",
        "Engine",
        "Commands",
        "Work cycles",
        "Work (ns)",
        "Busy (ns)",
        "Idle (ns)",
        "Utilisation",
        "Bytes",
        "GB/s",
        "DDR GB/s",
        "DDR read GB/s",
        "DDR write GB/s",
        "L2 GB/s",
        "L2 read GB/s",
        "L2 write GB/s",
    ];
    header(sheet, 0, &names, bold)?;
    let cores = summary.cores.iter().flat_map(|core| {
        [
            (core.core, "TIU", &core.tiu),
            (core.core, "GDMA", &core.gdma),
            (core.core, "SDMA", &core.sdma),
        ]
    });
    let ports = summary
        .ports
        .iter()
        .map(|(port, totals)| (*port, "CDMA port", totals));
    let mut row = 1;
    for (number, engine, totals) in cores
        .chain(ports)
        .filter(|(_, _, totals)| totals.commands > 0)
    {
        sheet.write(row, 0, number)?;
        sheet.write(row, 1, engine)?;
        let numbers = [
            totals.commands as f64,
            totals.work_cycles as f64,
            totals.work_ns as f64,
            totals.busy_ns as f64,
            totals.idle_ns as f64,
            totals.utilisation,
            totals.bytes as f64,
        ];
        for (column, value) in numbers.into_iter().enumerate() {
            sheet.write(row, column as u16 + 2, value)?;
        }
        let rates = [
            &totals.all,
            &totals.ddr,
            &totals.ddr_read,
            &totals.ddr_write,
            &totals.l2,
            &totals.l2_read,
            &totals.l2_write,
        ];
        for (column, traffic) in rates.into_iter().enumerate() {
            if let Some(rate) = traffic.gbps {
                sheet.write(row, column as u16 + 9, rate)?;
            }
        }
        row += 1;
    }
    row += 1;
    for (key, value) in [
        ("Total (ns)", summary.total_ns as f64),
        ("Parallelism", summary.parallelism),
        ("TIU working ratio", summary.tiu_working_ratio),
    ] {
        sheet.write(row, 0, key)?;
        sheet.write(row, 1, value)?;
        row += 1;
    }
    for (key, value) in profile.chip.args(profile.tiu_mhz, profile.dma_mhz) {
        sheet.write(row, 0, key)?;
        sheet.write(row, 1, value)?;
        row += 1;
    }
    Ok(())
}

fn groups(
    profile: &Profile,
    grouping: Grouping,
    name: &str,
    book: &mut Workbook,
    bold: &Format,
) -> std::result::Result<(), XlsxError> {
    let mut groups = roll_up(profile, grouping, &Filter::default());
    if groups.is_empty() {
        return Ok(());
    }
    if grouping == Grouping::Layer {
        groups.sort_by_key(|group| group.order);
    }
    let sheet = book.add_worksheet();
    sheet.set_name(name)?;
    let names = [
        "Number",
        "Name",
        "Kind",
        "Engine",
        "Count",
        "Total (ns)",
        "Share",
        "TIU cycles",
        "DMA cycles",
        "Bytes",
        "DDR read (B)",
        "DDR written (B)",
        "Alg ops",
        "uArch ops",
    ];
    header(sheet, 0, &names, bold)?;
    for (index, group) in groups.iter().take(MAX_ROWS as usize - 1).enumerate() {
        let row = index as u32 + 1;
        sheet.write(row, 0, group.order)?;
        sheet.write(row, 1, &group.name)?;
        sheet.write(row, 2, &group.kind)?;
        sheet.write(row, 3, group.engine.map_or("", Engine::name))?;
        let numbers = [
            group.count as f64,
            group.total_ns as f64,
            group.share,
            group.tiu_cycles as f64,
            group.dma_cycles as f64,
            group.bytes as f64,
            group.ddr_read_bytes as f64,
            group.ddr_write_bytes as f64,
        ];
        for (column, value) in numbers.into_iter().enumerate() {
            sheet.write(row, column as u16 + 4, value)?;
        }
        for (column, value) in [group.alg_ops, group.uarch_ops].into_iter().enumerate() {
            if let Some(value) = value {
                sheet.write(row, column as u16 + 12, value)?;
            }
        }
    }
    Ok(())
}

/// The sheets of one engine, of at most `limit` rows each.
fn engine(
    profile: &Profile,
    stream: Stream,
    events: &[Event],
    limit: u32,
    book: &mut Workbook,
    bold: &Format,
) -> std::result::Result<(), XlsxError> {
    let viewer = || Viewer::new(profile, stream);
    let Some(view_of) = viewer() else {
        return Ok(());
    };
    let names = viewer()
        .map(|v| columns(&[(v, events)]))
        .unwrap_or_default();
    let base = format!("{}_{}", stream.engine.name(), stream.number);
    for (part, chunk) in events.chunks(limit as usize - 1).enumerate() {
        let sheet = book.add_worksheet_with_constant_memory();
        sheet.set_name(if part == 0 {
            base.clone()
        } else {
            format!("{base} ({})", part + 1)
        })?;
        header(sheet, 0, &names, bold)?;
        for (offset, event) in chunk.iter().enumerate() {
            let fields = fields(&view_of.view(part * (limit as usize - 1) + offset, event));
            let row = offset as u32 + 1;
            for (column, name) in names.iter().enumerate() {
                let column = column as u16;
                match fields.info.get(name).or_else(|| fields.command.get(name)) {
                    None => {}
                    // Beyond 2^53 a spreadsheet would round: keep the digits as text.
                    Some(Value::Int(value)) if value.unsigned_abs() < 1 << 53 => {
                        sheet.write(row, column, *value as f64)?;
                    }
                    Some(Value::Float(value)) => {
                        sheet.write(row, column, *value)?;
                    }
                    Some(value) => {
                        sheet.write(row, column, value.to_string())?;
                    }
                }
            }
        }
    }
    Ok(())
}
