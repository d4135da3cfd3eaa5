//! All that is known of an event as keys and values, in the order of bigTpuProfile's RegInfo files.
//!
//! Each chip, and within a chip commands known whole or by their node only, has its own list. Values that bigTpuProfile
//! makes up where nothing is known (direction, element type) are `unknown` here.

mod dma;

use std::borrow::Cow;
use std::fmt;

use crate::chip::Chip;
use crate::input::nodes::{Mode, node_function, node_info, node_task};
use crate::input::pmu::word;
use crate::matching::event::Link;
use crate::view::{Detail, View, percent};

/// A value.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// An integer.
    Int(i128),
    /// A float, which is always printed with a decimal point.
    Float(f64),
    /// Text.
    Text(Cow<'static, str>),
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Int(value) => write!(f, "{value}"),
            Value::Float(value) => write!(f, "{value:?}"),
            Value::Text(value) => f.write_str(value),
        }
    }
}

impl From<u64> for Value {
    fn from(value: u64) -> Value {
        Value::Int(i128::from(value))
    }
}

impl From<u32> for Value {
    fn from(value: u32) -> Value {
        Value::Int(i128::from(value))
    }
}

impl From<i64> for Value {
    fn from(value: i64) -> Value {
        Value::Int(i128::from(value))
    }
}

impl From<i128> for Value {
    fn from(value: i128) -> Value {
        Value::Int(value)
    }
}

impl From<f64> for Value {
    fn from(value: f64) -> Value {
        Value::Float(value)
    }
}

impl From<&'static str> for Value {
    fn from(value: &'static str) -> Value {
        Value::Text(Cow::Borrowed(value))
    }
}

impl From<Cow<'static, str>> for Value {
    fn from(value: Cow<'static, str>) -> Value {
        Value::Text(value)
    }
}

impl From<String> for Value {
    fn from(value: String) -> Value {
        Value::Text(Cow::Owned(value))
    }
}

