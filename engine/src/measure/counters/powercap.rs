//! `powercap`: energy as the kernel reads it from the processor (RAPL), for the whole machine.
//!
//! The counters are of packages, not of threads: what else runs is in them. They change about once a millisecond, so
//! batches are long, and wrap around at a bound that the kernel reports.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::request::Selection;
use super::{
    Counter, CounterError, CounterSource, Counters, Opened, Reading, SourceKind, Survey, refused,
    selected,
};

/// The kind.
pub(super) struct Powercap;

const NAME: &str = "powercap";
const FOLDER: &str = "/sys/class/powercap";
/// Twenty of the meter's steps: an error of 5 % at most.
const RESOLUTION: Duration = Duration::from_millis(20);

/// A zone with a meter.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Zone {
    energy: PathBuf,
    /// The meter's maximum before it starts again at 0, in microjoules.
    range_uj: u64,
    start_uj: u64,
}

/// The zones below a folder, by name: `package`, `core`, `dram`, …
fn zones(folder: &Path) -> Result<BTreeMap<String, Vec<Zone>>, CounterError> {
    let none = || {
        CounterError::new(
            NAME,
            "the kernel offers no energy meter here (usual in virtual machines)",
            "measure on bare metal, with the module intel_rapl_common",
        )
    };
    let entries = std::fs::read_dir(folder).map_err(|_| none())?;
    let mut zones: BTreeMap<String, Vec<Zone>> = BTreeMap::new();
    let mut folders: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    folders.sort();
    for folder in folders {
        let read = |name: &str| std::fs::read_to_string(folder.join(name));
        let Ok(name) = read("name") else { continue };
        let energy = folder.join("energy_uj");
        if !energy.exists() {
            continue;
        }
        let start_uj = read_uj(&energy)?;
        let range = read("max_energy_range_uj").ok();
        let name = name
            .trim()
            .trim_end_matches(|c: char| c.is_ascii_digit() || c == '-');
        zones.entry(name.to_owned()).or_default().push(Zone {
            energy,
            range_uj: range
                .and_then(|text| text.trim().parse().ok())
                .unwrap_or(u64::MAX),
            start_uj,
        });
    }
    if zones.is_empty() {
        Err(none())
    } else {
        Ok(zones)
    }
}

fn read_uj(file: &Path) -> Result<u64, CounterError> {
    let text = std::fs::read_to_string(file).map_err(|error| match error.kind() {
        std::io::ErrorKind::PermissionDenied => CounterError::new(
            NAME,
            format!("{} may be read by root alone", file.display()),
            format!("sudo chmod a+r {FOLDER}/*/energy_uj, which other users can then read too"),
        ),
        _ => CounterError::new(NAME, format!("{}: {error}", file.display()), "see doctor"),
    })?;
    text.trim().parse().map_err(|_| {
        CounterError::new(
            NAME,
            format!("{} holds no number", file.display()),
            "report it to the maintainers of the kernel's driver",
        )
    })
}

/// The increase of a meter, across its wrap if there was one.
fn risen(zone: &Zone, now_uj: u64) -> Option<u64> {
    match now_uj >= zone.start_uj {
        true => Some(now_uj - zone.start_uj),
        // Without a range it would be a guess.
        false if zone.range_uj == u64::MAX => None,
        false => (zone.range_uj.checked_sub(zone.start_uj)?).checked_add(now_uj),
    }
}

fn counter(name: &str) -> Counter {
    Counter::new(name, "uJ")
}

