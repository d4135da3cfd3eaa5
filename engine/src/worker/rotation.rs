//! Buffer rotation: calls alternate between several sets of arguments, so that the traffic between two uses of a buffer
//! is that of the model.
//!
//! Inside a model, weights and the model's inputs come again after all that the model reads and writes in between. Outputs
//! are written to memory that an earlier operator used. A call that repeats on the same arguments finds all of it in the
//! nearest cache that holds it.

use std::cell::Cell;

use opmodels::graph::{Argument, ArgumentRole};
use tvm_bridge::Tensor;

use crate::protocol::Reuse;

/// Maximum number of sets: beyond it, even small tensors are only in the last-level cache.
const MAX_SETS: u64 = 512;
/// Maximum bytes of all sets together: many times the size of a core's caches.
const MAX_ROTATED_BYTES: u64 = 256 << 20;
/// Traffic between two uses of memory after which a last-level cache shared with other virtual machines holds none of it:
/// they evict it in the milliseconds in between. After 2.6 and 3.8 MB, weights were left in a cache of 32 MiB. After 12 MB
/// they were not, nor was outputs' memory after 6 MB (Zen 4, 2026-12-01).
const SHARED_CACHE_BYTES: u64 = 4_000_000;
/// Traffic that evicts as much without neighbours, since calls of one operator follow each other too fast for them: twice
/// that cache.
const EVICTING_BYTES: u64 = 64 << 20;

/// Sets of arguments, and whose turn it is.
pub(super) struct Rotation {
    sets: Vec<Set>,
    calls: Cell<usize>,
}

/// The arguments of a call.
struct Set {
    tensors: Vec<Tensor>,
    /// Tensors that other operators write or read. Inside a model the outputs' memory is used first, the inputs last.
    activations: Vec<Tensor>,
}

impl Rotation {
    /// The same arguments for every call.
    pub fn still(specs: &[Argument], tensors: &[Tensor]) -> Rotation {
        Rotation {
            sets: vec![Set::of(specs, tensors.to_vec())],
            calls: Cell::new(0),
        }
    }

    /// Copies of weights, of the model's inputs and of outputs, by the bytes of `reuse`. All sets share other inputs, which
    /// an operator finds where the one before has just left them. With `neighbours`, other virtual machines share the
    /// last-level cache.
    ///
    /// # Errors
    /// Fails if no memory is left on the device.
    pub fn of(
        specs: &[Argument],
        tensors: &[Tensor],
        reuse: Reuse,
        neighbours: bool,
    ) -> tvm_bridge::Result<Rotation> {
        let places = |role| places(specs, role);
        let (mut weights, outputs) = (places(ArgumentRole::Weight), places(ArgumentRole::Output));
        let mut inputs = places(ArgumentRole::Input);
        if reuse.inputs > 0 {
            // The model reads them once a run, as it does weights.
            weights.append(&mut inputs);
        }
        let bytes = |places: &[usize]| -> u64 {
            let sizes = places.iter().map(|&i| tensors[i].size_bytes());
            sizes.map(|n| n as u64).sum()
        };
        let own = Own {
            inputs: bytes(&inputs),
            weights: bytes(&weights),
            outputs: bytes(&outputs),
        };
        let copies = own.copies(match neighbours {
            true => own.beside_neighbours(reuse),
            false => reuse,
        });
        let mut sets: Vec<Vec<Tensor>> = Vec::new();
        for turn in 0..copies.weights.max(copies.outputs) {
            let mut set = tensors.to_vec();
            for (places, copies) in [(&weights, copies.weights), (&outputs, copies.outputs)] {
                for &i in places {
                    if turn >= copies {
                        set[i] = sets[turn % copies][i].clone();
                    } else if turn > 0 {
                        set[i] = tensors[i].duplicate()?;
                    }
                }
            }
            sets.push(set);
        }
        Ok(Rotation {
            sets: sets.into_iter().map(|set| Set::of(specs, set)).collect(),
            calls: Cell::new(0),
        })
    }

