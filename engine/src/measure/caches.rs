//! The caches at the start of a sample, and the seam behind which a device empties its own.

use tvm_bridge::Tensor;

/// Drives data out of the caches before a sample.
pub trait Evict {
    /// Evicts `tensors` from every level of the device's caches.
    fn evict(&mut self, tensors: &[Tensor]);
}

/// How a state of the caches is reached.
pub enum CacheControl<'a> {
    /// Calls repeat on the same arguments, which stay where the last call left them.
    Repeat,
    /// Calls take turns on sets of weights, so that as many bytes of weights are read between two uses of one as in the
    /// model.
    Rotate,
    /// The arguments are evicted before every sample, which is a single call then.
    Evict(&'a mut dyn Evict),
}
