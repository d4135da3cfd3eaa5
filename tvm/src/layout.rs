//! Schedule primitives that change how data and iterations are laid out: the layouts of buffers, and the iterations of
//! blocks themselves.
//!
//! With them any product of two operands becomes `C[b, m, n] += A[b, m, k] * B[b, k, n]`: [`Schedule::reindex`] puts a
//! copy between the block and a buffer, [`Schedule::transform_layout`] and [`Schedule::transform_block`] give copies and
//! block the fused axes, [`Schedule::pad_einsum`] rounds the extents up.

use crate::call::{Obj, array, boolean, int, none};
use crate::error::Result;
use crate::ir::IndexMap;
use crate::schedule::{Block, Loop, Schedule};

/// The buffers of a block that a primitive works on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// The buffers it reads.
    Read,
    /// The buffers it writes.
    Write,
}

impl Access {
    /// `BufferIndexType` of TVM.
    fn code(self) -> Obj {
        int(match self {
            Access::Read => 0,
            Access::Write => 1,
        })
    }
}

impl Schedule {
    /// Puts a copy between a block and one of its buffers that is indexed by the block's iterators alone; returns the
    /// copying block.
    ///
    /// # Errors
    /// Fails if there is no such buffer.
    pub fn reindex(&self, block: &Block, buffer: usize, access: Access) -> Result<Block> {
        Ok(Block(self.call(
            "ScheduleReIndex",
            &[&block.0, &int(buffer as i64), &access.code()],
        )?))
    }

    /// Changes the layout of a buffer that lives inside the function.
    ///
    /// # Errors
    /// Fails if the map does not fit the buffer.
    pub fn transform_layout(
        &self,
        block: &Block,
        buffer: usize,
        access: Access,
        map: &IndexMap,
    ) -> Result<()> {
        let access = access.code();
        self.done(
            "ScheduleTransformLayout",
            &[
                &block.0,
                &int(buffer as i64),
                &access,
                &map.handle,
                &none(),
                &boolean(false),
            ],
        )
    }

    /// Replaces a block's iterators, and its loops with them, by those of a map.
    ///
    /// # Errors
    /// Fails if the map is not a bijection of the iterators, or mixes spatial ones with reductions.
    pub fn transform_block(&self, block: &Block, map: &IndexMap) -> Result<()> {
        self.done("ScheduleTransformBlockLayout", &[&block.0, &map.handle])
    }

    /// Rounds the extents of a product's iterators up to multiples, with zeros in its operands.
    ///
    /// # Errors
    /// Fails if the block is not a sum of products indexed plainly.
    pub fn pad_einsum(&self, block: &Block, multiples: &[i64]) -> Result<()> {
        let multiples: Vec<Obj> = multiples.iter().map(|&m| int(m)).collect();
        self.done("SchedulePadEinsum", &[&block.0, &array(&multiples)?])
    }

    /// Spaces a dimension of a buffer that a block writes. Its stride is `offset` modulo `factor` elements, which keeps
    /// rows of shared memory in different banks.
    ///
    /// # Errors
    /// Fails if there is no such buffer or dimension.
    pub fn storage_align(
        &self,
        block: &Block,
        buffer: usize,
        axis: i64,
        factor: i64,
        offset: i64,
    ) -> Result<()> {
        self.done(
            "ScheduleStorageAlign",
            &[
                &block.0,
                &int(buffer as i64),
                &int(axis),
                &int(factor),
                &int(offset),
            ],
        )
    }

    /// Makes one loop of the outermost loops of nests that follow each other; their bodies run in turn inside it.
    ///
    /// # Errors
    /// Fails if the loops have unlike extents, or are not the outermost of nests in one scope.
    pub fn merge(&self, loops: &[&Loop]) -> Result<Loop> {
        let loops = array(loops.iter().map(|l| &l.0))?;
        Ok(Loop(self.call("ScheduleMerge", &[&loops])?))
    }

    /// Puts a loop of one iteration directly around a block; returns it.
    ///
    /// # Errors
    /// Fails if TVM does.
    pub fn add_unit_loop(&self, block: &Block) -> Result<Loop> {
        Ok(Loop(self.call("ScheduleAddUnitLoop", &[&block.0])?))
    }

    /// Puts a loop of one iteration directly around another loop; returns it.
    ///
    /// # Errors
    /// Fails if TVM does.
    pub fn add_unit_loop_around(&self, l: &Loop) -> Result<Loop> {
        Ok(Loop(self.call("ScheduleAddUnitLoop", &[&l.0])?))
    }
}
