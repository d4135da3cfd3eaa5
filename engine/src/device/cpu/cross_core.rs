//! Puts activations into the caches of the cores, as the neighbouring operators of a model would leave them.
//!
//! With several threads, an operator finds its inputs in the caches of the cores that computed them. It finds its
//! output's memory in the cache of the core that used it before. A kernel that is only repeated finds every line in the
//! cache of the core that used it in the last call. Such times were up to a third too short. So the threads of the pool
//! write the activations before a call, each one a contiguous part: TVM gives each thread a contiguous part of the
//! parallel loop, which is the outermost one of most operators.

use std::ops::Range;
use std::rc::Rc;

use tvm_bridge::threads::Pool;
use tvm_bridge::{Result, Tensor};

use super::LINE_BYTES;
use crate::measure::caches::Place;

/// Moves activations between the cores of a pool's threads.
#[derive(Debug)]
pub(super) struct CrossCoreTransfer {
    pool: Rc<Pool>,
}

impl CrossCoreTransfer {
    /// Serves the threads of `pool` that are in use when tensors are placed.
    pub fn new(pool: Rc<Pool>) -> CrossCoreTransfer {
        CrossCoreTransfer { pool }
    }
}

/// First byte and lines of a tensor's memory.
struct Lines {
    address: usize,
    count: usize,
}

/// The lines that one of several threads writes.
fn share(lines: usize, thread: usize, threads: usize) -> Range<usize> {
    lines * thread / threads..lines * (thread + 1) / threads
}

impl Place for CrossCoreTransfer {
    fn place(&mut self, tensors: &[Tensor]) -> Result<()> {
        let all: Vec<Lines> = tensors
            .iter()
            .filter_map(|tensor| tensor.host_bytes())
            .map(|bytes| Lines {
                address: bytes.as_ptr() as usize,
                count: bytes.len() / LINE_BYTES,
            })
            .collect();
        self.pool.run(&|thread, threads| {
            for lines in &all {
                for line in share(lines.count, thread, threads) {
                    let word = (lines.address + line * LINE_BYTES) as *mut u8;
                    // SAFETY: the word lies in a live tensor, whose memory TVM allocated for writing. No other thread
                    // touches its line now, and it keeps its value.
                    unsafe { word.write_volatile(word.read_volatile()) };
                }
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use tvm_bridge::{DType, Device};

    use super::*;

    #[test]
    fn each_line_has_one_thread_and_neighbours_mostly_the_same() {
        for (lines, threads) in [(1000, 2), (1000, 3), (40, 2), (5, 2), (0, 2), (64, 1)] {
            let shares = (0..threads).flat_map(|thread| share(lines, thread, threads));
            assert!(shares.eq(0..lines), "{lines} lines, {threads} threads");
        }
        assert_eq!(share(1000, 1, 3), 333..666);
    }

    #[test]
    fn tensors_keep_their_values() {
        let pool = Rc::new(Pool::start(2).unwrap());
        let bytes: Vec<u8> = (0..4 * 1000u32).map(|i| i as u8).collect();
        let tensor = Tensor::from_bytes(Device::cpu(), &[1000], DType::Float32, &bytes).unwrap();
        let tensors = [
            tensor,
            Tensor::zeros(Device::cpu(), &[], DType::Float32).unwrap(),
        ];
        CrossCoreTransfer::new(pool).place(&tensors).unwrap();
        assert_eq!(&*tensors[0].bytes().unwrap(), &bytes[..]);
        assert_eq!(&*tensors[1].bytes().unwrap(), [0; 4]);
    }
}
