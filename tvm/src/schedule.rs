//! Schedules: transformations of a TensorIR function, recorded as a trace.
//!
//! A thin, typed cover of TVM's schedule primitives (`s_tir.schedule.*`). [`Block`] and [`Loop`] are handles into the
//! schedule they came from; they stay valid across transformations. [`Schedule::parallel`] must come before
//! [`Schedule::decompose_reduction`]: afterwards TVM no longer sees the loop as a reduction's. Primitives that change the
//! layout of buffers and blocks are in [`crate::layout`], those for tensor intrinsics in [`crate::tensorize`], and annotations in
//! [`crate::annotate`].

use crate::call::{Obj, array, boolean, call, elements, field, int, none, text, value};
use crate::error::{Error, Result};
use crate::inspect::{BlockInfo, string};
use crate::ir::{IrModule, PrimFunc, type_key};
use crate::trace::Trace;

/// A block (one computation with its iteration variables) of a schedule.
#[derive(Debug, Clone)]
pub struct Block(pub(crate) Obj);

/// A loop of a schedule.
#[derive(Debug, Clone)]
pub struct Loop(pub(crate) Obj);

/// A function being scheduled.
#[derive(Debug)]
pub struct Schedule {
    handle: Obj,
    /// TVM transforms an object without a second owner in place, and looks only at blocks and loops for that. A
    /// function's root block must have a second owner, or a schedule changes the function that it was made from.
    _root: Obj,
}

/// `-1` tells TVM to use the last position (of a sibling list), and a random seed.
const UNSET: i64 = -1;

impl Schedule {
    /// Starts a traced schedule of `function` with a seed for sampled decisions.
    ///
    /// # Errors
    /// Fails if TVM does.
    pub fn new(function: &PrimFunc, seed: u64) -> Result<Schedule> {
        /// No self-checks, and errors without a rendered program: both cost more than a candidate's schedule.
        const DEBUG_MASK: i64 = 0;
        const TERSE_ERRORS: i64 = 1;
        let module = function.to_module()?;
        let root = function.root_block()?;
        let handle = call(
            "s_tir.schedule.TracedSchedule",
            &[
                &module.handle,
                &int(Self::seed(seed)),
                &int(DEBUG_MASK),
                &int(TERSE_ERRORS),
                &boolean(true),
            ],
        )?;
        Ok(Schedule {
            handle,
            _root: root,
        })
    }

    /// A fresh schedule with the steps of a trace: what these leave open is drawn from the seed.
    ///
    /// # Errors
    /// Fails if the steps do not fit the function.
    pub(crate) fn drawn(function: &PrimFunc, steps: &Obj, seed: u64) -> Result<Schedule> {
        let schedule = Schedule::new(function, seed)?;
        call(
            "s_tir.schedule.TraceApplyToSchedule",
            &[steps, &schedule.handle, &boolean(true), &none()],
        )?;
        Ok(schedule)
    }

    /// The seed as TVM takes it: 1 to 2³¹ − 2.
    pub(crate) fn seed(seed: u64) -> i64 {
        (seed % (i32::MAX as u64 - 1)) as i64 + 1
    }

    pub(crate) fn handle(&self) -> &Obj {
        &self.handle
    }

    /// The module as scheduled so far: one function, exported as [`crate::ir::ENTRY`].
    ///
    /// # Errors
    /// Fails if TVM does.
    pub fn module(&self) -> Result<IrModule> {
        Ok(IrModule {
            handle: self.call("ScheduleGetMod", &[])?,
        })
    }

    /// The function as scheduled so far.
    ///
    /// # Errors
    /// Fails if TVM does.
    pub fn function(&self) -> Result<PrimFunc> {
        self.module()?.prim_func(crate::ir::ENTRY)
    }

    /// The program as TVMScript.
    ///
    /// # Errors
    /// Errors of the printer.
    pub fn script(&self) -> Result<String> {
        crate::ir::script(&self.module()?.handle)
    }

    /// The trace so far.
    ///
    /// # Errors
    /// Fails if TVM does.
    pub fn trace(&self) -> Result<Trace> {
        Trace::of(&self.call("ScheduleGetTrace", &[])?)
    }

    /// TVM's own object of the trace so far.
    pub(crate) fn trace_object(&self) -> Result<Obj> {
        self.call("ScheduleGetTrace", &[])
    }

