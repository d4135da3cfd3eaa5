//! One table of all events: its columns as typed values, for Parquet and the page.

use crate::matching::event::Certainty;
use crate::profile::Profile;
use crate::report::Engine;
use crate::view::View;

/// One event as a row.
#[derive(Debug, Clone, PartialEq)]
pub struct TableRow<'a> {
    /// Engine.
    pub engine: &'static str,
    /// Core that ran or submitted it.
    pub core: Option<u32>,
    /// Port, for CDMA.
    pub port: Option<u32>,
    /// Place in its stream.
    pub global_idx: u64,
    /// Command id, as reports count it.
    pub cmd_id: u64,
    /// Start in ns.
    pub start_ns: i64,
    /// End in ns.
    pub end_ns: i64,
    /// Cycles, both ends counted.
    pub cycles: u64,
    /// Type of function.
    pub function_type: String,
    /// Name of function.
    pub function_name: String,
    /// `DDR->LMEM` and the like; missing where nothing tells.
    pub direction: Option<&'static str>,
    /// Element type; missing where nothing tells.
    pub data_type: Option<&'static str>,
    /// Bytes moved, for DMA.
    pub bytes: Option<u64>,
    /// Operations that the algorithm needs; `None` if a part of the command is not known.
    pub alg_ops: Option<f64>,
    /// Operations that the hardware runs; `None` if a part of the command is not known.
    pub uarch_ops: Option<f64>,
    /// Kernel.
    pub kernel: Option<&'a str>,
    /// Number of the kernel's launch.
    pub launch: Option<u32>,
    /// Batch.
    pub batch: Option<u32>,
    /// How the command was sent.
    pub mode: Option<&'static str>,
    /// Number of the layer.
    pub layer: Option<u32>,
    /// Name of the layer.
    pub layer_name: Option<&'a str>,
    /// How certain the assignment of the command is.
    pub certainty: &'static str,
}

/// A view as a row.
pub fn row<'a>(profile: &'a Profile, view: &View<'a>) -> TableRow<'a> {
    let event = view.event;
    let cdma = view.stream.engine == Engine::Cdma;
    let layer = profile
        .layers
        .as_ref()
        .and_then(|l| l.of(view.stream.engine, view.stream.number, event.id));
    let known =
        |text: &'static str| (!text.is_empty() && !text.contains("unknown")).then_some(text);
    TableRow {
        engine: view.stream.engine.name(),
        core: if cdma {
            event.core()
        } else {
            Some(view.stream.number)
        },
        port: cdma.then_some(view.stream.number),
        global_idx: view.index as u64,
        cmd_id: view.command_id(),
        start_ns: event.start_ns,
        end_ns: event.end_ns,
        cycles: event.cycles(),
        function_type: view.kind.to_string(),
        function_name: view.name.to_string(),
        direction: view.direction().and_then(known),
        data_type: known(view.data_type()),
        bytes: view.dma().map(|dma| dma.bytes),
        alg_ops: view.ops().map(|ops| ops.alg_ops as f64),
        uarch_ops: view.ops().map(|ops| ops.uarch_ops as f64),
        kernel: view.kernel,
        launch: view.scope,
        batch: event.batch(),
        mode: event.mode().name(),
        layer: layer.map(|l| l.id),
        layer_name: layer.map(|l| l.name.as_str()),
        certainty: match event.certainty() {
            Certainty::Matched => "matched",
            Certainty::Guessed => "guessed",
            Certainty::Unmatched => "unmatched",
            Certainty::NoCommands => "no_commands",
        },
    }
}
