//! The interface of all models.

use crate::error::Result;
use crate::features::Point;

/// A fitted model.
pub trait Regressor: Send + Sync {
    /// The base-2 logarithm of each point's time in ns.
    ///
    /// # Errors
    /// Fails if the model's library fails.
    fn predict(&self, points: &[&Point]) -> Result<Vec<f64>>;

    /// Disagreement of the model's members on each point, log2. `None` if it has only one member.
    ///
    /// # Errors
    /// Fails if the model's library fails.
    fn disagreement(&self, _points: &[&Point]) -> Result<Option<Vec<f64>>> {
        Ok(None)
    }
}