    /// The arguments of all sets, in turn.
    pub fn arguments(&self) -> impl Iterator<Item = &[Tensor]> {
        self.sets.iter().map(|set| &*set.tensors)
    }

    /// The number of the set for the next call. Each later call gets the set after it.
    pub fn take_turn(&self) -> usize {
        self.calls.replace(self.calls.get() + 1) % self.sets.len()
    }

    /// Arguments of the first set.
    pub fn first(&self) -> &[Tensor] {
        &self.sets[0].tensors
    }

    /// Outputs and inputs of the call before.
    pub fn used_last(&self) -> &[Tensor] {
        let before = self.calls.get() + self.sets.len() - 1;
        &self.sets[before % self.sets.len()].activations
    }
}

impl Set {
    fn of(specs: &[Argument], tensors: Vec<Tensor>) -> Set {
        let activations = [ArgumentRole::Output, ArgumentRole::Input]
            .into_iter()
            .flat_map(|role| places(specs, role))
            .map(|i| tensors[i].clone())
            .collect();
        Set {
            tensors,
            activations,
        }
    }
}

/// Places of the arguments of a role.
fn places(specs: &[Argument], role: ArgumentRole) -> Vec<usize> {
    let all = 0..specs.len();
    all.filter(|&i| specs[i].role == role).collect()
}

/// Bytes of an operator's arguments.
#[derive(Debug, Clone, Copy)]
struct Own {
    inputs: u64,
    weights: u64,
    outputs: u64,
}

/// Copies that take turns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Copies {
    weights: usize,
    outputs: usize,
}

impl Own {
    /// Traffic that evicts by itself what `reuse` and the neighbours evict together. A model of this operator alone uses its
    /// memory again before neighbours evict any of it.
    fn beside_neighbours(self, reuse: Reuse) -> Reuse {
        let call = self.inputs + self.weights + self.outputs;
        let evicting = |bytes: u64| match bytes > SHARED_CACHE_BYTES.max(call) {
            true => bytes.max(EVICTING_BYTES),
            false => bytes,
        };
        Reuse {
            inputs: evicting(reuse.inputs),
            weights: evicting(reuse.weights),
            outputs: evicting(reuse.outputs),
        }
    }

    /// Number of copies such that at least `reuse` bytes are touched before a copy is used again. Between two uses of an output
    /// copy lie all output copies, the weights of as many calls, and the inputs; likewise for weights.
    fn copies(self, reuse: Reuse) -> Copies {
        let beyond_inputs = reuse.outputs.saturating_sub(self.inputs);
        let outputs = copies(beyond_inputs, self.outputs, self.weights + self.outputs);
        let beside = self.inputs + outputs as u64 * self.outputs;
        let weights = copies(
            reuse.weights.max(reuse.inputs).saturating_sub(beside),
            self.weights,
            self.weights,
        );
        Copies { weights, outputs }
    }
}

/// Number of copies of `own` bytes such that `between` bytes are touched before a copy is used again; `each` is touched
/// with every call.
fn copies(between: u64, own: u64, each: u64) -> usize {
    if own == 0 {
        return 1;
    }
    let wanted = between.min(MAX_ROTATED_BYTES).div_ceil(each);
    wanted.clamp(1, MAX_SETS) as usize
}

#[cfg(test)]
mod tests {
    use opmodels::graph::Fill;
    use tvm_bridge::{DType, Device};

    use super::*;

    const KIB: u64 = 1 << 10;

    fn reuse(weights: u64, outputs: u64) -> Reuse {
        Reuse {
            inputs: 0,
            weights,
            outputs,
        }
    }

