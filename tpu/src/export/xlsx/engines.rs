//! The sheets of one engine: bigTpuProfile's block of totals, then its columns with all commands.
//!
//! A sheet holds 1,048,576 rows; an engine with more continues in `TIU_0 (2)` and so on, from the column names on. Rows
//! must be written from top to bottom.

use std::collections::HashMap;

use rust_xlsxwriter::Workbook;

use crate::export::layout::{Addresses, Row, sheet_columns};
use crate::export::xlsx::style::{Page, Style};
use crate::export::xlsx::{MAX_ROWS, Written};
use crate::matching::event::Event;
use crate::profile::Profile;
use crate::report::{Engine, Stream};
use crate::view::fields::Value;
use crate::view::{Memory, Role, View, Viewer, percent};

/// Number of rows after which the memory of mapped files is released.
const AT_ONCE: usize = 1 << 18;

/// Writes the sheets of an engine.
pub(super) fn write(
    profile: &Profile,
    stream: Stream,
    events: &[Event],
    book: &mut Workbook,
    style: &Style,
) -> Written {
    let Some(viewer) = Viewer::new(profile, stream) else {
        return Ok(());
    };
    let columns = sheet_columns(profile, stream, events);
    let base = format!("{}_{}", stream.engine.name(), stream.number);
    let mut next = 0;
    for part in 1.. {
        let sheet = book.add_worksheet_with_constant_memory();
        let page = &mut Page { sheet, style };
        page.widths(columns.iter().copied(), 12.0)?;
        let mut row = 0;
        if part == 1 {
            page.sheet.set_name(&base)?;
            row = match stream.engine {
                Engine::Tiu => tiu_block(profile, &viewer, page)?,
                _ => dma_block(&viewer, page)?,
            };
        } else {
            page.sheet.set_name(format!("{base} ({part})"))?;
        }
        page.header(row, 0, &columns.join("|"))?;
        // The cell that identifies a command, and the names of the columns.
        page.sheet.set_freeze_panes(row + 1, 4)?;
        let room = (MAX_ROWS - row - 1) as usize;
        for (index, event) in events.iter().enumerate().skip(next).take(room) {
            row += 1;
            let view = viewer.view(index, event);
            let cells = Row::new(profile, &view, events);
            for (column, name) in (0u16..).zip(&columns) {
                if let Some(value) = cells.cell(name, Addresses::Hexadecimal) {
                    write_value(page, row, column, &value)?;
                }
            }
            if index % AT_ONCE == 0 {
                viewer.release();
            }
        }
        next += room;
        if next >= events.len() {
            break;
        }
    }
    Ok(())
}

fn write_value(page: &mut Page<'_>, row: u32, column: u16, value: &Value) -> Written {
    match value {
        // Beyond 2^53 a spreadsheet would round: keep the digits as text.
        Value::Int(number) if number.unsigned_abs() < 1 << 53 => {
            page.text(row, column, *number as f64)
        }
        Value::Float(number) => page.text(row, column, *number),
        value => page.text(row, column, value.to_string()),
    }
}

fn row_of(page: &mut Page<'_>, row: u32, from: u16, values: &[Value]) -> Written {
    let mut cells = (from..).zip(values);
    cells.try_for_each(|(column, value)| write_value(page, row, column, value))
}

/// Sums of TIU commands of one type.
#[derive(Default, Clone)]
struct Work {
    commands: u64,
    alg_ops: i128,
    alg_cycles: i128,
    uarch_ops: i128,
    cycles: u64,
}

impl Work {
    fn add(&mut self, view: &View) {
        // Without the command's registers bigTpuProfile counts one operation.
        let (alg_ops, uarch_ops, alg_cycles) = view
            .ops()
            .map_or((1, 1, 0), |o| (o.alg_ops, o.uarch_ops, o.alg_cycles));
        self.commands += 1;
        self.alg_ops += alg_ops;
        self.uarch_ops += uarch_ops;
        self.alg_cycles += alg_cycles;
        self.cycles += view.event.cycles();
    }

    fn cells(&self, name: &str, all: &Work, cycles: u64) -> [Value; 11] {
        let share = |part: i128, whole: i128| Value::from(ratio(part as f64, whole as f64));
        [
            name.to_string().into(),
            self.commands.into(),
            self.alg_ops.into(),
            share(self.alg_ops, all.alg_ops),
            self.alg_cycles.into(),
            share(self.alg_cycles, all.alg_cycles),
            self.uarch_ops.into(),
            share(self.alg_ops, self.uarch_ops),
            share(self.uarch_ops, all.uarch_ops),
            self.cycles.into(),
            share(i128::from(self.cycles), i128::from(cycles)),
        ]
    }
}

fn ratio(part: f64, whole: f64) -> String {
    percent(if whole == 0.0 { 0.0 } else { part / whole }, 2)
}

