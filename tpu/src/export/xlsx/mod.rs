//! Workbook: totals, operators, layers, and one sheet for each engine of each core (as many as its rows need).
//!
//! Engine sheets and the summary are laid out as bigTpuProfile's, its cells at its places, further columns to their
//! right. Its sheets `Summary` and `Layer by Layer Info` take their numbers from the model's compiler; here the layers'
//! sheet holds what was measured. Rows are written as they come, so that memory does not grow with the dump.

mod engines;
mod totals;

use std::path::Path;

use rust_xlsxwriter::{Format, Workbook, Worksheet, XlsxError};

use crate::analysis::rollup::{Filter, Grouping, roll_up};
use crate::analysis::summary::Summary;
use crate::error::{Error, Result};
use crate::profile::Profile;
use crate::report::Engine;

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
    if !profile.report.is_whole() {
        account(profile, book.add_worksheet(), &bold).map_err(failed)?;
    }
    totals::write(profile, summary, book.add_worksheet(), &bold).map_err(failed)?;
    for (grouping, name) in [
        (Grouping::Operator, "Operators"),
        (Grouping::Kernel, "Kernels"),
        (Grouping::Layer, "Layer by Layer Info"),
    ] {
        groups(profile, grouping, name, &mut book, &bold).map_err(failed)?;
    }
    for (stream, events) in profile.streams().filter(|(_, events)| !events.is_empty()) {
        engines::write(profile, stream, events, &mut book, &bold).map_err(failed)?;
    }
    book.save(path).map_err(failed)
}

/// What writing a cell gives.
type Written = std::result::Result<(), XlsxError>;

/// Names in bold from a column on.
fn header(sheet: &mut Worksheet, row: u32, from: u16, names: &[&str], bold: &Format) -> Written {
    for (column, name) in (from..).zip(names) {
        sheet.write_with_format(row, column, *name, bold)?;
    }
    Ok(())
}

/// What is missing or doubtful, the first sheet of a dump that is not whole.
fn account(profile: &Profile, sheet: &mut Worksheet, bold: &Format) -> Written {
    sheet.set_name("NOT WHOLE")?;
    header(sheet, 0, 0, &["Where", "Count", "What"], bold)?;
    for (row, finding) in (1..MAX_ROWS).zip(profile.report.losses()) {
        sheet.write(row, 0, &finding.place)?;
        sheet.write(row, 1, finding.count as f64)?;
        sheet.write(row, 2, &finding.text)?;
    }
    Ok(())
}

fn groups(
    profile: &Profile,
    grouping: Grouping,
    name: &str,
    book: &mut Workbook,
    bold: &Format,
) -> Written {
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
    header(sheet, 0, 0, &names, bold)?;
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
