//! `global.profile`: text, `key=value` a line.
//!
//! A line that contains `bmodel` selects that mode; `arch` names the chip; `*_record` are the numbers of records that
//! the runtime says it wrote. Unknown keys and lines without `=` are ignored.

use std::collections::BTreeMap;
use std::path::Path;

use crate::chip::Chip;
use crate::error::{Error, Result};
use crate::input::regular::read_regular;
use crate::report::{Engine, Stream};

/// The contents of `global.profile`.
#[derive(Debug, Clone, PartialEq)]
pub struct GlobalProfile {
    /// The chip.
    pub chip: Chip,
    /// Whether the dump is of a compiled model.
    pub bmodel: bool,
    /// TIU clock in MHz, if stated.
    pub tiu_mhz: Option<f64>,
    /// Number of cores, if stated.
    pub cores: Option<u32>,
    /// Size of the record rings, if stated.
    pub max_records: Option<u64>,
    /// Time from the last PMU record to the end of `disable_profile`, in ns, if stated.
    pub tail_offset_ns: Option<i64>,
    /// Records written per stream, as far as stated.
    pub counts: BTreeMap<Stream, u64>,
}

impl GlobalProfile {
    /// Reads the file.
    pub fn read(path: &Path) -> Result<GlobalProfile> {
        let bytes = read_regular(path)?;
        let text = String::from_utf8(bytes).map_err(|error| Error::Format {
            path: path.to_path_buf(),
            offset: error.utf8_error().valid_up_to() as u64,
            found: "a byte that is not UTF-8".to_string(),
            expected: "text, one key=value a line".to_string(),
        })?;
        parse(&text, path)
    }
}

fn parse(text: &str, path: &Path) -> Result<GlobalProfile> {
    let mut chip = None;
    let mut global = GlobalProfile {
        chip: Chip::Aks,
        bmodel: false,
        tiu_mhz: None,
        cores: None,
        max_records: None,
        tail_offset_ns: None,
        counts: BTreeMap::new(),
    };
    for (index, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.contains("bmodel") {
            global.bmodel = true;
            continue;
        }
        let Some((key, value)) = line.split_once('=') else {
            continue;
        };
        let (key, value) = (key.trim(), value.trim());
        let wrong = |expected: &str| Error::Global {
            path: path.to_path_buf(),
            line: index + 1,
            what: format!("{key}={value}: expected {expected}"),
        };
        let count = || {
            value
                .parse::<u64>()
                .map_err(|_| wrong("a whole number, 0 or more"))
        };
        match key {
            "arch" => {
                chip = Some(Chip::from_arch(value).ok_or_else(|| {
                    wrong("4 or BM1688, 5 or AKS (BM1690), 6 or AKSV, 7 or CV84X6; other chips are not supported")
                })?);
            }
            "tpu_freq" => {
                let mhz = count()?;
                if mhz == 0 {
                    return Err(wrong("a clock in MHz, more than 0"));
                }
                global.tiu_mhz = Some(mhz as f64);
            }
            "core_num" => {
                let cores = count()?;
                if cores > 64 {
                    return Err(wrong("the number of cores, at most 64"));
                }
                global.cores = Some(cores as u32);
            }
            "max_record_num" => global.max_records = Some(count()?),
            "tail_offset_ns" => {
                global.tail_offset_ns =
                    Some(value.parse().map_err(|_| wrong("a whole number of ns"))?);
            }
            _ => {
                if let Some(stream) = count_key(key) {
                    global.counts.insert(stream, count()?);
                }
            }
        }
    }
    global.chip = chip.ok_or_else(|| Error::NotADump {
        path: path.to_path_buf(),
        what: "no arch= line, so the chip is unknown".to_string(),
        next: "add the chip's line, e.g. arch=5 for BM1690, or check that the file is whole",
    })?;
    Ok(global)
}

/// The stream that `core3_gdma_record` or `cdma_port0_record` counts.
fn count_key(key: &str) -> Option<Stream> {
    let name = key.strip_suffix("_record")?;
    if let Some(port) = name.strip_prefix("cdma_port") {
        return Some(Stream::new(Engine::Cdma, port.parse().ok()?));
    }
    let (core, engine) = name.strip_prefix("core")?.split_once('_')?;
    let engine = match engine {
        "tiu" => Engine::Tiu,
        "gdma" => Engine::Gdma,
        "sdma" => Engine::Sdma,
        _ => return None,
    };
    Some(Stream::new(engine, core.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<GlobalProfile> {
        parse(text, Path::new("d/global.profile"))
    }

    #[test]
    fn all_keys() {
        let global = read(
            "bmodel\narch=5\ntpu_freq=900\ncore_num=8\nmax_record_num=100\ntail_offset_ns=-5\n\
             core1_gdma_record=7\ncdma_port2_record=3\nfoo=bar\nnoise\n",
        )
        .unwrap();
        assert_eq!(
            (global.chip, global.bmodel, global.tiu_mhz),
            (Chip::Aks, true, Some(900.0))
        );
        assert_eq!(
            (global.cores, global.max_records, global.tail_offset_ns),
            (Some(8), Some(100), Some(-5))
        );
        assert_eq!(global.counts[&Stream::new(Engine::Gdma, 1)], 7);
        assert_eq!(global.counts[&Stream::new(Engine::Cdma, 2)], 3);
    }

    #[test]
    fn errors_name_the_line() {
        insta::assert_snapshot!(read("arch=99").unwrap_err(), @"d/global.profile:1: arch=99: expected 4 or BM1688, 5 or AKS (BM1690), 6 or AKSV, 7 or CV84X6; other chips are not supported");
        insta::assert_snapshot!(read("x=1").unwrap_err(), @"d/global.profile: no arch= line, so the chip is unknown; add the chip's line, e.g. arch=5 for BM1690, or check that the file is whole");
        insta::assert_snapshot!(read("arch=5\ntpu_freq=0").unwrap_err(), @"d/global.profile:2: tpu_freq=0: expected a clock in MHz, more than 0");
        insta::assert_snapshot!(read("arch=5\ncore0_tiu_record=x").unwrap_err(), @"d/global.profile:2: core0_tiu_record=x: expected a whole number, 0 or more");
    }
}