impl SourceKind for Powercap {
    fn name(&self) -> &'static str {
        NAME
    }

    fn title(&self) -> &'static str {
        "energy of the processor's packages (RAPL)"
    }

    fn is_automatic(&self) -> bool {
        true
    }

    fn survey(&self) -> Survey {
        let zones = zones(Path::new(FOLDER));
        let counters = zones.iter().flatten().map(|(name, _)| counter(name));
        let counters = counters.collect();
        let state = zones.map(|zones| format!("{} kinds of zones", zones.len()));
        Survey::of_tool(state, counters)
    }

    fn open(&self, events: &Selection) -> Opened {
        let mut opened = Opened::default();
        match zones(Path::new(FOLDER)) {
            Ok(zones) => {
                let all = zones.keys().map(|name| counter(name)).collect();
                let wanted = selected(events, all);
                let zones = wanted.iter().map(|c| zones.get(&c.name).cloned());
                let zones = zones.map(Option::unwrap_or_default).collect();
                let counters = Counters {
                    resolution: RESOLUTION,
                    ..Counters::new(NAME, wanted)
                };
                opened.meters.push(Box::new(Meters { counters, zones }));
            }
            Err(error) => opened
                .refused
                .push(refused(NAME, counter("package"), &error)),
        }
        opened
    }
}

/// Meters that are read at start and stop.
struct Meters {
    counters: Counters,
    /// The zones of each counter.
    zones: Vec<Vec<Zone>>,
}

impl CounterSource for Meters {
    fn counters(&self) -> &Counters {
        &self.counters
    }

    fn start(&mut self) -> Result<(), CounterError> {
        for zone in self.zones.iter_mut().flatten() {
            zone.start_uj = read_uj(&zone.energy)?;
        }
        Ok(())
    }

    fn stop(&mut self) -> Result<Vec<Reading>, CounterError> {
        let reading = |zones: &Vec<Zone>| {
            let mut sum = 0.0;
            for zone in zones {
                match risen(zone, read_uj(&zone.energy)?) {
                    Some(rise) => sum += rise as f64,
                    None => {
                        let reason = "the meter overflowed, and the kernel does not tell its range";
                        return Ok(Reading::NotCounted(reason.to_owned()));
                    }
                }
            }
            Ok(Reading::whole(sum))
        };
        self.zones.iter().map(reading).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn zone(root: &Path, folder: &str, name: &str, energy: u64) {
        let folder = root.join(folder);
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("name"), format!("{name}\n")).unwrap();
        std::fs::write(folder.join("energy_uj"), format!("{energy}\n")).unwrap();
        std::fs::write(folder.join("max_energy_range_uj"), "1000\n").unwrap();
    }

    #[test]
    fn packages_are_summed_and_a_meter_that_wrapped_goes_on() {
        let root = tempfile::tempdir().unwrap();
        zone(root.path(), "intel-rapl:0", "package-0", 100);
        zone(root.path(), "intel-rapl:1", "package-1", 990);
        zone(root.path(), "intel-rapl:0:0", "core", 5);
        let zones = zones(root.path()).unwrap();
        let names: Vec<&str> = zones.keys().map(String::as_str).collect();
        assert_eq!(names, ["core", "package"]);
        let mut meters = Meters {
            counters: Counters::new(NAME, vec![counter("package")]),
            zones: vec![zones["package"].clone()],
        };
        meters.start().unwrap();
        zone(root.path(), "intel-rapl:0", "package-0", 150);
        zone(root.path(), "intel-rapl:1", "package-1", 20);
        assert_eq!(meters.stop().unwrap(), [Reading::whole(50.0 + 30.0)]);
        meters.zones[0][1].range_uj = u64::MAX;
        assert!(
            matches!(&meters.stop().unwrap()[0], Reading::NotCounted(r) if r.contains("overflowed"))
        );
    }

    #[test]
    fn a_machine_without_meters_says_so() {
        let root = tempfile::tempdir().unwrap();
        let error = zones(root.path()).unwrap_err();
        assert!(error.reason.contains("no energy meter"), "{error}");
        zone(root.path(), "intel-rapl:0", "package-0", 1);
        std::fs::write(root.path().join("intel-rapl:0/energy_uj"), "much").unwrap();
        assert!(zones(root.path()).unwrap_err().reason.contains("no number"));
    }
}