    /// Applies a recorded trace to this (fresh) schedule.
    ///
    /// # Errors
    /// Fails if the trace does not fit the function.
    pub fn apply(&self, trace: &Trace) -> Result<()> {
        call(
            "s_tir.schedule.TraceApplyJSONToSchedule",
            &[&trace.to_object()?, &self.handle],
        )?;
        Ok(())
    }

    /// The block called `name`.
    ///
    /// # Errors
    /// Fails if there is none, or if there are several.
    pub fn block(&self, name: &str) -> Result<Block> {
        Ok(Block(self.call(
            "ScheduleGetSBlock",
            &[&text(name), &text(crate::ir::ENTRY)],
        )?))
    }

    /// The loops around `block`, outermost first.
    ///
    /// # Errors
    /// Fails if TVM does.
    pub fn loops(&self, block: &Block) -> Result<Vec<Loop>> {
        self.several("ScheduleGetLoops", &[&block.0], Loop)
    }

    /// The blocks of the function in program order.
    ///
    /// # Errors
    /// Fails if TVM does.
    pub fn blocks(&self) -> Result<Vec<Block>> {
        let root = self.block("root")?;
        self.several("ScheduleGetChildBlocks", &[&root.0], Block)
    }

    /// The block's description at this point of the schedule.
    ///
    /// # Errors
    /// Fails if TVM does.
    pub fn info(&self, block: &Block) -> Result<BlockInfo> {
        BlockInfo::of(&self.call("ScheduleGet", &[&block.0])?)
    }

    /// A loop's extent, where it is a constant.
    ///
    /// # Errors
    /// Fails if the extent is not a constant.
    pub fn extent(&self, l: &Loop) -> Result<i64> {
        let node = self.call("ScheduleGet", &[&l.0])?;
        value("For.extent", field(&field(&node, "extent")?, "value")?)
    }

    /// The blocks that `block` reads from.
    ///
    /// # Errors
    /// Fails if TVM does.
    pub fn producers(&self, block: &Block) -> Result<Vec<Block>> {
        self.several("ScheduleGetProducers", &[&block.0], Block)
    }

    /// The blocks that read what `block` writes.
    ///
    /// # Errors
    /// Fails if TVM does.
    pub fn consumers(&self, block: &Block) -> Result<Vec<Block>> {
        self.several("ScheduleGetConsumers", &[&block.0], Block)
    }

    /// Splits a loop; the product of `factors` (outermost first) must cover its extent, and one `None` is inferred.
    ///
    /// # Errors
    /// Fails if two factors are left open, or the factors do not cover the loop.
    pub fn split(&self, l: &Loop, factors: &[Option<i64>]) -> Result<Vec<Loop>> {
        let factors: Vec<Obj> = factors.iter().map(|f| f.map_or_else(none, int)).collect();
        let inputs = [&l.0, &array(&factors)?, &boolean(true), &boolean(false)];
        self.several("ScheduleSplit", &inputs, Loop)
    }

    /// Splits a loop into consecutive ones of these extents, and one more for the rest; each has a copy of the body.
    ///
    /// # Errors
    /// Fails if the loop is annotated or bound, or shorter than the parts.
    pub fn partition(&self, l: &Loop, extents: &[i64]) -> Result<Vec<Loop>> {
        let extents = extents.iter().map(|&e| int(e)).chain([none()]);
        let extents = array(&extents.collect::<Vec<Obj>>())?;
        let inputs = [&l.0, &extents, &boolean(true)];
        self.several("ScheduleLoopPartition", &inputs, Loop)
    }

    /// Tiles loops: splits each by its inner factor and moves the inner loops inside all outer ones.
    ///
    /// # Errors
    /// Fails as [`Schedule::split`] and [`Schedule::reorder`] do.
    pub fn tile(&self, loops: &[(&Loop, i64)]) -> Result<(Vec<Loop>, Vec<Loop>)> {
        let mut outer = Vec::with_capacity(loops.len());
        let mut inner = Vec::with_capacity(loops.len());
        for &(l, factor) in loops {
            let parts: [Loop; 2] = self
                .split(l, &[None, Some(factor)])?
                .try_into()
                .map_err(|_| Error::unexpected("ScheduleSplit", "not two loops"))?;
            let [o, i] = parts;
            outer.push(o);
            inner.push(i);
        }
        self.reorder(&outer.iter().chain(&inner).collect::<Vec<_>>())?;
        Ok((outer, inner))
    }

