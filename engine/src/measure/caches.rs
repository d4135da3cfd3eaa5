//! The caches at the start of a sample, and the seam behind which a device brings its own into a state.

use tvm_bridge::Tensor;

/// Brings tensors to a place in the device's caches, or out of them, before a sample.
pub trait Place {
    /// Does so with `tensors`.
    ///
    /// # Errors
    /// Fails if the device cannot.
    fn place(&mut self, tensors: &[Tensor]) -> tvm_bridge::Result<()>;
}

/// How a state of the caches is reached.
pub enum CacheControl<'a> {
    /// Calls repeat on the same arguments, which stay where the last call left them.
    Repeat,
    /// Calls alternate between copies of weights, of the model's inputs and of outputs, so that as much traffic passes
    /// between two uses of a copy as in the model.
    Rotate {
        /// Puts activations where the operators around leave them, before every sample, which is a single call then.
        /// `None` if they stay where the last call left them.
        activations: Option<&'a mut dyn Place>,
        /// Whether other virtual machines share the last-level cache.
        neighbours: bool,
    },
    /// The arguments are evicted before every sample, which is a single call then.
    Evict(&'a mut dyn Place),
}
