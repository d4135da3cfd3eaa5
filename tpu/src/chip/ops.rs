//! Operations a TIU command does: what the algorithm needs, what the hardware runs, and the cycles that takes.
//!
//! The formulas are those of bigTpuProfile 0.3.7 (`opdef.py` of each chip). The algorithm's operations follow from the
//! shapes, the hardware's from the shapes rounded up to lanes and vector units. Cycles are those at full use of the
//! units. Values are signed and wide because damaged shapes make them negative or huge.

use crate::chip::regs::Layout;
use crate::chip::{Chip, ChipSpec};

/// Operations and cycles of one TIU command.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TiuOps {
    /// Operations that the algorithm needs.
    pub alg_ops: i128,
    /// Operations that the hardware runs for them.
    pub uarch_ops: i128,
    /// Cycles for the algorithm's operations at full use.
    pub alg_cycles: i128,
    /// Cycles before the first result (BM1688 and CV84X6).
    pub initial_cycles: i128,
    /// Cycles lost to bank conflicts by the formula (BM1688).
    pub bank_conflict_cycles: i128,
}

/// A chip's units, with the rounding its formulas use.
struct Units {
    chip: Chip,
    lanes: i128,
    eu: i128,
    cube: i128,
}

/// Outputs that a cube works on at once, and vector bytes of one lane: the same on all chips.
const CUBE_OUTPUTS: i128 = 4;
const LANE_BYTES: i128 = 16;
const F32: u64 = 2;

fn align(value: i128, unit: i128) -> i128 {
    value
        .saturating_add(unit - 1)
        .div_euclid(unit)
        .saturating_mul(unit)
}

fn div_up(value: i128, unit: i128) -> i128 {
    if unit == 0 {
        0
    } else {
        value.saturating_add(unit - 1).div_euclid(unit)
    }
}

fn product(values: &[i128]) -> i128 {
    values
        .iter()
        .fold(1i128, |all, value| all.saturating_mul(*value))
}

impl Units {
    fn new(spec: &ChipSpec) -> Units {
        Units {
            chip: spec.chip,
            lanes: i128::from(spec.lanes),
            eu: i128::from(spec.eu_per_lane),
            cube: i128::from(spec.cube_ic),
        }
    }

    /// `base` units for bytes, fewer for wider elements.
    fn per_type(base: i128, prec: u64) -> i128 {
        match prec {
            2 | 4 => base / 4,
            1 | 3 | 5 => base / 2,
            6 => base * 2,
            _ => base,
        }
    }

    fn eu(&self, prec: u64) -> i128 {
        Self::per_type(self.eu, prec)
    }

    fn cube(&self, prec: u64) -> i128 {
        if matches!(prec, 2 | 4) {
            1
        } else {
            Self::per_type(self.cube, prec)
        }
    }

    /// Vector elements of one lane by whole bytes (four-bit elements count as a byte).
    fn lane_elements(bytes: i128) -> i128 {
        LANE_BYTES / bytes
    }
}

fn bytes_of(prec: u64) -> i128 {
    match prec {
        2 | 4 => 4,
        1 | 3 | 5 => 2,
        _ => 1,
    }
}

