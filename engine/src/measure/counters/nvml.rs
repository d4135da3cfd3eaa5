//! `nvml`: energy as an NVIDIA GPU meters it, of its whole board.
//!
//! The GPU updates the meter every 20 to 100 ms, so a batch of calls takes half a second. The reading includes the
//! board's idle power. It is `nvmlDeviceGetTotalEnergyConsumption` of NVML's documentation: millijoules since the
//! driver was loaded, from the Volta generation on.

use std::time::Duration;

use super::request::Selection;
use super::{
    Counter, CounterError, CounterSource, Counters, Opened, Reading, Side, SourceKind, Survey,
    refused, selected,
};
use crate::nvidia::nvml::Nvml as GpuManagement;

/// The kind.
pub(super) struct Nvml;

const NAME: &str = "nvml";
/// Five of the slowest meter's steps: an error of 20 % at most, and of 5 % with most GPUs.
const RESOLUTION: Duration = Duration::from_millis(500);
const UJ_PER_MJ: u64 = 1000;

fn energy() -> Counter {
    Counter::new("energy", "uJ")
}

/// The library, for a GPU that has a meter.
fn management() -> Result<GpuManagement, CounterError> {
    let refuse = |reason: String, next: &str| CounterError::new(NAME, reason, next);
    let gpu = GpuManagement::of_first().map_err(|reason| {
        let next = "measure on a machine with an NVIDIA GPU and its driver";
        refuse(reason, next)
    })?;
    match gpu.energy_mj() {
        Some(_) => Ok(gpu),
        None => Err(refuse(
            "this GPU does not meter its energy".to_owned(),
            "measure on one of the Volta generation or later",
        )),
    }
}

impl SourceKind for Nvml {
    fn name(&self) -> &'static str {
        NAME
    }

    fn title(&self) -> &'static str {
        "energy of an NVIDIA GPU's board"
    }

    fn side(&self) -> Side {
        Side::Device
    }

    fn survey(&self) -> Survey {
        let state = management().map(|_| "the GPU meters its energy".to_owned());
        Survey::of_tool(state, vec![energy()])
    }

    fn open(&self, events: &Selection) -> Opened {
        let mut opened = Opened::default();
        match management() {
            Ok(gpu) => {
                let counters = selected(events, vec![energy()]);
                let meter = Meter::new(counters, move || gpu.energy_mj());
                opened.meters.push(Box::new(meter));
            }
            Err(error) => opened.refused.push(refused(NAME, energy(), &error)),
        }
        opened
    }
}

/// A meter that is read at start and stop.
struct Meter<R> {
    counters: Counters,
    read_mj: R,
    start_mj: u64,
}

impl<R: Fn() -> Option<u64>> Meter<R> {
    fn new(counters: Vec<Counter>, read_mj: R) -> Meter<R> {
        Meter {
            counters: Counters {
                resolution: RESOLUTION,
                ..Counters::new(NAME, counters)
            },
            read_mj,
            start_mj: 0,
        }
    }

    fn read(&self) -> Result<u64, CounterError> {
        (self.read_mj)().ok_or_else(|| {
            let reason = "the meter cannot be read any more";
            CounterError::new(
                NAME,
                reason,
                "see nvidia-smi whether the GPU is still there",
            )
        })
    }
}

impl<R: Fn() -> Option<u64>> CounterSource for Meter<R> {
    fn counters(&self) -> &Counters {
        &self.counters
    }

    fn start(&mut self) -> Result<(), CounterError> {
        self.start_mj = self.read()?;
        Ok(())
    }

    fn stop(&mut self) -> Result<Vec<Reading>, CounterError> {
        let reading = match self.read()?.checked_sub(self.start_mj) {
            Some(mj) => Reading::whole((mj * UJ_PER_MJ) as f64),
            None => Reading::NotCounted("the driver was loaded anew meanwhile".to_owned()),
        };
        Ok(vec![reading; self.counters.all.len()])
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;

    /// A meter that reads these, one after the other.
    fn meter(readings_mj: Vec<Option<u64>>) -> Meter<impl Fn() -> Option<u64>> {
        let left = RefCell::new(readings_mj.into_iter());
        Meter::new(vec![energy()], move || left.borrow_mut().next().flatten())
    }

    #[test]
    fn energy_is_what_the_meter_rose_by() {
        let mut meter = meter(vec![Some(5_000), Some(5_230), Some(7_000), Some(3), None]);
        meter.start().unwrap();
        assert_eq!(meter.stop().unwrap(), [Reading::whole(230_000.0)]);
        meter.start().unwrap();
        let anew = meter.stop().unwrap();
        assert!(matches!(&anew[0], Reading::NotCounted(reason) if reason.contains("anew")));
        assert!(meter.start().unwrap_err().reason.contains("cannot be read"));
    }

    #[test]
    fn an_event_that_it_does_not_have_is_named() {
        let error = Nvml.check("energie").unwrap_err();
        assert!(error.reason.contains("no counter `energie`"), "{error}");
    }
}
