//! The parts of a sweep file that only a device can check: the names of its factors, and the knobs of points.
//!
//! The file itself may set the target. So the device is known, and checked, after the file is read.

use opengine::device::DeviceRef;
use opengine::schedule::Factor;
use opreport::nearest::closest;

use super::error::{SweepError, near};
use super::factors::RUN_FACTORS;
use super::file::SweepFile;
use super::points;

impl SweepFile {
    /// Checks the file for a device. Knobs that a point lacks get their defaults.
    ///
    /// # Errors
    /// Fails if the device has no such factor, or no such knobs.
    pub fn for_device(mut self, device: DeviceRef) -> Result<SweepFile, SweepError> {
        let known = |factor: &Factor| device.factors().iter().any(|info| info.factor == *factor);
        let unchecked = &self.unchecked;
        if let Some((factor, line)) = unchecked.factors.iter().find(|(f, _)| !known(f)) {
            let of_schedule = device.factors().iter().map(|info| info.factor.name());
            let of_run = RUN_FACTORS.iter().map(|(name, _)| *name);
            let names: Vec<&str> = of_schedule.chain(of_run).collect();
            let name = factor.name();
            let close = closest(name, names.iter().copied()).map(str::to_owned);
            return Err(unchecked.wrong(
                *line,
                format!("unknown factor `{name}`{}", near(&close)),
                &format!("factors are {}", names.join(", ")),
            ));
        }
        for (point, line) in self.sweep.points.iter_mut().zip(&unchecked.knobs) {
            let Some(line) = line else { continue };
            points::complete(point, device)
                .map_err(|(problem, next)| unchecked.wrong(*line, problem, next))?;
        }
        Ok(self)
    }
}
