//! Progress of training, for the caller to show.

/// Receives the phases of a computation and their steps, from any thread.
pub trait Watch: Sync {
    /// A phase of this many steps begins.
    fn begin(&self, phase: &str, steps: usize);

    /// One step of the phase has ended.
    fn step(&self);
}

/// Ignores all progress.
impl Watch for () {
    fn begin(&self, _phase: &str, _steps: usize) {}
    fn step(&self) {}
}