/// The operations of a TIU command. Long as a table is: one arm for each type of task.
pub fn tiu_ops(chip: Chip, layout: &Layout, command: &[u8]) -> TiuOps {
    let units = Units::new(chip.spec());
    let get = |field: &str| i128::from(layout.value(command, field));
    let prec = |field: &str| layout.value(command, field);
    let function = layout.value(command, "tsk_eu_typ");
    let (n, c, h, w) = (get("res0_n"), get("res0_c"), get("res0_h"), get("res0_w"));
    let opd0 = prec("opt_opd0_prec");
    let res0 = prec("opt_res0_prec");
    let lanes = units.lanes;
    // For most vector operations: rows of `eu` elements in every lane.
    let rows = |prec: u64, factor: i128| {
        product(&[
            n,
            align(c, lanes),
            align(h.saturating_mul(w), units.eu(prec)),
            factor,
        ])
    };
    let mut ops = TiuOps::default();
    let newer = chip == Chip::Cv84x6;
    let with_initial = matches!(chip, Chip::Bm1688 | Chip::Cv84x6);
    let kind = layout.name.strip_prefix('s').unwrap_or(layout.name);
    match kind {
        "CONV" => conv(&units, &get, opd0, &mut ops),
        "MM" => {
            let (mut m, mut k) = (get("opd0_n"), get("opd0_w").saturating_mul(get("opd0_c")));
            if get("opt_left_tran") != 0 {
                std::mem::swap(&mut m, &mut k);
            }
            let terms = k.saturating_mul(2);
            ops.alg_ops = product(&[m, w.saturating_mul(c), terms]);
            ops.uarch_ops = product(&[
                m,
                align(c, lanes).saturating_mul(align(w, units.eu(opd0))),
                terms,
            ]);
            ops.alg_cycles = div_up(ops.alg_ops, units.eu(opd0) * lanes * 2);
            ops.initial_cycles = 32;
        }
        "MM2" => mm2(&units, &get, function, (opd0, res0), &mut ops),
        "CMP" => {
            ops.alg_ops = product(&[n, c, h, w, 2]);
            ops.uarch_ops = rows(opd0, 2);
            let result = if !newer && matches!(function, 23 | 24 | 26) {
                prec("opt_opd2_prec")
            } else {
                opd0
            };
            ops.alg_cycles = div_up(
                ops.alg_ops,
                Units::lane_elements(bytes_of(result)) * lanes * 2,
            );
            ops.initial_cycles = 9;
        }
        "SFU" => {
            let taylor = function == 12 || (function == 13 && !newer);
            let factor = match function {
                _ if taylor && with_initial => 2 * get("opd1_n") - 1,
                _ if taylor => get("opd1_n"),
                17 => 30,
                _ => 1,
            };
            ops.alg_ops = product(&[n, c, h, w, factor]);
            ops.uarch_ops = rows(opd0, factor);
            let per_cycle = if taylor && with_initial { 2 } else { 1 };
            ops.alg_cycles = div_up(ops.alg_ops, units.eu(opd0) * lanes * per_cycle);
            ops.initial_cycles = if function == 17 { 14 } else { 0 };
        }
        "LIN" => {
            let operand = if newer { opd0 } else { res0 };
            ops.alg_ops = product(&[n, c, h, w, 2]);
            ops.uarch_ops = product(&[n, align(c, lanes), h, align(w, units.eu(operand)), 2]);
            ops.alg_cycles = div_up(
                ops.alg_ops,
                Units::lane_elements(bytes_of(res0)) * lanes * 2,
            );
            ops.initial_cycles = 12;
        }
        "VC" => {
            let n = if newer {
                1
            } else {
                (get("opd0_c") - 1).saturating_mul(get("opd0_w")) + get("opd1_w")
            };
            let widest = bytes_of(opd0)
                .max(bytes_of(prec("opt_opd1_prec")))
                .max(bytes_of(res0));
            let units_active = Units::lane_elements(widest);
            ops.alg_ops = product(&[n, c, w]);
            ops.uarch_ops = product(&[n, align(c, lanes), align(w, units_active)]);
            ops.alg_cycles = div_up(ops.alg_ops, units_active * lanes);
        }
        "AR" => {
            let factor = if function == 12 { 5 } else { 1 };
            ops.alg_ops = product(&[n, c, h, w, factor]);
            ops.uarch_ops = rows(opd0, factor);
            ops.alg_cycles = div_up(ops.alg_ops, units.eu(opd0) * factor * lanes);
            ops.initial_cycles = 11;
        }
        "PorD" => {
            let (factor, window) = match function {
                0 | 1 | 4 => (2, get("opd1_h").saturating_mul(get("opd1_w"))),
                // Bilinear: four multiply-adds, coordinates not counted.
                _ => (7, 1),
            };
            let each = factor * window - 1;
            ops.alg_ops = product(&[n, c, h, w, each]);
            ops.uarch_ops = rows(opd0, each);
            let per_cycle = match function {
                0 => 2,
                1 | 4 => 1,
                2 => 3,
                _ => 7,
            };
            ops.alg_cycles = div_up(ops.alg_ops, per_cycle * units.eu(opd0) * lanes);
            ops.initial_cycles = 10;
        }
        "RQ&DQ" | "RQ&sDQ" => {
            ops.alg_ops = product(&[n, c, h, w, 3]);
            ops.uarch_ops = rows(opd0, 3);
            ops.alg_cycles = div_up(ops.alg_ops, units.eu(opd0) * lanes * 3);
            ops.initial_cycles = 11;
            ops.bank_conflict_cycles = if get("res0_addr").saturating_mul(2) == get("opd0_addr") {
                2
            } else {
                1
            };
        }
        "SG" | "SGL" => {
            let operand = if kind == "SG" { opd0 } else { res0 };
            ops.alg_ops = product(&[n, c, h, w]);
            ops.uarch_ops = product(&[n, align(c, lanes), h, align(w, units.eu(operand))]);
            ops.alg_cycles = div_up(
                ops.alg_ops,
                if kind == "SG" { lanes } else { lanes * lanes },
            );
            ops.initial_cycles = if kind == "SG" { 11 } else { 24 };
        }
        "CW&BC" | "CW&sBC" => transpose(&units, function, res0, (n, c, h, w), &mut ops),
        "SYS" | "SYS_TR_ACC" | "SYS_TR_WR" | "YS" | "YS_TR_ACC" => {
            ops.alg_ops = 1;
            ops.uarch_ops = 1;
        }
        // Linear arithmetic, random numbers, reductions and backward convolutions: the tool has no formula.
        _ => {}
    }
    if !with_initial {
        ops.initial_cycles = 0;
        ops.bank_conflict_cycles = 0;
    }
    ops
}

