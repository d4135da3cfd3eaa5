//! The clocks that calls of a kernel are timed with.

use std::time::{Duration, Instant};

/// Reads a clock around calls of a kernel: the processor's own, or a device's events.
pub trait Timer {
    /// Runs `calls`, which calls the kernel `number` times, and returns what all of them took together.
    fn time(&mut self, number: u32, calls: &mut dyn FnMut()) -> Duration;
}

/// The monotonic clock of the machine that this program runs on.
#[derive(Debug, Clone, Copy, Default)]
pub struct WallClock;

impl Timer for WallClock {
    fn time(&mut self, _number: u32, calls: &mut dyn FnMut()) -> Duration {
        let start = Instant::now();
        calls();
        start.elapsed()
    }
}
