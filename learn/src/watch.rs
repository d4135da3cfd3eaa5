//! Who is told how far a long computation has come. What is shown of it is the caller's.

/// Hears of phases and of their steps, from any thread.
pub trait Watch: Sync {
    /// A phase of this many steps begins.
    fn begin(&self, phase: &str, steps: usize);

    /// One of them has ended.
    fn step(&self);
}

/// Nobody listens.
impl Watch for () {
    fn begin(&self, _phase: &str, _steps: usize) {}
    fn step(&self) {}
}
