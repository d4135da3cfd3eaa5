//! The columns of bigTpuProfile's spreadsheet and table: its own first, in its order and with its names, then every
//! further field of the records.
//!
//! Some columns are no RegInfo fields but made for the sheet: the layer, the average time of the last commands, the
//! element types in words. Owns what a cell holds; the files are [`super::xlsx`] and [`super::csv`].

use std::collections::HashSet;

use crate::chip::names::{self, CDMA_SYS, DMA_SYS};
use crate::matching::event::Event;
use crate::profile::Profile;
use crate::report::{Engine, Stream};
use crate::view::fields::{Fields, Value, fields};
use crate::view::{View, Viewer};

/// Columns of TIU sheets.
#[rustfmt::skip]
const TIU: [&str; 90] = [
    "Engine Id", "Core Id", "Global Idx", "Cmd Id", "Layer Id", "Layer Name", "Function Type", "Function Name",
    "Alg Cycle", "Asic Cycle", "Start Time(ns)", "End Time(ns)", "Avg Cycle Last 200", "Alg Ops", "uArch Ops",
    "uArch Rate", "Data Type", "des_cmd_id_dep", "des_res0_n", "des_res0_c", "des_res0_h", "des_res0_w",
    "des_res0_n_str", "des_res0_c_str", "des_res0_h_str", "des_res0_w_str", "des_opd0_n", "des_opd0_c", "des_opd0_h",
    "des_opd0_w", "des_opd0_n_str", "des_opd0_c_str", "des_opd0_h_str", "des_opd0_w_str", "des_opd1_n", "des_opd1_c",
    "des_opd1_h", "des_opd1_w", "des_opd1_n_str", "des_opd1_c_str", "des_opd1_h_str", "des_opd1_w_str",
    "des_opd2_n_str", "des_res0_addr", "des_res1_addr", "des_opd0_addr", "des_opd1_addr", "des_opd2_addr",
    "des_opd3_addr", "des_tsk_typ", "des_tsk_eu_typ", "des_cmd_short", "des_opt_res0_prec", "des_opt_opd0_prec",
    "des_opt_opd1_prec", "des_opt_opd2_prec", "des_short_opd0_str", "des_opt_opd0_const", "des_opt_opd1_const",
    "des_opt_opd2_const", "des_opt_opd3_const", "des_opt_opd4_const", "des_opt_opd5_const", "des_opt_res_add",
    "des_opt_res0_sign", "des_opt_opd0_sign", "des_opt_opd1_sign", "des_opt_opd2_sign", "des_opd0_rt_pad",
    "des_opd1_x_ins0", "des_opd0_up_pad", "des_opd0_lf_pad", "des_opt_left_tran", "des_pad_mode", "des_opd0_y_ins0",
    "des_opd1_y_ins0", "des_short_res0_str", "des_short_opd1_str", "des_sym_range", "des_opt_rq", "des_op_code",
    "des_opt_kernel_rotate", "des_res_op_x_str", "des_res_op_y_str", "des_opd0_x_ins0", "des_tsk_opd_num",
    "des_opd0_dn_pad", "des_intr_en", "des_opt_relu", "des_pwr_step",
];

/// Columns of DMA sheets.
#[rustfmt::skip]
const DMA: [&str; 55] = [
    "Engine Id", "Core Id", "Global Idx", "Cmd Id", "Layer Id", "Layer Name", "Function Type", "Function Name",
    "DMA data size(B)", "Start Time(ns)", "End Time(ns)", "Asic Cycle", "Stall Cycle", "DDR Bandwidth(GB/s)",
    "L2M Bandwidth(GB/s)", "Direction", "Data Type", "cmd_id_dep", "cmd_special_function", "src_start_addr",
    "dst_start_addr", "src_nsize", "src_csize", "src_hsize", "src_wsize", "dst_nsize", "dst_csize", "dst_hsize",
    "dst_wsize", "src_nstride", "src_cstride", "src_hstride", "src_wstride", "dst_nstride", "dst_cstride",
    "dst_hstride", "dst_wstride", "nchw_copy", "stride_enable", "src_data_format", "cmd_type", "index_csize",
    "index_hsize", "index_cstride", "index_hstride", "mask_start_addr_h8", "mask_start_addr_l32", "mask_data_format",
    "localmem_mask_h32", "localmem_mask_l32", "fill_constant_en", "constant_value", "index", "cmd_short", "intr_en",
];

/// Columns that are made for the sheet.
const MADE: [&str; 4] = ["Layer Id", "Layer Name", "Avg Cycle Last 200", "Data Type"];

fn own_columns(engine: Engine) -> &'static [&'static str] {
    match engine {
        Engine::Tiu => &TIU,
        _ => &DMA,
    }
}

/// The fields that occur in some streams, in the order of their first use.
fn keys(profile: &Profile, streams: &[(Stream, &[Event])]) -> Vec<&'static str> {
    let mut seen = HashSet::new();
    let mut keys = Vec::new();
    // The keys depend on a few properties of an event, so most events are not read here.
    let mut shapes = HashSet::new();
    for &(stream, events) in streams {
        let Some(viewer) = Viewer::new(profile, stream) else {
            continue;
        };
        for (index, event) in events.iter().enumerate() {
            let view = viewer.view(index, event);
            let shape = (
                view.stream.engine,
                view.decoded.map(|d| d.layout.name),
                view.event.mode(),
                view.kernel.is_some(),
                view.event.batch().is_some(),
                view.kind == "sys",
            );
            if !shapes.insert(shape) {
                continue;
            }
            let fields = fields(&view);
            let all = fields.info.0.iter().chain(&fields.command.0);
            keys.extend(all.map(|(key, _)| *key).filter(|key| seen.insert(*key)));
        }
    }
    keys
}

