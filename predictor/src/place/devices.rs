//! The devices of a placement: their list (`cpu:2,vta,cuda`), and a TOML table of the links between them.
//!
//! ```toml
//! [device.cpu]            # of each device of this kind
//! power-w = 6.5
//! memory = 4000000000     # bytes
//! shares = "memory"       # several devices that name the same word slow each other down
//!
//! [shared.memory]
//! slowdown = 1.08         # of each of them while another one works
//!
//! [[link]]                # both ways
//! between = ["cpu", "vta"]
//! gbytes-per-s = 1.2
//! latency-us = 20
//! ```
//!
//! Devices of the kind `cpu` read each other's memory, so nothing is moved between them. Every other pair needs a link.

use std::collections::BTreeMap;
use std::path::Path;

use opdata::DeviceKind;
use serde::Deserialize;

use super::problem::{Device, Link};
use crate::error::{Error, Result};

/// The words for kinds of device.
const KINDS: [(&str, DeviceKind); 6] = [
    ("cpu", DeviceKind::CPU),
    ("llvm", DeviceKind::CPU),
    ("cuda", DeviceKind::CUDA),
    ("vta", DeviceKind::VTA_SIM),
    ("pynq", DeviceKind::VTA_SIM),
    ("tpu", DeviceKind::TPU),
];