/// Writes the head of a TIU sheet: totals, the chip, and a row for each type of function. Returns the row of the column
/// names.
fn tiu_block(profile: &Profile, viewer: &Viewer, page: &mut Page<'_>) -> Written<u32> {
    let mut kinds: Vec<(String, Work)> = Vec::new();
    let mut places: HashMap<String, usize> = HashMap::new();
    let (mut all, mut waiting) = (Work::default(), 0);
    for view in viewer.views() {
        let event = view.event;
        if view.role == Role::Wait {
            waiting += event.cycles();
        }
        all.add(&view);
        let next = kinds.len();
        let at = *places.entry(view.kind.to_string()).or_insert(next);
        if at == next {
            kinds.push((view.kind.to_string(), Work::default()));
        }
        kinds[at].1.add(&view);
    }
    let working = all.cycles - waiting;
    let args = profile.chip.args(profile.tiu_mhz, profile.dma_mhz);
    let chip = |key: &str| {
        let value = args.iter().find(|(k, _)| *k == key);
        Value::from(value.map_or_else(String::new, |(_, v)| v.clone()))
    };
    // The sheet's names of the chip's arguments, and theirs.
    let spec = [
        ("Platform", "Platform"),
        ("CHIP ARCH", "Chip Arch"),
        ("Core Num", "Core Num"),
        ("NPU Num", "NPU Num"),
        ("Cube IC Align(8bits)", "Cube IC Align(8bits)"),
        ("Cube OHOW Align", "Cube OHOW Align(8bits)"),
        ("Vector OHOW Align(8bits)", "Vector OHOW Align(8bits)"),
        ("TIU Frequency(MHz)", "TIU Frequency(MHz)"),
        ("DMA Frequency(MHz)", "DMA Frequency(MHz)"),
        ("DDR Frequency(MHz)", "DDR Frequency(MHz)"),
        ("TPU Lmem Size(MiB)", "TPU Lmem Size(MiB)"),
    ];
    let names = spec.map(|(name, _)| name);
    let values = spec.map(|(_, key)| chip(key));
    let totals =
        "totalTiuCycle|totalAlgCycle|algTotalOps|totalUArchOps|uArchURate|waitMsgTotalTime";
    page.header(0, 0, "Performance")?;
    page.header(0, 1, totals)?;
    page.header(0, 14, "Detail Spec")?;
    page.header(0, 15, &names.join("|"))?;
    page.header(1, 0, "Summary")?;
    let rate = ratio(all.alg_ops as f64, all.uarch_ops as f64);
    let sums = [
        working.into(),
        all.alg_cycles.into(),
        all.alg_ops.into(),
        all.uarch_ops.into(),
        rate.into(),
        Value::from(waiting),
    ];
    row_of(page, 1, 1, &sums)?;
    row_of(page, 1, 15, &values)?;
    let columns = "Statistics|Function Name|Instr Num|Alg Ops|Alg Ops Ratio|Alg Cycle|Alg Cycle Ratio|\
        uArch Ops|uArch URate|uArch Ops Ratio|Asic Cycle|Asic Cycle Ratio";
    page.header(5, 0, columns)?;
    let mut row = 6;
    for (name, work) in &kinds {
        row_of(page, row, 1, &work.cells(name, &all, working))?;
        row += 1;
    }
    let overall = Work {
        cycles: working,
        ..all.clone()
    };
    let mut cells = overall.cells("Overall", &all, working);
    for share in [3, 5, 8, 10] {
        cells[share] = "100.00%".into();
    }
    row_of(page, row, 1, &cells)?;
    Ok(row + 2)
}

/// Totals. Returns the row of the column names.
fn dma_block(viewer: &Viewer, page: &mut Page<'_>) -> Written<u32> {
    let (mut cycles, mut waiting, mut stalled) = (0, 0, 0);
    // Bytes and ns of transfers with DDR, and of the others with L2.
    let mut traffic = [(0u64, 0u64); 2];
    for view in viewer.views() {
        let event = view.event;
        cycles += event.cycles();
        if view.role == Role::Wait {
            waiting += event.cycles();
        }
        let Some(dma) = view.dma() else { continue };
        if view.stream.engine != Engine::Cdma {
            stalled += dma.stall_cycles;
        }
        let touches = |memory| dma.from == memory || dma.to == memory;
        let slot = match view.role {
            Role::Work if touches(Memory::Ddr) => 0,
            Role::Work if touches(Memory::L2) => 1,
            _ => continue,
        };
        if dma.bytes > 0 || view.stream.engine != Engine::Cdma {
            traffic[slot].0 += dma.bytes;
            traffic[slot].1 += event.cycles();
        }
    }
    let rate = |(bytes, cycles): (u64, u64)| {
        let ns = (cycles as f64 / viewer.dma_mhz() * 1000.0) as u64;
        let value = if ns == 0 {
            0.0
        } else {
            bytes as f64 / ns as f64
        };
        Value::Float((value * 100.0).round_ties_even() / 100.0)
    };
    let names = "totalDmaCycle|workingCycle|totalStallCycle|stallCycleRatio|totalDdrDataSize(B)|\
        totalL2DataSize(B)|ddrAvgBandwidth(GB/s)|l2AvgBandwidth(GB/s)|waitMsgTotalTime";
    page.header(0, 0, "Performance")?;
    page.header(0, 2, names)?;
    page.header(1, 0, "Summary")?;
    let sums = [
        Value::from(cycles - waiting),
        Value::from(cycles - waiting),
        stalled.into(),
        ratio(stalled as f64, cycles as f64).into(),
        traffic[0].0.into(),
        traffic[1].0.into(),
        rate(traffic[0]),
        rate(traffic[1]),
        waiting.into(),
    ];
    row_of(page, 1, 2, &sums)?;
    let note = "*Stall Cycle: cycles in which TIU and DMA waited for one another's bank.";
    page.text(4, 0, note)?;
    Ok(5)
}
