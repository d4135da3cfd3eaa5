//! What all models offer.

use crate::error::Result;
use crate::features::Point;

/// A fitted model.
pub trait Regressor: Send + Sync {
    /// The base-2 logarithm of each point's time in ns.
    ///
    /// # Errors
    /// The model's library fails.
    fn predict(&self, points: &[&Point]) -> Result<Vec<f64>>;

    /// How much the model disagrees with itself on each point, log2; none if it has no opinion.
    ///
    /// # Errors
    /// The model's library fails.
    fn disagreement(&self, _points: &[&Point]) -> Result<Option<Vec<f64>>> {
        Ok(None)
    }
}
