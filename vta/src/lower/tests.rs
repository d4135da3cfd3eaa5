//! The golden streams in ../shared, instruction by instruction; and rules that need no board.

use serde::Deserialize;

use super::*;
use crate::profile::Profile;

#[derive(Deserialize)]
struct Golden {
    data: [u64; 6],
    kernel: [u64; 6],
    stride: [u64; 2],
    pad: [u64; 4],
    #[serde(flatten)]
    rest: serde_json::Map<String, serde_json::Value>,
    insn: Vec<String>,
    uop: Vec<GoldenUops>,
}

#[derive(Deserialize)]
struct GoldenUops {
    at: usize,
    words: Vec<String>,
}

fn config(knobs: &serde_json::Map<String, serde_json::Value>) -> Config {
    let names = [
        "tile_b",
        "tile_h",
        "tile_w",
        "tile_ci",
        "tile_co",
        "oc_nthread",
        "h_nthread",
    ];
    let own = names.map(|name| (name.to_owned(), knobs[name].clone()));
    serde_json::from_value(own.into_iter().collect()).unwrap()
}

#[test]
fn golden_streams_are_equal_bit_by_bit() {
    let path = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../shared/vta/golden_streams.jsonl"
    );
    let Ok(text) = std::fs::read_to_string(path) else {
        return optestkit::skip("golden VTA streams", "../shared is not here");
    };
    let profile = Profile::find("pynq-1x16").unwrap();
    let widths = profile.hardware.widths();
    for (number, line) in text.lines().enumerate() {
        let golden: Golden = serde_json::from_str(line).unwrap();
        let workload = Workload {
            batch: golden.data[0] * golden.data[4],
            in_channels: golden.data[1] * golden.data[5],
            height: golden.data[2],
            width: golden.data[3],
            out_channels: golden.kernel[0] * golden.kernel[4],
            kernel: [golden.kernel[2], golden.kernel[3]],
            stride: golden.stride,
            padding: [golden.pad[0], golden.pad[1]],
        };
        let config = config(&golden.rest);
        let program = lower(&profile.hardware, &workload, &config, Tail::AUTOTVM).unwrap();
        let mut loaded = Vec::new();
        let ours: Vec<String> = program
            .instructions
            .iter()
            .map(|instruction| {
                let mut instruction = *instruction;
                if let Operation::Load(t) = &mut instruction.operation
                    && t.memory == MemoryType::Uop
                    && t.columns > 0
                {
                    let begin = std::mem::take(&mut t.dram) as usize;
                    let words = &program.uops[begin..begin + usize::from(t.columns)];
                    loaded.push((usize::from(t.sram), words));
                }
                format!("{:032x}", instruction.encode(widths))
            })
            .collect();
        for (at, (ours, theirs)) in ours.iter().zip(&golden.insn).enumerate() {
            let read =
                |hex: &str| Instruction::decode(u128::from_str_radix(hex, 16).unwrap(), widths);
            assert_eq!(
                ours,
                theirs,
                "stream {number}, {at}: {} / {}",
                read(ours).unwrap(),
                read(theirs).unwrap()
            );
        }
        assert_eq!(ours.len(), golden.insn.len(), "stream {number}");
        assert_eq!(loaded.len(), golden.uop.len(), "stream {number}");
        for ((at, words), theirs) in loaded.into_iter().zip(&golden.uop) {
            let words: Vec<String> = words
                .iter()
                .map(|w| format!("{:08x}", w.word(widths)))
                .collect();
            assert_eq!(
                (at, words),
                (theirs.at, theirs.words.clone()),
                "stream {number}"
            );
        }
    }
}