/// Keys and values in order, each key once.
#[derive(Debug, Clone, Default)]
pub struct FieldList(pub Vec<(&'static str, Value)>);

impl FieldList {
    /// Appends a key that is not there yet.
    fn push(&mut self, key: &'static str, value: impl Into<Value>) {
        self.0.push((key, value.into()));
    }

    /// Sets a key that may be there; it keeps its place then.
    fn set(&mut self, key: &'static str, value: impl Into<Value>) {
        match self.0.iter_mut().find(|(k, _)| *k == key) {
            Some((_, old)) => *old = value.into(),
            None => self.push(key, value),
        }
    }

    /// The value of a key.
    pub fn get(&self, key: &str) -> Option<&Value> {
        self.0
            .iter()
            .find(|(k, _)| *k == key)
            .map(|(_, value)| value)
    }
}

/// All fields of an event: those of the record, and those of the TIU command, which RegInfo files list apart.
#[derive(Debug, Clone, Default)]
pub struct Fields {
    /// The event.
    pub info: FieldList,
    /// The TIU command or node.
    pub command: FieldList,
}

/// The fields of an event.
pub fn fields(view: &View) -> Fields {
    let mut fields = Fields::default();
    match &view.detail {
        Detail::Tiu(_) => tiu(view, &mut fields),
        Detail::Dma(dma) => {
            let info = &mut fields.info;
            match (view.chip, view.decoded.is_some()) {
                (Chip::Aks | Chip::Aksv, true) => dma::aks_whole(view, dma, info),
                (Chip::Bm1688, true) => dma::bm1688_whole(view, dma, info),
                (Chip::Cv84x6, true) => dma::cv84x6_whole(view, dma, info),
                (Chip::Cv84x6, false) => dma::cv84x6_node(view, dma, info),
                (_, false) => dma::node(view, dma, info),
            }
        }
    }
    tail(view, &mut fields.info);
    fields
}

/// The fields at the end of every event.
fn tail(view: &View, info: &mut FieldList) {
    info.set("Global Idx", view.index as u64);
    match view.event.core() {
        Some(core) => info.set("Core Id", core),
        None => info.set("Core Id", "None"),
    }
    if let Some(mode) = view.event.mode().name() {
        info.push("mode", mode);
    }
    if let (Some(kernel), Some(scope)) = (view.kernel, view.scope) {
        info.push("kernel_func", kernel.to_string());
        info.push("func_scope_id", scope);
    }
    if let Some(batch) = view.event.batch() {
        info.push("batch_launch", batch);
    }
}

/// The fields of a TIU command. The function is long because it is a table: one line for each field, in the order of
/// RegInfo.
fn tiu(view: &View, fields: &mut Fields) {
    let info = &mut fields.info;
    let cv = view.chip == Chip::Cv84x6;
    let event = view.event;
    let cycles = event.cycles() as f64;
    let ops = view.ops().unwrap_or_default();
    let Some(decoded) = view.decoded else {
        if cv {
            info.push("Engine Id", 0u32);
            times(view, info);
        }
        info.push("Function Type", view.kind.clone());
        info.push("Function Name", view.name.clone());
        if cv {
            let conflicts = word(view.record, 3) >> 1;
            info.push("Bank Conflict Cycle", conflicts);
            info.push(
                "Bank Conflict Ratio",
                percent(f64::from(conflicts) / cycles, 1),
            );
            info.push("Thread Id", word(view.record, 3) & 1);
            info.push("Alg Ops", 1u32);
            info.push("uArch Ops", 1u32);
            info.push("Alg Cycle", 0u32);
            info.push("uArch Rate", "0.0%");
            info.push("Sim Power(W)", 0u32);
        } else {
            times(view, info);
            info.push("Engine Id", 0u32);
            info.push("Alg Ops", 1u32);
            info.push("uArch Ops", 1u32);
            info.push("Alg Cycle", 0u32);
            info.push("uArch Rate", "0.0%");
        }
        node_fields(view, &mut fields.command);
        return;
    };
    for field in &decoded.layout.fields {
        // The names live as long as the program: the tables are never dropped.
        fields
            .command
            .push(&field.des_name, decoded.value(field.name));
    }
    if view.chip != Chip::Aks && view.chip != Chip::Aksv {
        let message = decoded.layout.name == "SYS" && view.function / 2 == 4;
        let imm = if message { decoded.value("imm") } else { 0 };
        fields.command.push("Msg Id", imm & 0x7f);
        fields.command.push("Sd\\Wt Count", imm >> 16 & 7);
    }
    info.push("Function Name", view.name.clone());
    info.push("Function Type", view.kind.clone());
    times(view, info);
    info.push("Engine Id", 0u32);
    info.push("Alg Ops", ops.alg_ops);
    info.push("uArch Ops", ops.uarch_ops);
    match view.chip {
        Chip::Aks | Chip::Aksv => {
            info.push("uArch Rate", view.uarch_rate());
            info.push("Alg Cycle", ops.alg_cycles);
        }
        Chip::Bm1688 | Chip::Cv84x6 => {
            info.push("Alg Cycle", ops.alg_cycles);
            info.push(
                "uArch Rate",
                percent(ops.alg_ops as f64 / ops.uarch_ops.max(1) as f64, 1),
            );
            info.push(
                "Initial Cycle Ratio",
                percent(ops.initial_cycles as f64 / (cycles + 1e-4), 1),
            );
            let conflicts = if cv {
                i128::from(word(view.record, 3) >> 1)
            } else {
                ops.bank_conflict_cycles
            };
            if cv {
                info.push("Bank Conflict Cycle", conflicts);
            }
            info.push(
                "Bank Conflict Ratio",
                percent(conflicts as f64 / (cycles + 1e-4), 1),
            );
            if cv {
                info.push("Thread Id", word(view.record, 3) & 1);
            }
            info.push("Sim Power(W)", 0u32);
        }
    }
}

/// The bits of a TIU node; without one, those of a node for the guess.
fn node_fields(view: &View, list: &mut FieldList) {
    let (kind, engine, info) = match view.event.link() {
        Link::Node { word, .. } => (word & 0x7f, word >> 7 & 7, node_info(word)),
        _ => (0, 0, 0),
    };
    let (task, function) = match view.event.link() {
        Link::Node { word, .. } => (node_task(word), node_function(word)),
        _ => (view.task, view.function),
    };
    list.push("type", kind);
    list.push("engine", engine);
    list.push("des_tsk_typ", task);
    list.push("des_tsk_eu_typ", function);
    list.push("extra_info", info);
    let generated = view.chip == Chip::Cv84x6 && view.event.mode() == Mode::Rvt;
    if !generated && view.kind != "sys" {
        list.push("des_opt_res0_prec", info & 0x7f);
    }
}

fn times(view: &View, info: &mut FieldList) {
    info.push("Start Time(ns)", view.event.start_ns);
    info.push("End Time(ns)", view.event.end_ns);
    info.push("Cmd Id", view.command_id());
    info.push("Asic Cycle", view.event.cycles());
}