/// Devices and the links between them.
#[derive(Debug, Clone, PartialEq)]
pub struct Devices {
    /// The devices.
    pub devices: Vec<Device>,
    /// Links by the index of the device that sends, then of the one that receives.
    pub links: Vec<Vec<Link>>,
    /// The slowdown of each group.
    pub slowdowns: Vec<f64>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct Table {
    #[serde(default)]
    device: BTreeMap<String, Facts>,
    #[serde(default)]
    shared: BTreeMap<String, Shared>,
    #[serde(default)]
    link: Vec<Between>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct Facts {
    power_w: Option<f64>,
    memory: Option<u64>,
    shares: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Shared {
    slowdown: f64,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct Between {
    between: [String; 2],
    gbytes_per_s: f64,
    latency_us: f64,
}

fn query(message: String) -> Error {
    Error::Query(message)
}

/// Reads a list of devices, `cpu:2` being two of one thread each and `cpu:2x4` two of four, with the table if there is one.
///
/// # Errors
/// Fails if a word or the table cannot be read, or a pair of devices has no link.
pub fn read(list: &str, table: Option<&Path>, energy: bool) -> Result<Devices> {
    let file = table.map_or("the table".to_owned(), |file| file.display().to_string());
    let table: Table = match table {
        Some(path) => {
            let text =
                opdata::read_text(path).map_err(|error| query(format!("{file}: {error}")))?;
            toml::from_str(&text).map_err(|error| query(format!("{file}: {error}")))?
        }
        None => Table::default(),
    };
    let groups: Vec<&String> = table.shared.keys().collect();
    let slowdowns: Vec<f64> = table
        .shared
        .values()
        .map(|shared| shared.slowdown)
        .collect();
    if let Some(wrong) = slowdowns
        .iter()
        .find(|slowdown| !(1.0..1e3).contains(*slowdown))
    {
        return Err(query(format!(
            "{file}: slowdown = {wrong}: give at least 1"
        )));
    }
    let mut devices = Vec::new();
    for word in list.split(',').map(str::trim) {
        let (name, count, threads) = word_of(word)?;
        let facts = table.device.get(name);
        let kind = kind_of(name)?;
        let group = match facts.and_then(|facts| facts.shares.as_ref()) {
            Some(shares) => Some(
                groups
                    .iter()
                    .position(|group| *group == shares)
                    .ok_or_else(|| {
                        query(format!(
                            "{file}: {name} shares {shares}, and there is no [shared.{shares}]"
                        ))
                    })?,
            ),
            None => None,
        };
        let power = facts.and_then(|facts| facts.power_w);
        if energy && power.is_none() {
            return Err(query(format!(
                "--energy-weight needs the power of {name}: `[device.{name}]` with `power-w` in {file} (--table FILE)"
            )));
        }
        for number in 0..count {
            devices.push(Device {
                name: match count {
                    1 => name.to_owned(),
                    _ => format!("{name}{number}"),
                },
                kind,
                threads,
                power_w: power.unwrap_or(0.0),
                memory_bytes: facts.and_then(|facts| facts.memory),
                group,
            });
        }
    }
    let links = links(&devices, &table, &file)?;
    Ok(Devices {
        devices,
        links,
        slowdowns,
    })
}

/// Name, count and threads of a word.
fn word_of(word: &str) -> Result<(&str, usize, u64)> {
    let wrong = || {
        query(format!(
            "--devices {word}: give a kind and a number, such as cpu:2, cpu:2x4 or vta"
        ))
    };
    let (name, numbers) = word.split_once(':').unwrap_or((word, "1"));
    let (count, threads) = numbers.split_once('x').unwrap_or((numbers, "1"));
    let count = count.parse().ok().filter(|count| (1..=64).contains(count));
    let threads = threads
        .parse()
        .ok()
        .filter(|threads| (1..=4096).contains(threads));
    Ok((name, count.ok_or_else(wrong)?, threads.ok_or_else(wrong)?))
}

fn kind_of(name: &str) -> Result<DeviceKind> {
    let found = KINDS.iter().find(|(word, _)| *word == name);
    found.map(|(_, kind)| *kind).ok_or_else(|| {
        let words: Vec<&str> = KINDS.iter().map(|(word, _)| *word).collect();
        query(format!(
            "--devices {name}: no such kind of device; there are {}",
            words.join(", ")
        ))
    })
}

fn links(devices: &[Device], table: &Table, file: &str) -> Result<Vec<Vec<Link>>> {
    let mut named: Vec<(DeviceKind, DeviceKind, Link)> = Vec::new();
    for link in &table.link {
        let [a, b] = &link.between;
        if !(link.gbytes_per_s > 0.0 && link.latency_us >= 0.0) {
            return Err(query(format!(
                "{file}: the link between {a} and {b} needs gbytes-per-s above 0 and latency-us of at least 0"
            )));
        }
        let between = Link {
            latency_ns: link.latency_us * 1e3,
            ns_per_byte: 1.0 / link.gbytes_per_s,
        };
        named.push((kind_of(a)?, kind_of(b)?, between));
    }
    let of = |a: &Device, b: &Device| {
        if a.name == b.name || (a.kind == DeviceKind::CPU && b.kind == DeviceKind::CPU) {
            return Ok(Link::default());
        }
        let is = |x, y| (a.kind, b.kind) == (x, y) || (b.kind, a.kind) == (x, y);
        let found = named.iter().find(|(x, y, _)| is(*x, *y));
        found.map(|(_, _, link)| *link).ok_or_else(|| {
            query(format!(
                "the cost of a transfer between {} and {} is not known: add a [[link]] to {file} (--table FILE)",
                a.name, b.name
            ))
        })
    };
    devices
        .iter()
        .map(|a| devices.iter().map(|b| of(a, b)).collect())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_have_links_power_memory_and_groups_of_the_table() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("table.toml");
        let table = "[device.cpu]\npower-w = 6.5\nmemory = 4000\nshares = \"ram\"\n[shared.ram]\nslowdown = 1.1\n\
                     [[link]]\nbetween = [\"vta\", \"cpu\"]\ngbytes-per-s = 2.0\nlatency-us = 20\n";
        std::fs::write(&file, table).unwrap();
        let read = read("cpu:2,vta", Some(&file), false).unwrap();
        let names: Vec<&str> = read.devices.iter().map(|d| d.name.as_str()).collect();
        assert_eq!(names, ["cpu0", "cpu1", "vta"]);
        assert_eq!(
            (read.devices[0].group, read.devices[2].group),
            (Some(0), None)
        );
        assert_eq!(read.slowdowns, [1.1]);
        assert_eq!(read.links[0][1], Link::default());
        assert_eq!(
            read.links[1][2],
            Link {
                latency_ns: 20_000.0,
                ns_per_byte: 0.5
            }
        );
        assert_eq!(read.links[2][0], read.links[0][2]);
    }

    #[test]
    fn what_is_wrong_or_missing_is_named() {
        let message = |list: &str, energy| read(list, None, energy).unwrap_err().to_string();
        assert!(message("cpu:0", false).contains("--devices cpu:0: give a kind and a number"));
        assert!(message("npu", false).contains("no such kind of device; there are cpu"));
        assert!(
            message("cpu,vta", false)
                .contains("the cost of a transfer between cpu and vta is not known")
        );
        assert!(message("cpu", true).contains("needs the power of cpu"));
    }
}
