//! Layer files of a compiled model: `tensor_location.json` (which commands each layer made) and `final.mlir` (name,
//! operations and type of the net).
//!
//! A layer covers the commands after `tiu_dma_id(before)` up to `tiu_dma_id(after)`, for the TIU and the GDMA of its
//! core and subnet. Names are those of its first result.

use std::collections::HashMap;
use std::path::Path;

use serde::Deserialize;

use crate::error::{Error, Result};
use crate::input::regular::read_regular;
use crate::report::Engine;

/// One layer.
#[derive(Debug, Clone, PartialEq)]
pub struct Layer {
    /// Number in the file, from 1.
    pub id: u32,
    /// Line in `final.mlir`.
    pub line: u64,
    /// Subnet.
    pub subnet: u32,
    /// Core that runs it.
    pub core: u32,
    /// Operator, e.g. `tpu.Conv2D`.
    pub opcode: String,
    /// Name of its first result, or of its first operand.
    pub name: String,
    /// Whether it works on local memory only.
    pub local: bool,
    /// TIU commands, first and after last, counted from 0.
    pub tiu: (u64, u64),
    /// GDMA commands, first and after last, counted from 0.
    pub gdma: (u64, u64),
    /// Operands: shape and type as in `<1x3x128x128xf32>`.
    pub operands: Vec<Tensor>,
    /// Results.
    pub results: Vec<Tensor>,
}

impl Layer {
    /// The operator without its dialect.
    pub fn kind(&self) -> &str {
        self.opcode.rsplit('.').next().unwrap_or(&self.opcode)
    }
}

/// A tensor of a layer.
#[derive(Debug, Clone, PartialEq)]
pub struct Tensor {
    /// Its name.
    pub name: String,
    /// Extents.
    pub shape: Vec<u64>,
    /// Element type, e.g. `f16`.
    pub dtype: String,
    /// Address in its memory.
    pub address: u64,
    /// Layout, e.g. `eu_align`; `continuous` in global memory.
    pub layout: String,
}

/// The layers of a model.
#[derive(Debug, Clone, PartialEq)]
pub struct Layers {
    /// The layers in order.
    pub layers: Vec<Layer>,
    /// The net's name, if `final.mlir` says.
    pub net: Option<String>,
    /// The net's operations, if `final.mlir` says.
    pub flops: Option<u64>,
    /// The net's type, e.g. `f16`, if `final.mlir` says.
    pub mode: Option<String>,
    index: HashMap<(Engine, u32, u64), usize>,
}

#[derive(Deserialize)]
struct RawTensor {
    #[serde(default)]
    address: Option<u64>,
    #[serde(default)]
    layout: String,
    #[serde(default)]
    memory_type: String,
    #[serde(default)]
    name: String,
}

#[derive(Deserialize)]
struct RawLayer {
    #[serde(rename = "file-line")]
    line: u64,
    subnet_id: u32,
    core_id: u32,
    opcode: String,
    #[serde(default)]
    is_local: bool,
    #[serde(rename = "tiu_dma_id(before)")]
    before: [u64; 2],
    #[serde(rename = "tiu_dma_id(after)")]
    after: [u64; 2],
    operands: Vec<RawTensor>,
    results: Vec<RawTensor>,
}

impl Layers {
    /// Reads both files.
    pub fn read(location: &Path, mlir: &Path) -> Result<Layers> {
        let bytes = read_regular(location)?;
        let raw: Vec<RawLayer> = serde_json::from_slice(&bytes).map_err(|error| Error::Json {
            path: location.to_path_buf(),
            what: format!("{error}; expected the list of layers that the compiler wrote"),
        })?;
        let text = read_regular(mlir)?;
        let text = String::from_utf8_lossy(&text);
        let head = text
            .lines()
            .find(|line| line.trim_start().starts_with("module @"))
            .unwrap_or_default();
        let layers: Vec<Layer> = raw
            .into_iter()
            .enumerate()
            .map(|(i, layer)| layer_of(i as u32 + 1, layer))
            .collect();
        let mut index = HashMap::new();
        for (number, layer) in layers.iter().enumerate() {
            for (engine, (first, behind)) in [(Engine::Tiu, layer.tiu), (Engine::Gdma, layer.gdma)]
            {
                // A damaged file may claim ranges without end.
                for id in first..behind.min(first.saturating_add(1 << 20)) {
                    index.entry((engine, layer.core, id)).or_insert(number);
                }
            }
        }
        Ok(Layers {
            net: word_after(head, "module @").map(str::to_string),
            flops: word_after(head, "module.FLOPs = ").and_then(|n| n.parse().ok()),
            mode: word_after(head, "module.mode = \"").map(str::to_ascii_lowercase),
            layers,
            index,
        })
    }

