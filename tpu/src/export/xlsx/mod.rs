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

use rust_xlsxwriter::{Workbook, XlsxError};

use crate::analysis::rollup::{Filter, Group, Grouping, roll_up};
use crate::analysis::roofline::{element_bytes, place};
use crate::analysis::summary::Summary;
use crate::error::{Error, Result};
use crate::profile::Profile;
use crate::report::Engine;
use style::{Kind, Page, Style};

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
    sheets(profile, summary, &mut book, &style).map_err(failed)?;
    book.save(path).map_err(failed)
}

/// The result of writing a cell.
type Written<T = ()> = std::result::Result<T, XlsxError>;

/// Writes all sheets.
fn sheets(profile: &Profile, summary: &Summary, book: &mut Workbook, style: &Style) -> Written {
    if !profile.report.is_whole() {
        account(profile, &mut page(book, style, "NOT WHOLE")?)?;
    }
    let element_bytes = element_bytes(profile);
    let mut front = page(book, style, "Summary")?;
    front::write(profile, summary, element_bytes, &mut front)?;
    totals::write(profile, summary, &mut page(book, style, "Engine Summary")?)?;
    for (grouping, name) in [
        (Grouping::Operator, "Operators"),
        (Grouping::Shape, "Operators by shape"),
        (Grouping::Kernel, "Kernels"),
        (Grouping::Layer, "Layer by Layer Info"),
    ] {
        let mut groups = roll_up(profile, grouping, &Filter::default());
        if grouping == Grouping::Layer {
            groups.sort_by_key(|group| group.order);
        }
        if !groups.is_empty() {
            let mut page = page(book, style, name)?;
            write_groups(profile, &groups, element_bytes, &mut page)?;
        }
    }
    let streams = profile.streams().filter(|(_, events)| !events.is_empty());
    for (stream, events) in streams {
        engines::write(profile, stream, events, book, style)?;
    }
    Ok(())
}

/// A new sheet.
fn page<'a>(book: &'a mut Workbook, style: &'a Style, name: &str) -> Written<Page<'a>> {
    let sheet = book.add_worksheet().set_name(name)?;
    Ok(Page { sheet, style })
}

/// Missing or doubtful data: the first sheet of a damaged dump.
fn account(profile: &Profile, page: &mut Page<'_>) -> Written {
    let names = "Where|Count|What";
    page.header(0, 0, names)?;
    page.widths(names.split('|'), 20.0)?;
    page.sheet.set_column_width(2, 120)?;
    page.sheet.set_freeze_panes(1, 0)?;
    for (row, finding) in (1..MAX_ROWS).zip(profile.report.losses()) {
        page.text(row, 0, &finding.place)?;
        page.text(row, 1, finding.count as f64)?;
        let text = &page.style.text;
        page.sheet.write_with_format(row, 2, &finding.text, text)?;
    }
    Ok(())
}

/// Columns of a sheet of groups.
const GROUP_COLUMNS: &str = "Number|Name|Kind|Engine|Count|Total (ns)|Share|TIU cycles|DMA cycles|Bytes|\
    DDR read (B)|DDR written (B)|Alg ops|uArch ops|Median (ns)|Gop/s|Share of peak";

fn write_groups(
    profile: &Profile,
    groups: &[Group],
    element_bytes: f64,
    page: &mut Page<'_>,
) -> Written {
    use Kind::{Fixed, Percent, Whole};
    page.header(0, 0, GROUP_COLUMNS)?;
    page.widths(GROUP_COLUMNS.split('|'), 12.0)?;
    page.sheet.set_freeze_panes(1, 2)?;
    let last = groups.len().min(MAX_ROWS as usize - 1) as u32;
    let columns = GROUP_COLUMNS.split('|').count() as u16;
    page.sheet.autofilter(0, 0, last, columns - 1)?;
    for (row, group) in (1..MAX_ROWS).zip(groups) {
        let point = place(profile.chip.spec(), profile.tiu_mhz, element_bytes, group);
        page.numbers(row, 0, [(Some(f64::from(group.order)), Whole)])?;
        page.text(row, 1, group.label())?;
        page.text(row, 2, &group.kind)?;
        page.text(row, 3, group.engine.map_or("", Engine::name))?;
        let numbers = [
            (Some(group.count as f64), Whole),
            (Some(group.total_ns as f64), Whole),
            (Some(group.share), Percent),
            (Some(group.tiu_cycles as f64), Whole),
            (Some(group.dma_cycles as f64), Whole),
            (Some(group.bytes as f64), Whole),
            (Some(group.ddr_read_bytes as f64), Whole),
            (Some(group.ddr_write_bytes as f64), Whole),
            (group.alg_ops, Whole),
            (group.uarch_ops, Whole),
            (group.median_ns(), Whole),
            (point.achieved_gops, Fixed),
            (point.peak_share, Percent),
        ];
        page.numbers(row, 4, numbers)?;
    }
    Ok(())
}