fn conv(units: &Units, get: &dyn Fn(&str) -> i128, prec: u64, ops: &mut TiuOps) {
    let (n, oc, oh, ow) = (get("res0_n"), get("res0_c"), get("res0_h"), get("res0_w"));
    let (ic, kh, kw) = (get("opd0_c"), get("opd1_h"), get("opd1_w"));
    let bias = if get("opt_opd2_const") != 0 { 1 } else { 0 };
    let each = |ic: i128| product(&[2, ic, kh, kw]).saturating_sub(1 - bias);
    ops.alg_ops = product(&[n, oc, oh, ow, each(ic)]);
    let (ic_run, outputs) = if prec == F32 {
        (ic, units.eu(prec))
    } else {
        (align(ic, units.cube(prec)), CUBE_OUTPUTS)
    };
    ops.uarch_ops = product(&[
        n,
        align(oc, units.lanes),
        align(oh.saturating_mul(ow), outputs),
        each(ic_run),
    ]);
    let (channels, outputs) = if prec == F32 {
        (1, units.eu(prec))
    } else {
        (units.cube(prec), CUBE_OUTPUTS)
    };
    ops.alg_cycles = div_up(ops.alg_ops, units.lanes * channels * outputs * 2);
    ops.initial_cycles = 23;
}

fn mm2(
    units: &Units,
    get: &dyn Fn(&str) -> i128,
    function: u64,
    prec: (u64, u64),
    ops: &mut TiuOps,
) {
    let (mut m, mut k, mut n) = (get("res0_c"), get("opd1_w"), get("opd1_c"));
    let (nt, tt): (&[u64], &[u64]) = if units.chip == Chip::Cv84x6 {
        (&[5, 8, 11, 13], &[6, 9, 12])
    } else {
        (&[5], &[6])
    };
    if nt.contains(&function) {
        std::mem::swap(&mut k, &mut n);
    } else if tt.contains(&function) {
        (m, k, n) = (k, m, k);
    }
    ops.alg_ops = product(&[m, n, k, 2]);
    let columns = if units.chip == Chip::Bm1688 {
        units.cube(prec.1)
    } else {
        units.eu(prec.1)
    };
    ops.uarch_ops = product(&[
        align(m, units.lanes),
        align(n, columns),
        align(k, CUBE_OUTPUTS),
        2,
    ]);
    ops.alg_cycles = div_up(
        ops.alg_ops,
        units.cube(prec.0) * CUBE_OUTPUTS * units.lanes * 2,
    );
    ops.initial_cycles = match function {
        4 => 37 + 44,
        7 if units.chip == Chip::Cv84x6 => 37 + 44,
        5 => 37 + 19,
        8 | 11 | 13 if units.chip == Chip::Cv84x6 => 37 + 19,
        6 => 37,
        9 | 12 if units.chip == Chip::Cv84x6 => 37,
        _ => 0,
    };
}

