//! The kernels whose speed is a rate of the machine.
//!
//! Both are loop nests that are compiled like any operator. A parallel loop runs over the threads, and each thread
//! keeps a tile of accumulators in registers. [`Kind::Peak`] multiplies and adds in registers alone; [`Kind::Read`]
//! adds up a working set of its own, again and again. The counts of the loops are data, so that the compiler cannot
//! keep a small set in registers. All other data are ones, so every output must be the number of its additions. A
//! loop that was left out or cut short shows in the result.

use std::slice::from_ref;

use opmodels::tile::VectorUnit;
use tvm_bridge::PrimFunc;
use tvm_bridge::nest::{Buffer, Index, Integers, LoopKind, Parameter, Stmt, Value, function};

/// Arithmetic of one thread in one call, flop. It takes half a millisecond on a fast core, so starting the threads (a
/// few microseconds) does not count.
const FLOP_PER_CALL: i64 = 100_000_000;
/// Bytes that one thread reads in one call, in whole rounds of its set, for the same reason.
const BYTES_PER_CALL: i64 = 64 << 20;
/// Registers that [`Kind::Peak`] leaves for operands.
const SPARE_REGISTERS: i64 = 4;
/// Number of accumulators of [`Kind::Read`]. It exceeds the additions that a processor has under way (latency 5, 2 a
/// cycle). It is small enough that a small working set still takes many steps.
const READ_CHAINS: i64 = 12;

/// The work of a kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Kind {
    /// Multiply and add.
    Peak,
    /// Read.
    Read,
}

/// How often the loops of a kernel run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Counts {
    /// Number of passes over the set.
    pub rounds: i64,
    /// Steps of a round. Each adds to every accumulator.
    pub steps: i64,
}

/// The accumulators of one thread: `chains` vectors.
#[derive(Debug, Clone, Copy)]
pub(super) struct Tile {
    chains: i64,
    lanes: i64,
}

impl Tile {
    /// The tile of a kernel on a vector unit.
    pub fn new(kind: Kind, unit: VectorUnit) -> Tile {
        let chains = match kind {
            Kind::Peak => (i64::from(unit.registers) - SPARE_REGISTERS).max(1),
            Kind::Read => READ_CHAINS,
        };
        Tile {
            chains,
            lanes: unit.lanes(),
        }
    }

    /// Values that one thread writes.
    pub fn elements(self) -> i64 {
        self.chains * self.lanes
    }

    /// Bytes that a step of reading takes.
    pub fn step_bytes(self) -> i64 {
        4 * self.elements()
    }

    /// The counts that make one call long enough; `set_bytes` is what a thread reads a round.
    pub fn counts(self, kind: Kind, set_bytes: u64) -> Counts {
        let steps = match kind {
            Kind::Peak => FLOP_PER_CALL / (2 * self.elements()),
            Kind::Read => set_bytes as i64 / self.step_bytes(),
        };
        let rounds = match kind {
            Kind::Peak => 1,
            Kind::Read => BYTES_PER_CALL / (steps * self.step_bytes()).max(1),
        };
        Counts {
            rounds: rounds.max(1),
            steps,
        }
    }

    /// Work of one thread in one call: flop or bytes.
    pub fn work(self, kind: Kind, counts: Counts) -> i64 {
        let per_step = match kind {
            Kind::Peak => 2 * self.elements(),
            Kind::Read => self.step_bytes(),
        };
        counts.rounds * counts.steps * per_step
    }

    /// One statement for each vector of the tile. `body` takes the index of an element in the tile, and in its vector.
    fn each(
        self,
        body: impl FnOnce(&Index, &Index) -> tvm_bridge::Result<Stmt>,
    ) -> tvm_bridge::Result<Stmt> {
        let (chains, lanes) = (Index::constant(self.chains)?, Index::constant(self.lanes)?);
        Stmt::repeat("u", LoopKind::Unrolled, &chains, |u| {
            Stmt::repeat("v", LoopKind::Vectorized, &lanes, |v| {
                body(&u.times(&lanes)?.plus(v)?, v)
            })
        })
    }
}

/// The kernel of parameters `data` (`data_elements` ones, two vectors at least), `counts` (rounds and steps) and `out` (a
/// tile for each thread). Threads read sets that lie side by side.
pub(super) fn kernel(
    kind: Kind,
    tile: Tile,
    threads: i64,
    data_elements: i64,
) -> tvm_bridge::Result<PrimFunc> {
    let data = Buffer::new("data", &[data_elements])?;
    let counts = Integers::new("counts", 2)?;
    let out = Buffer::new("out", &[threads * tile.elements()])?;
    let sums = Buffer::new("sums", &[tile.elements()])?;
    let (rounds, steps) = (counts.load(0)?, counts.load(1)?);
    let elements = Index::constant(tile.elements())?;
    let lanes = Index::constant(tile.lanes)?;
    let body = Stmt::repeat(
        "thread",
        LoopKind::Parallel,
        &Index::constant(threads)?,
        |thread| {
            let own = thread.times(&steps)?;
            let begin =
                tile.each(|place, _| sums.store(&Value::constant(0.0)?, from_ref(place)))?;
            let work = Stmt::repeat("round", LoopKind::Serial, &rounds, |_| {
                Stmt::repeat("step", LoopKind::Serial, &steps, |step| {
                    let start = own.plus(step)?.times(&elements)?;
                    tile.each(|place, lane| {
                        let sum = sums.load(from_ref(place))?;
                        let next = match kind {
                            Kind::Peak => {
                                // The factors are ones. The compiler does not know that, so it has to multiply.
                                let factor = data.load(from_ref(lane))?;
                                sum.times(&factor)?
                                    .plus(&data.load(&[lane.plus(&lanes)?])?)?
                            }
                            Kind::Read => sum.plus(&data.load(&[start.plus(place)?])?)?,
                        };
                        sums.store(&next, from_ref(place))
                    })
                })
            })?;
            let end = tile.each(|place, _| {
                out.store(
                    &sums.load(from_ref(place))?,
                    &[thread.times(&elements)?.plus(place)?],
                )
            })?;
            Stmt::sequence(&[Stmt::allocate(&sums)?, begin, work, end])
        },
    )?;
    let parameters = [
        Parameter::Data(&data),
        Parameter::Counts(&counts),
        Parameter::Data(&out),
    ];
    function(&parameters, &body)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_of_ones_stay_exact_and_calls_long() {
        for (bits, is_x86) in [(128, true), (128, false), (256, true), (512, true)] {
            let unit = VectorUnit::of_width(bits, is_x86);
            let peak = Tile::new(Kind::Peak, unit);
            let counts = peak.counts(Kind::Peak, 0);
            assert!(peak.work(Kind::Peak, counts) > FLOP_PER_CALL / 2);
            assert!(counts.rounds * counts.steps < 1 << 24);
            let read = Tile::new(Kind::Read, unit);
            for set_bytes in [8 << 10, 1 << 20, 2 << 30] {
                let counts = read.counts(Kind::Read, set_bytes);
                let work = read.work(Kind::Read, counts);
                assert!(work > BYTES_PER_CALL / 2, "{bits} {set_bytes}: {counts:?}");
                assert!(counts.rounds * counts.steps < 1 << 24);
            }
        }
    }
}
