//! Record of one run of a model: its calls, their tensors, and which call allocates and frees them.

use std::collections::HashMap;

use tvm_bridge::vm::{Call, Moment, TensorFacts};

use crate::protocol::{ProfiledArgument, ProfiledCall};

/// Functions of the virtual machine that give it memory.
const ALLOC_STORAGE: &str = "vm.builtin.alloc_storage";
const ALLOC_TENSOR: &str = "vm.builtin.alloc_tensor";

/// Record of one run.
#[derive(Default)]
pub(super) struct Seen {
    pub seen: Vec<SeenCall>,
    /// Every call's begin and end, in the order of time.
    pub events: Vec<(usize, Moment)>,
    /// Calls that have begun and not ended.
    open: Vec<usize>,
    pub storage_bytes: u64,
}

pub(super) struct SeenCall {
    symbol: String,
    parent: Option<usize>,
    tensors: Vec<TensorFacts>,
    result: Option<TensorFacts>,
}

impl Seen {
    /// Notes a call.
    pub fn note(&mut self, call: &Call<'_>) {
        match call.moment() {
            Moment::Before => {
                let symbol = call.symbol().to_owned();
                if symbol == ALLOC_STORAGE {
                    let extents = call.shapes();
                    let bytes: i64 = extents.first().map_or(0, |shape| shape.iter().product());
                    self.storage_bytes += bytes.max(0) as u64;
                }
                let index = self.seen.len();
                self.seen.push(SeenCall {
                    symbol,
                    parent: self.open.last().copied(),
                    tensors: call.tensors(),
                    result: None,
                });
                self.open.push(index);
                self.events.push((index, Moment::Before));
            }
            Moment::After => {
                if let Some(index) = self.open.pop() {
                    self.seen[index].result = call.result();
                    self.events.push((index, Moment::After));
                }
            }
        }
    }

    /// The calls, with the memory that each allocates and frees. `inputs` are the addresses of the model's inputs.
    pub fn calls(&self, inputs: &HashMap<usize, usize>) -> Vec<ProfiledCall> {
        let argument = |tensor: &TensorFacts| ProfiledArgument {
            shape: tensor.shape.clone(),
            dtype: tensor.dtype.map_or_else(String::new, |d| d.to_string()),
            input: inputs.get(&tensor.address).copied(),
        };
        let mut calls: Vec<ProfiledCall> = self
            .seen
            .iter()
            .map(|call| ProfiledCall {
                symbol: call.symbol.clone(),
                parent: call.parent,
                arguments: call.tensors.iter().map(argument).collect(),
                allocated_bytes: 0,
                freed_bytes: 0,
                live_bytes: 0,
            })
            .collect();
        for Life { bytes, first, last } in self.lives() {
            calls[first].allocated_bytes += bytes;
            if let Some(last) = last {
                calls[last].freed_bytes += bytes;
            }
            let end = last.unwrap_or(calls.len() - 1);
            for call in &mut calls[first..=end] {
                call.live_bytes += bytes;
            }
        }
        calls
    }

    /// Every tensor that a run allocates and uses.
    fn lives(&self) -> Vec<Life> {
        let mut lives: Vec<Life> = Vec::new();
        // Tensors by their address: allocated but not used yet (bytes), and used (index in `lives`).
        let mut fresh: HashMap<usize, u64> = HashMap::new();
        let mut used: HashMap<usize, usize> = HashMap::new();
        for (index, call) in self.seen.iter().enumerate() {
            if call.symbol == ALLOC_TENSOR {
                if let Some(tensor) = &call.result {
                    used.remove(&tensor.address);
                    fresh.insert(tensor.address, tensor.bytes());
                }
                continue;
            }
            for tensor in &call.tensors {
                if let Some(bytes) = fresh.remove(&tensor.address) {
                    used.insert(tensor.address, lives.len());
                    lives.push(Life {
                        bytes,
                        first: index,
                        last: Some(index),
                    });
                } else if let Some(life) = used.get(&tensor.address) {
                    lives[*life].last = Some(index);
                }
            }
        }
        // Tensors that only their maker used are the model's results.
        for life in &mut lives {
            life.last = life.last.filter(|last| *last != life.first);
        }
        lives
    }
}

/// The span from the first call that uses a tensor to the last. A tensor that outlives the run has no last call.
struct Life {
    bytes: u64,
    first: usize,
    last: Option<usize>,
}

#[cfg(test)]
mod tests {
    use tvm_bridge::DType;

    use super::*;

    fn tensor(address: usize, elements: i64) -> TensorFacts {
        TensorFacts {
            address,
            shape: vec![elements],
            dtype: Some(DType::Float32),
        }
    }

    fn call(symbol: &str, tensors: &[TensorFacts], result: Option<TensorFacts>) -> SeenCall {
        SeenCall {
            symbol: symbol.to_owned(),
            parent: None,
            tensors: tensors.to_vec(),
            result,
        }
    }

    #[test]
    fn a_tensor_lives_from_its_first_use_to_its_last_though_its_memory_is_used_again() {
        let (input, a, b) = (tensor(1, 10), tensor(100, 10), tensor(200, 5));
        let alloc = |t: &TensorFacts| call(ALLOC_TENSOR, &[], Some(t.clone()));
        let again = tensor(100, 2);
        let seen = Seen {
            seen: vec![
                alloc(&a),
                call("conv", &[input.clone(), a.clone()], None),
                alloc(&b),
                call("relu", &[a, b.clone()], None),
                alloc(&again),
                call("softmax", &[b, again], None),
            ],
            ..Seen::default()
        };
        let calls = seen.calls(&HashMap::from([(1, 0)]));
        let bytes: Vec<[u64; 3]> = [1, 3, 5]
            .map(|i| &calls[i])
            .map(|c| [c.allocated_bytes, c.freed_bytes, c.live_bytes])
            .to_vec();
        assert_eq!(bytes, [[40, 0, 40], [20, 40, 60], [8, 20, 28]]);
        assert_eq!(calls[1].arguments[0].input, Some(0));
        assert_eq!(calls[1].arguments[1].input, None);
    }
}
