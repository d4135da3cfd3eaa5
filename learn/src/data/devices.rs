//! Figures of devices from a CSV table, as makers publish them: what a log of another tool does not say of its machines.
//!
//! | column (in any order and case) | figure |
//! | --- | --- |
//! | `device` | the machine's name in the log; needed |
//! | `mem_bw` | bandwidth of its memory, GB/s |
//! | `singleflops` | peak arithmetic in single precision, Gflop/s |
//! | `num_sm` | multiprocessors, or cores |
//! | `freq` | clock, MHz |
//! | `l2cache` | second-level cache, MB |
//! | `tdp` | power that it may take (thermal design power), W |
//! | `compute_capability` | NVIDIA's number of what its multiprocessors can do, such as 8.9 |
//!
//! Others are ignored; an empty cell is a figure that is not known. Of several lines for one device the first counts.

use std::collections::BTreeMap;
use std::path::Path;

use crate::error::{Error, Result};
use crate::features::machine::{MachineFacts, Rates};

/// Columns of figures.
const FIGURES: [&str; 7] = [
    "mem_bw",
    "singleflops",
    "num_sm",
    "freq",
    "l2cache",
    "tdp",
    "compute_capability",
];

/// The facts of a table's devices, by name.
///
/// # Errors
/// Fails if the file cannot be read, has no column `device` or no figures, or has a figure that is not a number above 0.
pub fn read_devices(path: &Path) -> Result<BTreeMap<String, MachineFacts>> {
    let refused = |line: u64, detail: String| Error::Devices {
        path: path.to_owned(),
        line,
        detail,
    };
    let file = opdata::open_regular(path).map_err(|e| opdata::Error::io("read", path, e))?;
    let mut reader = csv::ReaderBuilder::new().flexible(true).from_reader(file);
    let header = reader.headers().map_err(|e| refused(1, e.to_string()))?;
    let names: Vec<String> = header
        .iter()
        .map(|name| name.trim().to_ascii_lowercase())
        .collect();
    let place = |name: &str| names.iter().position(|known| known == name);
    let device = place("device").ok_or_else(|| refused(1, "no column `device`".to_owned()))?;
    if !FIGURES.iter().any(|name| place(name).is_some()) {
        return Err(refused(1, "no column of figures".to_owned()));
    }
    let mut all = BTreeMap::new();
    for record in reader.into_records() {
        let record = record.map_err(|e| {
            let line = e.position().map_or(0, csv::Position::line);
            refused(line, e.to_string())
        })?;
        let line = record.position().map_or(0, csv::Position::line);
        let figure = |name: &str| -> Result<Option<f64>> {
            let text = place(name).and_then(|p| record.get(p)).unwrap_or_default();
            match text.trim() {
                "" => Ok(None),
                text => match text.parse::<f64>() {
                    Ok(value) if value.is_finite() && value > 0.0 => Ok(Some(value)),
                    _ => Err(refused(
                        line,
                        format!("`{text}` in `{name}` is no number above 0"),
                    )),
                },
            }
        };
        let name = record.get(device).unwrap_or_default().trim();
        if name.is_empty() {
            return Err(refused(line, "a device without a name".to_owned()));
        }
        let rates = Rates {
            threads: 1,
            gflops: figure("singleflops")?,
            memory_gbytes_per_s: figure("mem_bw")?,
            ..Rates::default()
        };
        let units = figure("num_sm")?.map(|n| n as u32);
        let facts = MachineFacts {
            cores: units,
            units,
            frequency_ghz: figure("freq")?.map(|mhz| mhz / 1e3),
            l2_bytes: figure("l2cache")?.map(|mb| (mb * 1e6) as u64),
            power_w: figure("tdp")?,
            generation: figure("compute_capability")?.map(|n| n as u32),
            rates: vec![rates],
            ..MachineFacts::named(name)
        };
        all.entry(name.to_owned()).or_insert(facts);
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<BTreeMap<String, MachineFacts>> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("devices.csv");
        std::fs::write(&path, text).unwrap();
        read_devices(&path)
    }

    #[test]
    fn figures_are_facts_and_empty_ones_are_missing() {
        let all = read("Device,Mem_Bw,Num_Sm,Freq,L2Cache,SingleFLOPs,TDP,Compute_Capability,Dev_Mem\nG 1,320,40,1590,4,8141.0,70,7.5,15\nG 1,1,1,1,1,1,1,1,1\nG 2,1230,,,8,,,,32\n").unwrap();
        let first = &all["G 1"];
        assert_eq!(
            (first.cores, first.l2_bytes, first.frequency_ghz),
            (Some(40), Some(4_000_000), Some(1.59))
        );
        assert_eq!(first.rates[0].gflops, Some(8141.0));
        assert_eq!((first.power_w, first.generation), (Some(70.0), Some(7)));
        assert_eq!((all["G 2"].power_w, all["G 2"].generation), (None, None));
        assert_eq!(all["G 2"].rates[0].gflops, None);
        assert_eq!(all["G 2"].rates[0].memory_gbytes_per_s, Some(1230.0));
    }

    #[test]
    fn what_is_no_table_of_devices_is_refused_with_its_line() {
        for (text, part) in [
            ("name,mem_bw\nx,1\n", "no column `device`"),
            (
                "device,time_ms\nx,1\n",
                "devices.csv:1: no column of figures",
            ),
            (
                "device,mem_bw\nx,fast\n",
                "devices.csv:2: `fast` in `mem_bw` is no number above 0",
            ),
            ("device,mem_bw\nx,-1\n", "`-1` in `mem_bw`"),
            ("device,mem_bw\n,1\n", "a device without a name"),
            ("device,tdp\nx,0\n", "`0` in `tdp` is no number above 0"),
        ] {
            let error = read(text).unwrap_err().to_string();
            assert!(error.contains(part), "{error}");
        }
        assert!(read_devices(Path::new("/dev/zero")).is_err());
        let error = read_devices(Path::new("none.csv")).unwrap_err();
        assert_eq!(error.to_string(), "none.csv does not exist; check the path");
    }
}
