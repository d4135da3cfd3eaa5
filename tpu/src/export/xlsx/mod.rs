//! Workbook: totals, operators, layers, and one sheet for each engine of each core (as many as its rows need).
//!
//! Engine sheets and the summary are laid out as bigTpuProfile's, its cells at its places, further columns to their
//! right. Its sheets `Summary` and `Layer by Layer Info` take their numbers from the model's compiler; here both hold what
//! was measured. Rows are written as they come, so that memory does not grow with the dump.

mod engines;
mod front;
mod style;
mod totals;

use std::path::Path;

use rust_xlsxwriter::{Format, Workbook, Worksheet, XlsxError};

use crate::analysis::rollup::{Filter, Grouping, roll_up};
use crate::analysis::roofline::{element_bytes, place};
use crate::analysis::summary::Summary;
use crate::error::{Error, Result};
use crate::profile::Profile;
use crate::report::Engine;
use style::{Kind, Style, widths};

/// Rows a sheet can hold.
pub const MAX_ROWS: u32 = 1_048_576;

/// Writes the workbook.
pub fn write(profile: &Profile, summary: &Summary, path: &Path) -> Result<()> {
    let failed = |error: XlsxError| Error::Workbook {
        path: path.to_path_buf(),
        what: error.to_string(),
    };
    let mut book = Workbook::new();
    let style = Style::new();
    if !profile.report.is_whole() {
        account(profile, book.add_worksheet(), &style).map_err(failed)?;
    }
    let element_bytes = element_bytes(profile);
    front::write(
        profile,
        summary,
        element_bytes,
        book.add_worksheet(),
        &style,
    )
    .map_err(failed)?;
    totals::write(profile, summary, book.add_worksheet(), &style).map_err(failed)?;
    for (grouping, name) in [
        (Grouping::Operator, "Operators"),
        (Grouping::Shape, "Operators by shape"),
        (Grouping::Kernel, "Kernels"),
        (Grouping::Layer, "Layer by Layer Info"),
    ] {
        groups(profile, grouping, name, element_bytes, &mut book, &style).map_err(failed)?;
    }
    for (stream, events) in profile.streams().filter(|(_, events)| !events.is_empty()) {
        engines::write(profile, stream, events, &mut book, &style).map_err(failed)?;
    }
    book.save(path).map_err(failed)
}

/// The result of writing a cell.
type Written = std::result::Result<(), XlsxError>;

/// Names in bold from a column on.
fn header(sheet: &mut Worksheet, row: u32, from: u16, names: &[&str], bold: &Format) -> Written {
    for (column, name) in (from..).zip(names) {
        sheet.write_with_format(row, column, *name, bold)?;
    }
    Ok(())
}

/// Missing or doubtful data: the first sheet of a damaged dump.
fn account(profile: &Profile, sheet: &mut Worksheet, style: &Style) -> Written {
    sheet.set_name("NOT WHOLE")?;
    let names = ["Where", "Count", "What"];
    header(sheet, 0, 0, &names, &style.bold)?;
    widths(sheet, &names, 20.0)?;
    sheet.set_column_width(2, 120)?;
    sheet.set_freeze_panes(1, 0)?;
    for (row, finding) in (1..MAX_ROWS).zip(profile.report.losses()) {
        sheet.write(row, 0, &finding.place)?;
        sheet.write(row, 1, finding.count as f64)?;
        sheet.write_with_format(row, 2, &finding.text, &style.text)?;
    }
    Ok(())
}

/// Columns of a sheet of groups: name and kind of content.
const GROUP_COLUMNS: [(&str, Option<Kind>); 17] = [
    ("Number", Some(Kind::Whole)),
    ("Name", None),
    ("Kind", None),
    ("Engine", None),
    ("Count", Some(Kind::Whole)),
    ("Total (ns)", Some(Kind::Whole)),
    ("Share", Some(Kind::Percent)),
    ("TIU cycles", Some(Kind::Whole)),
    ("DMA cycles", Some(Kind::Whole)),
    ("Bytes", Some(Kind::Whole)),
    ("DDR read (B)", Some(Kind::Whole)),
    ("DDR written (B)", Some(Kind::Whole)),
    ("Alg ops", Some(Kind::Whole)),
    ("uArch ops", Some(Kind::Whole)),
    ("Median (ns)", Some(Kind::Whole)),
    ("Gop/s", Some(Kind::Fixed)),
    ("Share of peak", Some(Kind::Percent)),
];

fn groups(
    profile: &Profile,
    grouping: Grouping,
    name: &str,
    element_bytes: f64,
    book: &mut Workbook,
    style: &Style,
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
    let names = GROUP_COLUMNS.map(|(name, _)| name);
    header(sheet, 0, 0, &names, &style.bold)?;
    widths(sheet, &names, 12.0)?;
    sheet.set_freeze_panes(1, 2)?;
    let last = groups.len().min(MAX_ROWS as usize - 1) as u32;
    sheet.autofilter(0, 0, last, names.len() as u16 - 1)?;
    for (row, group) in (1..MAX_ROWS).zip(&groups) {
        let point = place(profile.chip.spec(), profile.tiu_mhz, element_bytes, group);
        sheet.write(row, 1, group.label())?;
        sheet.write(row, 2, &group.kind)?;
        sheet.write(row, 3, group.engine.map_or("", Engine::name))?;
        let numbers = [
            (0, Some(f64::from(group.order))),
            (4, Some(group.count as f64)),
            (5, Some(group.total_ns as f64)),
            (6, Some(group.share)),
            (7, Some(group.tiu_cycles as f64)),
            (8, Some(group.dma_cycles as f64)),
            (9, Some(group.bytes as f64)),
            (10, Some(group.ddr_read_bytes as f64)),
            (11, Some(group.ddr_write_bytes as f64)),
            (12, group.alg_ops),
            (13, group.uarch_ops),
            (14, group.median_ns()),
            (15, point.achieved_gops),
            (16, point.peak_share),
        ];
        for (column, value) in numbers {
            let kind = GROUP_COLUMNS[usize::from(column)].1;
            if let (Some(value), Some(kind)) = (value, kind) {
                sheet.write_with_format(row, column, value, style.of(kind))?;
            }
        }
    }
    Ok(())
}
