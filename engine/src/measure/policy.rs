//! How a point is timed: warm-up, calls in a sample, and when to stop.

use serde::{Deserialize, Serialize};

use crate::stats::StopRule;

/// How each point is timed.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct TimingPolicy {
    /// Calls before the first timed one.
    pub warmup: u32,
    /// Calls in a sample; none for as many as the clock needs.
    #[serde(default)]
    pub number: Option<u32>,
    /// When to stop sampling.
    pub stop: StopRule,
}