fn transpose(
    units: &Units,
    function: u64,
    prec: u64,
    shape: (i128, i128, i128, i128),
    ops: &mut TiuOps,
) {
    let (mut n, c, mut h, mut w) = shape;
    if units.chip != Chip::Cv84x6 {
        // Results of the broadcasts from static memory.
        match function {
            4 => (n, h) = (1, 1),
            5 => (n, h, w) = (1, 1, 1),
            _ => {}
        }
    }
    ops.alg_ops = product(&[n, c, h, w]);
    let eu = units.eu(prec);
    let hw = if matches!(function, 2..=5) {
        align(h.saturating_mul(w), eu)
    } else {
        h.saturating_mul(align(w, eu))
    };
    ops.uarch_ops = product(&[n, align(c, units.lanes), hw]);
    let elements = Units::lane_elements(bytes_of(prec));
    let per_cycle = if matches!(function, 0 | 1 | 2 | 5) {
        elements
    } else {
        elements * units.lanes
    };
    ops.alg_cycles = div_up(ops.alg_ops, per_cycle);
    ops.initial_cycles = match function {
        0 => 30,
        2 | 3 => 27,
        4 | 5 => 3,
        _ => 0,
    };
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chip::regs::Table;

    /// A command with these fields set, all others 0.
    pub(crate) fn command(layout: &Layout, fields: &[(&str, u64)]) -> Vec<u8> {
        let mut bytes = vec![0u8; layout.bytes];
        for (name, value) in fields {
            let field = layout
                .fields
                .iter()
                .find(|f| f.name == *name)
                .unwrap_or_else(|| panic!("no field {name}"));
            for i in 0..field.width {
                if value >> i & 1 == 1 {
                    let bit = (field.bit + i) as usize;
                    bytes[bit / 8] |= 1 << (bit % 8);
                }
            }
        }
        bytes
    }

    #[test]
    fn convolution_counts_by_hand() {
        // 1x64x8x8 outputs, 24 inputs, 3x3, FP16: 2*24*9-1 operations each, without bias.
        let mut layouts = Table::of(Chip::Aks).layouts_for_test().iter();
        let layout = layouts.find(|layout| layout.name == "sCONV").unwrap();
        let bytes = command(
            layout,
            &[
                ("res0_n", 1),
                ("res0_c", 64),
                ("res0_h", 8),
                ("res0_w", 8),
                ("opd0_c", 24),
                ("opd1_h", 3),
                ("opd1_w", 3),
                ("opt_opd0_prec", 1),
            ],
        );
        let ops = tiu_ops(Chip::Aks, layout, &bytes);
        assert_eq!(ops.alg_ops, 64 * 64 * (2 * 24 * 9 - 1));
        assert_eq!(ops.uarch_ops, 64 * 64 * (2 * 32 * 9 - 1));
        assert_eq!(
            ops.alg_cycles,
            (ops.alg_ops + 64 * 32 * 8 - 1) / (64 * 32 * 8)
        );
        assert_eq!(ops.initial_cycles, 0);
    }

    #[test]
    fn damaged_shapes_do_not_overflow() {
        for chip in Chip::ALL {
            let table = Table::of(chip);
            for op in 0..u16::MAX {
                let Some(layout) = table.layouts_for_test().get(op as usize) else {
                    break;
                };
                if layout.unit == crate::chip::regs::CommandUnit::Tiu {
                    tiu_ops(chip, layout, &vec![0xff; layout.bytes]);
                    tiu_ops(chip, layout, &vec![0; layout.bytes]);
                }
            }
        }
    }
}
