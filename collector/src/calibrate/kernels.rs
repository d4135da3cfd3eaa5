//! The kernels whose speed is a rate of the machine.
//!
//! Both are loop nests that go TVM's road like any operator: a parallel loop over the threads, each of which keeps a
//! tile of accumulators in registers. [`peak`] multiplies and adds in registers alone; [`read`] adds up a working set of
//! its own, again and again. All data are ones, so every output must be the number of additions behind it: a loop that
//! was optimised away, or cut short, shows in the result.

use tvm_bridge::PrimFunc;
use tvm_bridge::nest::{Buffer, Index, LoopKind, Place, Stmt, Value, function};

use crate::schedule::VectorUnit;

/// Arithmetic of one thread in one call, flop: half a millisecond on a fast core, so that starting the threads (a few
/// microseconds) does not count.
const FLOP_PER_CALL: i64 = 100_000_000;
/// Bytes that one thread reads in one call, in whole rounds of its set, for the same reason.
const BYTES_PER_CALL: i64 = 64 << 20;
/// Registers that a kernel leaves for operands.
const SPARE_REGISTERS: i64 = 4;
/// Accumulators of [`read`]: more than any processor has additions under way (latency 5, 2 a cycle), and few enough
/// that a small working set still makes a loop of many steps.
const READ_CHAINS: i64 = 12;

/// A kernel whose parameters are `data` (ones) and `out`.
#[derive(Debug)]
pub(super) struct Program {
    /// The loop nest.
    pub function: PrimFunc,
    /// Elements of `out`.
    pub outputs: i64,
    /// What each of them must be.
    pub expected: f32,
    /// What one call of all threads does: flop or bytes.
    pub work: f64,
}

/// The accumulators of one thread: `chains` vectors.
#[derive(Debug, Clone, Copy)]
struct Tile {
    chains: i64,
    lanes: i64,
}

impl Tile {
    fn elements(self) -> i64 {
        self.chains * self.lanes
    }

    /// A statement for each vector of the tile, written out.
    fn each(
        self,
        body: impl FnOnce(&Index, &Index) -> tvm_bridge::Result<Stmt>,
    ) -> tvm_bridge::Result<Stmt> {
        Stmt::repeat("u", LoopKind::Unrolled, self.chains, |u| {
            Stmt::repeat("v", LoopKind::Vectorized, self.lanes, |v| {
                body(&u.times(self.lanes)?.plus(v)?, v)
            })
        })
    }
}

/// Bytes that a working set of [`read`] is a multiple of.
pub(super) fn read_step_bytes(unit: VectorUnit) -> u64 {
    (READ_CHAINS * unit.lanes() * 4) as u64
}

/// Multiply-adds, with nothing loaded or stored; `data_elements` is the extent of the parameter, two vectors at least.
pub(super) fn peak(
    unit: VectorUnit,
    threads: i64,
    data_elements: i64,
) -> tvm_bridge::Result<Program> {
    let tile = Tile {
        chains: (i64::from(unit.registers) - SPARE_REGISTERS).max(1),
        lanes: unit.lanes(),
    };
    let steps = FLOP_PER_CALL / (2 * tile.elements());
    let function = nest(tile, threads, data_elements, |_, data, sums| {
        Stmt::repeat("step", LoopKind::Serial, steps, |_| {
            tile.each(|place, lane| {
                // Ones, which only the caller knows: the compiler has to multiply.
                let factor = data.load(lane)?;
                let addend = data.load(&lane.plus(&Index::constant(tile.lanes)?)?)?;
                let next = sums.load(place)?.times(&factor)?.plus(&addend)?;
                sums.store(&next, place)
            })
        })
    })?;
    Ok(Program {
        function,
        outputs: threads * tile.elements(),
        expected: steps as f32,
        work: (threads * steps * 2 * tile.elements()) as f64,
    })
}

/// Additions of `set_bytes` of each thread's own; a multiple of [`read_step_bytes`].
pub(super) fn read(
    unit: VectorUnit,
    threads: i64,
    data_elements: i64,
    set_bytes: u64,
) -> tvm_bridge::Result<Program> {
    let tile = Tile {
        chains: READ_CHAINS,
        lanes: unit.lanes(),
    };
    let steps = set_bytes as i64 / 4 / tile.elements();
    let set = steps * tile.elements();
    let rounds = (BYTES_PER_CALL / (4 * set)).max(1);
    let function = nest(tile, threads, data_elements, |thread, data, sums| {
        Stmt::repeat("round", LoopKind::Serial, rounds, |_| {
            Stmt::repeat("step", LoopKind::Serial, steps, |step| {
                let start = thread.times(set)?.plus(&step.times(tile.elements())?)?;
                tile.each(|place, _| {
                    let next = sums.load(place)?.plus(&data.load(&start.plus(place)?)?)?;
                    sums.store(&next, place)
                })
            })
        })
    })?;
    Ok(Program {
        function,
        outputs: threads * tile.elements(),
        expected: (rounds * steps) as f32,
        work: (threads * rounds * set * 4) as f64,
    })
}

/// Zeroes each thread's accumulators, does `inner` and writes them out.
fn nest(
    tile: Tile,
    threads: i64,
    data_elements: i64,
    inner: impl FnOnce(&Index, &Buffer, &Buffer) -> tvm_bridge::Result<Stmt>,
) -> tvm_bridge::Result<PrimFunc> {
    let data = Buffer::new("data", data_elements, Place::Parameter)?;
    let out = Buffer::new("out", threads * tile.elements(), Place::Parameter)?;
    let sums = Buffer::new("sums", tile.elements(), Place::Local)?;
    let body = Stmt::repeat("thread", LoopKind::Parallel, threads, |thread| {
        let begin = tile.each(|place, _| sums.store(&Value::constant(0.0)?, place))?;
        let inner = inner(thread, &data, &sums)?;
        let end = tile.each(|place, _| {
            out.store(
                &sums.load(place)?,
                &thread.times(tile.elements())?.plus(place)?,
            )
        })?;
        Stmt::sequence(&[Stmt::allocate(&sums)?, begin, inner, end])
    })?;
    function(&[data, out], &body)
}
