//! Puts activations into the caches of the cores, as the neighbouring operators of a model would leave them.
//!
//! With several threads, an operator finds its inputs in the caches of the cores that computed them. It finds its
//! output's memory in the cache of the core that used it before. A kernel that is only repeated finds every line in the
//! cache of the core that used it in the last call. Such times were up to a third too short. So the threads of the pool
//! write the activations in turn before a call. Which thread wrote a line inside the model depends on the neighbouring
//! operators. A convolution's threads write rows of all channels; those of a depthwise one write whole channels. With
//! short stretches, each thread of a kernel reads lines of every other thread, whichever loop runs in parallel.

use std::rc::Rc;

use tvm_bridge::threads::Pool;
use tvm_bridge::{Result, Tensor};

use super::LINE_BYTES;
use crate::measure::caches::Place;

/// Lines that a thread writes before it is another one's turn: 1 KiB, about half a channel of a small image.
const STRETCH: usize = 16;

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

/// The lines that one of several threads writes: every stretch that is its turn.
fn share(lines: usize, thread: usize, threads: usize) -> impl Iterator<Item = usize> {
    let starts = (thread * STRETCH..lines).step_by(threads * STRETCH);
    starts.flat_map(move |start| start..lines.min(start + STRETCH))
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
    fn each_thread_writes_its_share_of_every_part() {
        for (lines, threads) in [(1000, 2), (1000, 3), (40, 2), (5, 2), (0, 2), (64, 1)] {
            let mut all: Vec<usize> = (0..threads)
                .flat_map(|t| share(lines, t, threads))
                .collect();
            all.sort_unstable();
            assert_eq!(all, (0..lines).collect::<Vec<_>>());
        }
        let first_half = share(1024, 1, 2).filter(|line| *line < 512).count();
        assert_eq!(first_half, 256);
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