    #[test]
    fn as_much_passes_between_two_uses_as_in_the_model() {
        let own = Own {
            inputs: 8 * KIB,
            weights: 2 * KIB,
            outputs: 6 * KIB,
        };
        // Outputs: 8 of inputs, then 8 with each of 4 calls. Weights: 8 of inputs, 4 copies of the outputs, 16 of weights.
        let copies = own.copies(reuse(64 * KIB, 40 * KIB));
        assert_eq!((copies.weights, copies.outputs), (16, 4));
        // Without traffic in between, all calls use the same set.
        let alone = own.copies(reuse(16 * KIB, 16 * KIB));
        assert_eq!((alone.weights, alone.outputs), (1, 1));
        let unknown = own.copies(Reuse::default());
        assert_eq!((unknown.weights, unknown.outputs), (1, 1));
        // Missing buffers are not copied, and tiny tensors get a limited number of copies.
        let none = Own { weights: 0, ..own }.copies(reuse(64 * KIB, 40 * KIB));
        assert_eq!((none.weights, none.outputs), (1, 6));
        let tiny = Own { weights: 1, ..own }.copies(reuse(1 << 30, 0));
        assert_eq!(tiny.weights, 512);
    }

    #[test]
    fn neighbours_evict_only_beyond_their_cache() {
        let own = |weights| Own {
            inputs: 8 * KIB,
            weights,
            outputs: 6 * KIB,
        };
        let small = own(2 * KIB).beside_neighbours(reuse(4_000_001, 4_000_000));
        assert_eq!((small.weights, small.outputs), (64 << 20, 4_000_000));
        let more = own(2 * KIB).beside_neighbours(reuse(80 << 20, 0));
        assert_eq!((more.weights, more.outputs), (80 << 20, 0));
        // A model of one operator.
        let call = 5_000_000 + 14 * KIB;
        let alone = own(5_000_000).beside_neighbours(reuse(call, call));
        assert_eq!((alone.weights, alone.outputs), (call, call));
    }

    #[test]
    fn copies_come_in_turn_and_inputs_are_shared() {
        let argument = |role| Argument {
            name: String::new(),
            shape: vec![256],
            dtype: "float32".to_owned(),
            role,
            fill: Fill::Const { value: 0.0 },
        };
        let roles = [
            ArgumentRole::Input,
            ArgumentRole::Weight,
            ArgumentRole::Output,
        ];
        let specs = roles.map(argument);
        let tensor = || Tensor::zeros(Device::cpu(), &[256], DType::Float32).unwrap();
        let tensors = [tensor(), tensor(), tensor()];
        // Two copies of the outputs, 2 KiB with each call, and four of the weights.
        let rotation = Rotation::of(&specs, &tensors, reuse(7 * KIB, 5 * KIB), true).unwrap();
        let address = |tensor: &Tensor| tensor.host_bytes().unwrap().as_ptr() as usize;
        let places: Vec<Vec<usize>> = rotation
            .arguments()
            .map(|set| set.iter().map(address).collect())
            .collect();
        assert_eq!(places.len(), 4);
        let different = |argument: usize| {
            let mut all: Vec<usize> = places.iter().map(|set| set[argument]).collect();
            all.sort_unstable();
            all.dedup();
            all.len()
        };
        assert_eq!([different(0), different(1), different(2)], [1, 4, 2]);
        assert_eq!(places[0], tensors.each_ref().map(address));
        assert_eq!(places[1][2], places[3][2]);
        // The previous call's buffers are known, its weights excepted.
        assert_eq!((rotation.take_turn(), rotation.take_turn()), (0, 1));
        let last: Vec<usize> = rotation.used_last().iter().map(address).collect();
        assert_eq!(last, [places[1][2], places[1][0]]);
        assert_eq!([2, 3, 0].map(|_| rotation.take_turn()), [2, 3, 0]);
        // The model's inputs are copied too.
        let of_model = Reuse {
            inputs: 7 * KIB,
            ..reuse(0, KIB)
        };
        let rotation = Rotation::of(&specs, &tensors, of_model, false).unwrap();
        let mut places: Vec<usize> = rotation.arguments().map(|set| address(&set[0])).collect();
        places.dedup();
        assert_eq!(places.len(), 3);
    }
}