    /// Fuses nested loops into one.
    ///
    /// # Errors
    /// Fails if the loops are not nested directly.
    pub fn fuse(&self, loops: &[&Loop]) -> Result<Loop> {
        let loops = array(loops.iter().map(|l| &l.0))?;
        Ok(Loop(self.call("ScheduleFuse", &[&loops, &boolean(true)])?))
    }

    /// Puts loops of one nest into the given order.
    ///
    /// # Errors
    /// Fails if the loops are not on one path.
    pub fn reorder(&self, loops: &[&Loop]) -> Result<()> {
        self.done("ScheduleReorder", &[&array(loops.iter().map(|l| &l.0))?])
    }

    /// Runs a loop's iterations as lanes of vector instructions.
    ///
    /// # Errors
    /// Fails if the loop carries a dependence.
    pub fn vectorize(&self, l: &Loop) -> Result<()> {
        self.done("ScheduleVectorize", &[&l.0])
    }

    /// Runs a loop's iterations on the thread pool.
    ///
    /// # Errors
    /// Fails if the loop carries a dependence.
    pub fn parallel(&self, l: &Loop) -> Result<()> {
        self.done("ScheduleParallel", &[&l.0])
    }

    /// Runs a loop's iterations as the threads of a GPU: `axis` is `blockIdx.x`, `threadIdx.x`, `vthread.x`, ….
    ///
    /// # Errors
    /// Fails if the loop carries a dependence, or the axis is unknown.
    pub fn bind(&self, l: &Loop, axis: &str) -> Result<()> {
        self.done("ScheduleBind", &[&l.0, &text(axis)])
    }

    /// Repeats a loop's body instead of looping.
    ///
    /// # Errors
    /// Fails if TVM does.
    pub fn unroll(&self, l: &Loop) -> Result<()> {
        self.done("ScheduleUnroll", &[&l.0])
    }

    /// Computes a producer inside `l`, as much of it as `l`'s body needs.
    ///
    /// # Errors
    /// Fails if not all consumers are under `l`.
    pub fn compute_at(&self, block: &Block, l: &Loop) -> Result<()> {
        self.moved("ScheduleComputeAt", block, l, false)
    }

    /// Like [`Schedule::compute_at`], but keeps loops of one iteration, so that the copy has one loop for each
    /// dimension.
    ///
    /// # Errors
    /// Fails as [`Schedule::compute_at`] does.
    pub fn compute_at_with_unit_loops(&self, block: &Block, l: &Loop) -> Result<()> {
        self.moved("ScheduleComputeAt", block, l, true)
    }

    /// Computes a consumer inside `l`, as much of it as `l`'s body has produced.
    ///
    /// # Errors
    /// Fails if not all producers are under `l`.
    pub fn reverse_compute_at(&self, block: &Block, l: &Loop) -> Result<()> {
        self.moved("ScheduleReverseComputeAt", block, l, false)
    }

    /// [`Schedule::reverse_compute_at`] that keeps loops of one iteration.
    ///
    /// # Errors
    /// As there.
    pub fn reverse_compute_at_with_unit_loops(&self, block: &Block, l: &Loop) -> Result<()> {
        self.moved("ScheduleReverseComputeAt", block, l, true)
    }

    /// Writes a consumer's expression into its one producer.
    ///
    /// # Errors
    /// Fails if the producer's result is needed elsewhere, or the consumer reads it in another order.
    pub fn reverse_compute_inline(&self, block: &Block) -> Result<()> {
        self.done("ScheduleReverseComputeInline", &[&block.0])
    }

    /// Writes a producer's expression into its consumers.
    ///
    /// # Errors
    /// Fails if the block is not a plain spatial one, or writes an output.
    pub fn compute_inline(&self, block: &Block) -> Result<()> {
        self.done("ScheduleComputeInline", &[&block.0])
    }

    /// Reads a buffer through a copy in the storage scope `scope` (`global`, `local`, `shared`, …); returns the copy.
    ///
    /// # Errors
    /// Fails if there is no such buffer.
    pub fn cache_read(&self, block: &Block, buffer: usize, scope: &str) -> Result<Block> {
        self.cached("ScheduleCacheRead", block, buffer, scope)
    }

    /// Writes a buffer through a copy in the storage scope `scope`; returns the block that copies it out.
    ///
    /// # Errors
    /// Fails if there is no such buffer.
    pub fn cache_write(&self, block: &Block, buffer: usize, scope: &str) -> Result<Block> {
        self.cached("ScheduleCacheWrite", block, buffer, scope)
    }