    /// The layer that a command belongs to; `id` counts from 0 as in PMU records.
    pub fn of(&self, engine: Engine, core: u32, id: u32) -> Option<&Layer> {
        self.index
            .get(&(engine, core, u64::from(id)))
            .map(|&number| &self.layers[number])
    }
}

fn layer_of(id: u32, raw: RawLayer) -> Layer {
    let tensors = |list: Vec<RawTensor>| -> Vec<Tensor> {
        list.into_iter()
            .filter(|t| !t.memory_type.is_empty())
            .map(tensor_of)
            .collect()
    };
    let operands = tensors(raw.operands);
    let results = tensors(raw.results);
    let name = results
        .first()
        .or(operands.first())
        .map(|t| t.name.clone())
        .unwrap_or_default();
    Layer {
        id,
        line: raw.line,
        subnet: raw.subnet_id,
        core: raw.core_id,
        name,
        local: raw.is_local,
        tiu: (raw.before[0], raw.after[0]),
        gdma: (raw.before[1], raw.after[1]),
        opcode: raw.opcode,
        operands,
        results,
    }
}

fn tensor_of(raw: RawTensor) -> Tensor {
    let inner = raw
        .memory_type
        .trim_start_matches('<')
        .trim_end_matches('>');
    let mut shape = Vec::new();
    let mut dtype = inner;
    while let Some((extent, rest)) = dtype.split_once('x') {
        let Ok(extent) = extent.parse() else { break };
        shape.push(extent);
        dtype = rest;
    }
    Tensor {
        name: raw.name,
        shape,
        dtype: dtype.to_string(),
        address: raw.address.unwrap_or(0),
        layout: raw.layout,
    }
}

fn word_after<'a>(text: &'a str, mark: &str) -> Option<&'a str> {
    let rest = &text[text.find(mark)? + mark.len()..];
    let end = rest
        .find(|c: char| !c.is_alphanumeric() && c != '_')
        .unwrap_or(rest.len());
    (end > 0).then_some(&rest[..end])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layers_cover_their_commands() {
        let dir = tempfile::tempdir().unwrap();
        let (json, mlir) = (dir.path().join("t.json"), dir.path().join("m.mlir"));
        let tensor = r#"{"address": 4096, "layout": "eu_align", "memory_type": "<1x3x8x8xf16>", "name": "y"}"#;
        std::fs::write(
            &json,
            format!(
                r#"[{{"file-line": 7, "subnet_id": 0, "core_id": 1, "opcode": "tpu.Conv2D", "is_local": true,
                "tiu_dma_id(before)": [2, 3], "tiu_dma_id(after)": [4, 4], "operands": [{{}}], "results": [{tensor}]}}]"#
            ),
        )
        .unwrap();
        std::fs::write(
            &mlir,
            "\nmodule @net attributes {module.FLOPs = 12 : i64, module.mode = \"F16\"} {\n",
        )
        .unwrap();
        let layers = Layers::read(&json, &mlir).unwrap();
        assert_eq!(
            (layers.net.as_deref(), layers.flops, layers.mode.as_deref()),
            (Some("net"), Some(12), Some("f16"))
        );
        assert_eq!(layers.of(Engine::Tiu, 1, 3).unwrap().kind(), "Conv2D");
        assert!(layers.of(Engine::Tiu, 1, 4).is_none() && layers.of(Engine::Tiu, 0, 3).is_none());
        let result = &layers.of(Engine::Gdma, 1, 3).unwrap().results[0];
        assert_eq!(
            (result.shape.as_slice(), result.dtype.as_str()),
            (&[1, 3, 8, 8][..], "f16")
        );
        std::fs::write(&json, "[{]").unwrap();
        assert!(
            Layers::read(&json, &mlir)
                .unwrap_err()
                .to_string()
                .contains("line 1")
        );
    }
}
