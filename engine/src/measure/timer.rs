//! The clocks that time calls of a kernel.

use std::time::{Duration, Instant};

/// Records moments of a run, cheaply; the intervals are read after the run.
pub trait Marks {
    /// Notes the present moment. On a device with a queue it is the moment at which all earlier work is done.
    fn mark(&mut self);
    /// Time from the first mark to each of them, once all work before them is done. Forgets them.
    fn take(&mut self) -> Vec<Duration>;
}

/// Reads a clock around calls of a kernel: the processor's own, or a device's events.
pub trait Timer {
    /// Runs `calls`, which calls the kernel `number` times, and returns what all of them took together.
    fn time(&mut self, number: u32, calls: &mut dyn FnMut()) -> Duration;

    /// Takes several samples in turn: one, unless asking for each would cost a message to another machine.
    fn samples(&mut self, number: u32, calls: &mut dyn FnMut()) -> Vec<Duration> {
        vec![self.time(number, calls)]
    }
}

/// The monotonic clock of this machine.
#[derive(Debug, Clone, Copy, Default)]
pub struct WallClock;

/// Moments on the same clock.
#[derive(Debug, Default)]
pub struct WallMarks(Vec<Instant>);

impl Marks for WallMarks {
    fn mark(&mut self) {
        self.0.push(Instant::now());
    }

    fn take(&mut self) -> Vec<Duration> {
        let first = self.0.first().copied();
        let since = |mark: Instant| first.map_or(Duration::ZERO, |first| mark - first);
        self.0.drain(..).map(since).collect()
    }
}

impl Timer for WallClock {
    fn time(&mut self, _number: u32, calls: &mut dyn FnMut()) -> Duration {
        let start = Instant::now();
        calls();
        start.elapsed()
    }
}
