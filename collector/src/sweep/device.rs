//! What a sweep file says that only a device can check: the names of its factors, and the knobs of points.
//!
//! The device is known once the settings are, some of which the file itself may bring; so this comes after reading it.

use std::path::{Path, PathBuf};

use opengine::device::DeviceRef;
use opengine::schedule::Factor;
use opreport::nearest::closest;
use toml::Spanned;

use super::error::{Place, SweepError, near};
use super::factors::RUN_FACTORS;
use super::file::SweepFile;
use super::points;

/// What is still to be checked, with the lines for errors.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Unchecked {
    path: PathBuf,
    /// Factors of the schedule that the file names.
    factors: Vec<(Factor, usize)>,
    /// Line of each point's knobs; none for points without.
    pub knobs: Vec<Option<usize>>,
}

impl Unchecked {
    /// Of the file `path`: nothing yet.
    pub fn new(path: &Path) -> Unchecked {
        Unchecked {
            path: path.to_owned(),
            factors: Vec::new(),
            knobs: Vec::new(),
        }
    }

    /// The factor of the schedule that a key names.
    pub fn factor(&mut self, place: &Place<'_>, key: &Spanned<String>) -> Factor {
        let factor = Factor::from(key.get_ref().as_str());
        let line = place.line(key.span().start);
        self.factors.push((factor.clone(), line));
        factor
    }

    fn wrong(&self, line: usize, problem: String, next: &str) -> SweepError {
        SweepError::Wrong {
            path: self.path.clone(),
            line,
            problem,
            next: next.to_owned(),
        }
    }
}

impl SweepFile {
    /// Checks the file for a device. Knobs that a point lacks get their defaults.
    ///
    /// # Errors
    /// The device has no such factor, or no such knobs.
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
