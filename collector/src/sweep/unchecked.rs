//! The parts of a sweep file that are checked once the device is known.

use std::path::{Path, PathBuf};

use opengine::schedule::Factor;
use toml::Spanned;

use super::error::{SweepError, SweepText};

/// The parts still to be checked, with their lines for errors.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Unchecked {
    pub path: PathBuf,
    /// Factors of the schedule that the file names.
    pub factors: Vec<(Factor, usize)>,
    /// Line of each point's knobs. `None` for points without.
    pub knobs: Vec<Option<usize>>,
}

impl Unchecked {
    /// The file `path`, with no setting read yet.
    pub fn new(path: &Path) -> Unchecked {
        Unchecked {
            path: path.to_owned(),
            factors: Vec::new(),
            knobs: Vec::new(),
        }
    }

    /// The factor of the schedule that a key names.
    pub fn factor(&mut self, toml_text: &SweepText<'_>, key: &Spanned<String>) -> Factor {
        let factor = Factor::from(key.get_ref().as_str());
        let line = toml_text.line(key.span().start);
        self.factors.push((factor.clone(), line));
        factor
    }

    /// An error in a line of the file.
    pub fn wrong(&self, line: usize, problem: String, next: &str) -> SweepError {
        SweepError::Wrong {
            path: self.path.clone(),
            line,
            problem,
            next: next.to_owned(),
        }
    }
}
