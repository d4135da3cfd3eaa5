//! Activations in the caches of the cores, as the operators around leave them inside a model.
//!
//! With several threads, an operator finds its inputs in the caches of the cores that computed them, and its output's
//! memory where an earlier operator used it. Calls that only repeat find every line in the cache of the core that used it
//! last time: such times were up to a third too short. So each thread of the pool writes its part of each activation
//! before a call: contiguous parts of equal size, as parallel loops over the outermost axis leave them.

use std::rc::Rc;

use tvm_bridge::threads::Pool;
use tvm_bridge::{Result, Tensor};

use super::LINE_BYTES;
use crate::measure::caches::Place;

/// Hands activations over between the threads of a pool.
#[derive(Debug)]
pub(super) struct Handover {
    pool: Rc<Pool>,
}

impl Handover {
    /// For the threads of `pool` that are in use when tensors are placed.
    pub fn new(pool: Rc<Pool>) -> Handover {
        Handover { pool }
    }
}

/// First byte and lines of a tensor's memory.
struct Lines {
    address: usize,
    count: usize,
}

impl Place for Handover {
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
                let part = lines.count * thread / threads..lines.count * (thread + 1) / threads;
                for line in part {
                    let word = (lines.address + line * LINE_BYTES) as *mut u8;
                    // SAFETY: the word lies in a live tensor, whose memory TVM allocated for writing; no other thread
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
    fn tensors_keep_their_values() {
        let pool = Rc::new(Pool::start(2).unwrap());
        let bytes: Vec<u8> = (0..4 * 1000u32).map(|i| i as u8).collect();
        let tensor = Tensor::from_bytes(Device::cpu(), &[1000], DType::Float32, &bytes).unwrap();
        let tensors = [
            tensor,
            Tensor::zeros(Device::cpu(), &[], DType::Float32).unwrap(),
        ];
        Handover::new(pool).place(&tensors).unwrap();
        assert_eq!(&*tensors[0].bytes().unwrap(), &bytes[..]);
        assert_eq!(&*tensors[1].bytes().unwrap(), [0; 4]);
    }
}