    /// Moves the buffer a block writes into the storage scope `scope`.
    ///
    /// # Errors
    /// Fails if the buffer is an argument of the function.
    pub fn set_scope(&self, block: &Block, buffer: usize, scope: &str) -> Result<()> {
        self.done(
            "ScheduleSetScope",
            &[&block.0, &int(buffer as i64), &text(scope)],
        )
    }

    /// Parts a reduction's initialisation from its update, outside `l`; returns the initialising block.
    ///
    /// # Errors
    /// Fails if `l` is inside a reduction loop of the block.
    pub fn decompose_reduction(&self, block: &Block, l: &Loop) -> Result<Block> {
        Ok(Block(
            self.call("ScheduleDecomposeReduction", &[&block.0, &l.0])?,
        ))
    }

    /// Parts a padding block into one that fills and one that copies the inside; returns the filling block.
    ///
    /// # Errors
    /// Fails if the block is not a padding.
    pub fn decompose_padding(&self, block: &Block, l: &Loop) -> Result<Block> {
        Ok(Block(
            self.call("ScheduleDecomposePadding", &[&block.0, &l.0])?,
        ))
    }

    /// Whether [`Schedule::decompose_padding`] would succeed.
    ///
    /// # Errors
    /// Fails if TVM does.
    pub fn can_decompose_padding(&self, block: &Block, l: &Loop) -> Result<bool> {
        // TVM's "no" is an error inside TVM. The first error of a process reads the symbols of all libraries for its
        // backtrace, which takes a quarter of a second (29 November 2026). So TVM is asked only where it may say yes.
        if !stores_padded(&self.call("ScheduleGet", &[&block.0])?)? {
            return Ok(false);
        }
        let able = self.call("CanDecomposePadding", &[&block.0, &l.0])?;
        value("CanDecomposePadding", able)
    }

    /// Factors a reduction loop out into a spatial axis of a partial result; returns the block of partial results.
    ///
    /// # Errors
    /// Fails if the block is not a commutative reduction.
    pub fn rfactor(&self, l: &Loop, factor_axis: i64) -> Result<Block> {
        Ok(Block(
            self.call("ScheduleRFactor", &[&l.0, &int(factor_axis)])?,
        ))
    }

    /// The blocks or loops that a primitive returns.
    fn several<T>(&self, primitive: &str, args: &[&Obj], of: fn(Obj) -> T) -> Result<Vec<T>> {
        let objects = elements(&self.call(primitive, args)?)?;
        Ok(objects.into_iter().map(of).collect())
    }

    fn moved(&self, primitive: &str, block: &Block, l: &Loop, unit_loops: bool) -> Result<()> {
        let inputs = [&block.0, &l.0, &boolean(unit_loops), &int(UNSET)];
        self.done(primitive, &inputs)
    }

    fn cached(&self, primitive: &str, block: &Block, buffer: usize, scope: &str) -> Result<Block> {
        let all_consumers = array([])?;
        let inputs = [&block.0, &int(buffer as i64), &text(scope), &all_consumers];
        self.call(primitive, &inputs).map(Block)
    }

    pub(crate) fn done(&self, primitive: &str, args: &[&Obj]) -> Result<()> {
        self.call(primitive, args).map(drop)
    }

    pub(crate) fn call(&self, primitive: &str, args: &[&Obj]) -> Result<Obj> {
        let mut all = vec![&self.handle];
        all.extend_from_slice(args);
        call(&format!("s_tir.schedule.{primitive}"), &all)
    }
}

/// Whether all that a block does is to store a value or else a constant, as TVM demands of a padding.
fn stores_padded(block: &Obj) -> Result<bool> {
    let body = field(block, "body")?;
    if type_key(&body) != Some("tirx.BufferStore") {
        return Ok(false);
    }
    let stored = field(&body, "value")?;
    if type_key(&stored) != Some("ir.Call") {
        return Ok(false);
    }
    let op = field(&stored, "op")?;
    if type_key(&op) != Some("ir.Op") || string(&field(&op, "name")?)? != "prim.if_then_else" {
        return Ok(false);
    }
    let padding = elements(&field(&stored, "args")?)?.pop();
    let kind = padding.as_ref().and_then(type_key);
    Ok(matches!(kind, Some("ir.FloatImm" | "ir.IntImm")))
}
