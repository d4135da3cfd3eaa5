//! Driving data out of the caches before a sample.
//!
//! On x86 every line of the arguments is flushed with `clflush`, which leaves the rest of the cache unchanged. Other
//! processors have no such instruction for user programs; there, a buffer larger than the last-level cache is read.

use tvm_bridge::Tensor;

use super::LINE_BYTES;
use crate::measure::caches::Place;

/// Evicts tensors from every level of the data caches.
#[derive(Debug)]
pub(super) struct Flusher {
    #[cfg(not(target_arch = "x86_64"))]
    sweep: Vec<u8>,
}

/// Larger than the last-level cache of most single sockets.
#[cfg(not(target_arch = "x86_64"))]
const SWEEP_BYTES: usize = 256 << 20;

impl Flusher {
    /// Prepares what flushing needs.
    pub fn new() -> Flusher {
        Flusher {
            #[cfg(not(target_arch = "x86_64"))]
            sweep: vec![1; SWEEP_BYTES],
        }
    }
}

impl Place for Flusher {
    #[cfg(target_arch = "x86_64")]
    fn place(&mut self, tensors: &[Tensor]) -> tvm_bridge::Result<()> {
        use std::arch::x86_64::{_mm_clflush, _mm_mfence};
        for tensor in tensors {
            for line in tensor.host_bytes().unwrap_or_default().chunks(LINE_BYTES) {
                // SAFETY: the address is inside a live slice; flushing a line changes no data.
                unsafe { _mm_clflush(line.as_ptr()) };
            }
        }
        // SAFETY: a fence has no preconditions; without it the flushes could end after the sample has begun.
        unsafe { _mm_mfence() };
        Ok(())
    }

    /// Evicts everything else too.
    #[cfg(not(target_arch = "x86_64"))]
    fn place(&mut self, _tensors: &[Tensor]) -> tvm_bridge::Result<()> {
        for line in self.sweep.chunks_mut(LINE_BYTES) {
            line[0] = line[0].wrapping_add(1);
        }
        std::hint::black_box(&self.sweep);
        Ok(())
    }
}