/// The columns of an engine's sheet. All of the vendor's columns are there. If more fields occur than the vendor has
/// columns, those without a field are left out. GDMA and SDMA of a core count together.
pub(super) fn sheet_columns(
    profile: &Profile,
    stream: Stream,
    events: &[Event],
) -> Vec<&'static str> {
    let core = profile
        .core(stream.number)
        .filter(|_| stream.engine != Engine::Cdma);
    let of = |engine: Engine| {
        core.map(|core| (Stream { engine, ..stream }, &*core.events[engine.slot()]))
    };
    let file = match (stream.engine, of(Engine::Gdma), of(Engine::Sdma)) {
        (Engine::Gdma | Engine::Sdma, Some(gdma), Some(sdma)) => keys(profile, &[gdma, sdma]),
        _ => keys(profile, &[(stream, events)]),
    };
    let own = own_columns(stream.engine);
    let all = file.len() < own.len();
    let shown = |column: &&&str| all || file.contains(*column) || MADE.contains(*column);
    let first = own.iter().filter(shown).copied();
    let rest = keys(profile, &[(stream, events)])
        .into_iter()
        .filter(|key| !own.contains(key));
    first.chain(rest).collect()
}

/// The columns of the table of all engines: those of the sheets, TIU first.
pub(super) fn table_columns(profile: &Profile) -> Vec<&'static str> {
    let streams: Vec<(Stream, &[Event])> = profile.streams().collect();
    let all = keys(profile, &streams);
    let shown = |column: &&str| all.contains(column) || MADE.contains(column);
    let own = TIU
        .into_iter()
        .chain(DMA.into_iter().filter(|column| !TIU.contains(column)));
    let mut columns: Vec<&'static str> = own.filter(shown).collect();
    let rest = all.iter().filter(|key| !columns.contains(*key)).copied();
    let rest: Vec<&'static str> = rest.collect();
    columns.extend(rest);
    columns
}

/// How addresses are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Addresses {
    /// Decimal numbers.
    Decimal,
    /// Hexadecimal numbers, as `0x…`.
    Hexadecimal,
}

/// One row: the cells of an event.
pub(super) struct Row<'a> {
    profile: &'a Profile,
    view: &'a View<'a>,
    events: &'a [Event],
    fields: Fields,
}

impl<'a> Row<'a> {
    /// The row of an event, the `view.index`-th of `events`.
    pub fn new(profile: &'a Profile, view: &'a View<'a>, events: &'a [Event]) -> Row<'a> {
        Row {
            profile,
            view,
            events,
            fields: fields(view),
        }
    }

    /// The value of a column, if the event has one.
    pub fn cell(&self, column: &str, addresses: Addresses) -> Option<Value> {
        let view = self.view;
        let tiu = view.stream.engine == Engine::Tiu;
        let layer = || {
            let layers = self.profile.layers.as_ref()?;
            layers.of(view.stream.engine, view.stream.number, view.event.id)
        };
        Some(match column {
            "Layer Id" => layer().map_or(Value::from("-"), |layer| layer.id.into()),
            "Layer Name" => {
                layer().map_or(Value::from("-"), |layer| layer.kind().to_string().into())
            }
            "Avg Cycle Last 200" => return tiu.then(|| self.average().into()),
            "Data Type" if tiu => self.element_types()?.into(),
            "Data Type" if self.is_sync() => "None".into(),
            "Direction" if self.is_sync() => "-".into(),
            _ => {
                let field = self.fields.info.get(column);
                let value = field.or_else(|| self.fields.command.get(column))?;
                let own = own_columns(view.stream.engine).contains(&column);
                let address = own && (column.contains("addr") || column.contains("mask"));
                match value {
                    Value::Int(number) if address && addresses == Addresses::Hexadecimal => {
                        format!("{number:#x}").into()
                    }
                    value => value.clone(),
                }
            }
        })
    }

    fn is_sync(&self) -> bool {
        match self.view.stream.engine {
            Engine::Tiu => false,
            Engine::Cdma => self.view.task == CDMA_SYS,
            _ => self.view.task == DMA_SYS,
        }
    }

    /// Time per command of the last 200, in ns; of all so far where there are fewer.
    fn average(&self) -> i64 {
        const LAST: usize = 200;
        let index = self.view.index;
        let end = self.view.event.end_ns;
        let mean = match (index + 1).checked_sub(LAST) {
            Some(first) => (end - self.events[first].start_ns) as f64 / LAST as f64,
            None => end as f64 / self.view.command_id() as f64,
        };
        mean.round_ties_even() as i64
    }

    /// `FP16 -> FP32`: the first operand's type and the result's.
    fn element_types(&self) -> Option<String> {
        let name = |key: &str| match self.fields.command.get(key) {
            Some(Value::Int(code)) => names::data_type(u32::try_from(*code).ok()?),
            _ => None,
        };
        let result = name("des_opt_res0_prec");
        let operand = name("des_opt_opd0_prec").or(result);
        Some(format!(
            "{} -> {}",
            operand.unwrap_or("None"),
            result.unwrap_or("None")
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_column_stands_twice() {
        for own in [&TIU[..], &DMA[..]] {
            assert_eq!(own.iter().collect::<HashSet<_>>().len(), own.len());
        }
    }
}
