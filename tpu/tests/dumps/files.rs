//! The files of a dump: records and blocks as bytes, and `global.profile`.

use std::path::Path;

use tpuprofile::chip::Chip;

use super::{Capture, Dump, Rec};

fn record_bytes(chip: Chip, engine: usize, rec: &Rec) -> Vec<u8> {
    let words = match (engine, chip) {
        (0, Chip::Bm1688) => vec![
            rec.start as u32,
            rec.end as u32,
            rec.id & 0xffff | rec.word << 16,
            0,
            0,
            0,
            0,
            0,
        ],
        (0, _) => vec![rec.start as u32, rec.end as u32, rec.id, rec.word],
        (_, Chip::Bm1688) => {
            let mut words = vec![0; 64];
            words[..3].copy_from_slice(&[rec.start as u32, rec.end as u32, rec.id]);
            for at in [5, 10, 16, 17] {
                words[at] = rec.bytes;
            }
            words
        }
        _ => {
            let beats = rec.bytes / 128;
            let (local, global) = if rec.to_local {
                (rec.bytes, 0)
            } else {
                (0, rec.bytes)
            };
            let (to_global, to_local) = if rec.to_local { (0, beats) } else { (beats, 0) };
            let stall = if rec.sync { 0 } else { 5 };
            vec![
                rec.start as u32,
                rec.end as u32,
                rec.id,
                0,
                stall,
                global,
                beats,
                beats,
                0,
                0,
                local,
                beats,
                to_global,
                to_local,
                beats,
                beats,
            ]
        }
    };
    words.iter().flat_map(|w: &u32| w.to_le_bytes()).collect()
}

fn block(out: &mut Vec<u8>, kind: u32, payload: &[u8]) {
    out.extend(kind.to_le_bytes());
    out.extend((payload.len() as u32).to_le_bytes());
    out.extend(payload);
}

impl Dump {
    /// The bytes of a core's file.
    pub fn core_bytes(&self, number: usize) -> Vec<u8> {
        let core = &self.cores[number];
        let mut out = Vec::new();
        for (engine, kind) in [(0, 3), (1, 4), (2, 11)] {
            if engine == 2 && core.records[2].is_empty() {
                continue;
            }
            let bytes: Vec<u8> = core.records[engine]
                .iter()
                .flat_map(|r| record_bytes(self.spec.chip, engine, r))
                .collect();
            block(&mut out, kind, &bytes);
        }
        match self.spec.capture {
            Capture::Pmu => {}
            Capture::Bmodel => {
                block(&mut out, 13, &core.des[0].concat());
                block(&mut out, 14, &core.des[1].concat());
            }
            Capture::Nodes | Capture::Details => {
                if self.spec.capture == Capture::Details {
                    let mut extra = Vec::new();
                    for (id, detail) in &core.extra {
                        extra.extend(id.to_le_bytes());
                        extra.extend(1u32.to_le_bytes());
                        extra.extend((detail.len() as u32).to_le_bytes());
                        extra.extend(detail);
                    }
                    block(&mut out, 6, &extra);
                }
                let words: Vec<u8> = core.nodes.iter().flat_map(|w| w.to_le_bytes()).collect();
                block(&mut out, 5, &words);
            }
        }
        out
    }

    fn port_bytes(port: u32) -> Vec<u8> {
        let record = |start: u32, end: u32, id: u32, bytes: u32| {
            let mut words = [0u32; 32];
            words[..3].copy_from_slice(&[start, end, id]);
            words[4] = bytes;
            words[8] = bytes / 128;
            words[10] = bytes / 128;
            words
        };
        let base = 777 + port * 1000;
        let mut records = vec![
            record(base, base + 100, 17, 0),
            record(base + 101, base + 110, 18, 0),
        ];
        for i in 1..6 {
            let start = base + 400 + i * 1600;
            records.push(record(start, start + 1500, i, 1 << 16));
        }
        let bytes: Vec<u8> = records
            .iter()
            .flatten()
            .flat_map(|w| w.to_le_bytes())
            .collect();
        let mut out = Vec::new();
        block(&mut out, 12, &bytes);
        out
    }

    /// `global.profile`.
    pub fn global(&self) -> String {
        let arch = match self.spec.chip {
            Chip::Aks => 5,
            Chip::Aksv => 6,
            Chip::Bm1688 => 4,
            Chip::Cv84x6 => 7,
        };
        let mut text = String::new();
        if self.spec.capture == Capture::Bmodel {
            text += "bmodel\n";
        }
        text += &format!("arch={arch}\ntpu_freq={}\n", self.spec.chip.spec().tiu_mhz);
        if self.spec.capture != Capture::Bmodel && self.spec.counts {
            text += "max_record_num=16777216\n";
            for (number, core) in self.cores.iter().enumerate() {
                for (engine, name) in ["tiu", "gdma", "sdma"].iter().enumerate() {
                    if !core.records[engine].is_empty() {
                        text += &format!(
                            "core{number}_{name}_record={}\n",
                            core.records[engine].len()
                        );
                    }
                }
            }
            for port in 0..self.spec.ports {
                text += &format!("cdma_port{port}_record=7\n");
            }
            text += "tail_offset_ns=12345\n";
        }
        text
    }

    /// Writes all files.
    pub fn write(&self, folder: &Path) {
        std::fs::create_dir_all(folder).unwrap();
        std::fs::write(folder.join("global.profile"), self.global()).unwrap();
        for number in 0..self.cores.len() {
            std::fs::write(
                folder.join(format!("cdmlib0_{number}.profile")),
                self.core_bytes(number),
            )
            .unwrap();
        }
        for port in 0..self.spec.ports {
            std::fs::write(
                folder.join(format!("cdma_{port}.profile")),
                Self::port_bytes(port),
            )
            .unwrap();
        }
    }
}
