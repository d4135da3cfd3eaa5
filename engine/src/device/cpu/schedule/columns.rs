//! Reductions over an axis outside the innermost one, and the operator that reads their results: softmax over the channels of
//! an image.
//!
//! All of them are computed row by row of the innermost axis, so that a row of every channel stays in the cache. Vectors run
//! along the row: each lane has a reduction of its own.

use opmodels::tile::even_vector_length;
use tvm_bridge::inspect::IterKind;
use tvm_bridge::schedule::Loop;
use tvm_bridge::{BlockInfo, Result, Schedule};

use super::prepare::Part;
use super::rows::vectorize_evenly;
use crate::schedule::unfit;

/// Axes of an operator whose reductions are over other axes than the last ones.
pub(super) struct Columns {
    /// Places of the axes around the reduced ones, which have one result each.
    outer: Vec<usize>,
    /// Places of the reduced axes.
    reduced: Vec<usize>,
    /// Extents of all axes.
    extents: Vec<i64>,
}

impl Columns {
    /// The axes of an operator by its blocks in program order. `None` if the reduced axes are the last ones, or if blocks
    /// differ in more than them.
    pub fn of(parts: &[Part]) -> Option<Columns> {
        let output = &parts.last()?.info;
        let extents: Vec<i64> = output.iters.iter().map(|iter| iter.extent).collect();
        let last = extents.len().checked_sub(1)?;
        let (reductions, others): (Vec<&BlockInfo>, Vec<&BlockInfo>) = parts
            .iter()
            .map(|part| &part.info)
            .partition(|info| info.is_reduction());
        let results = |buffer: &str| {
            let mut written = reductions.iter().flat_map(|info| &info.writes);
            written.any(|write| write.buffer == buffer)
        };
        let is_reduced = |axis: usize| {
            let mut reads = others.iter().flat_map(|info| &info.reads);
            extents[axis] > 1 && reads.any(|read| results(&read.buffer) && !read.uses(axis))
        };
        let (reduced, kept): (Vec<usize>, Vec<usize>) =
            (0..extents.len()).partition(|&axis| is_reduced(axis));
        let own = |axes: &[usize]| axes.iter().map(|&axis| extents[axis]).collect::<Vec<_>>();
        let fits = |info: &&BlockInfo| {
            let of = |kind| -> Vec<i64> {
                let of_kind = info.of_kind(kind);
                of_kind.map(|iter| info.iters[iter].extent).collect()
            };
            match info.is_reduction() {
                true => {
                    of(IterKind::Spatial) == own(&kept) && of(IterKind::Reduction) == own(&reduced)
                }
                false => of(IterKind::Spatial) == extents && info.iters.len() == extents.len(),
            }
        };
        let has_rows = !reduced.is_empty() && kept.last() == Some(&last) && extents[last] > 1;
        let all_fit = reductions.iter().chain(&others).all(fits);
        (has_rows && all_fit).then(|| Columns {
            outer: kept[..kept.len() - 1].to_vec(),
            reduced,
            extents,
        })
    }

    /// Elements of a row that are computed together.
    fn width(&self, lanes: i64) -> i64 {
        match self.outer_rows() {
            // With a single row, its pieces run in parallel.
            1 => even_vector_length(self.length(), lanes),
            _ => self.length(),
        }
    }

    /// Elements of a row.
    fn length(&self) -> i64 {
        self.extents.last().copied().unwrap_or(1)
    }

    fn outer_rows(&self) -> i64 {
        self.outer.iter().map(|&axis| self.extents[axis]).product()
    }

    /// Number of rows that run in parallel.
    pub fn rows(&self, lanes: i64) -> i64 {
        self.outer_rows() * (self.length() / self.width(lanes))
    }

    /// Schedules the blocks; returns the loop over the rows.
    pub fn schedule(&self, s: &Schedule, parts: &[Part], lanes: i64) -> Result<Loop> {
        let [producers @ .., output] = parts else {
            return Err(unfit("no block"));
        };
        let loops = s.loops(&output.block)?;
        let [.., innermost] = &loops[..] else {
            return Err(unfit("a block without loops"));
        };
        let pieces = s.split(innermost, &[None, Some(self.width(lanes))])?;
        let rows = self.outer.iter().map(|&axis| &loops[axis]);
        let rows: Vec<&Loop> = rows.chain([&pieces[0]]).collect();
        let reduced = self.reduced.iter().map(|&axis| &loops[axis]);
        let order: Vec<&Loop> = rows.iter().copied().chain(reduced).collect();
        s.reorder(&[&order[..], &[&pieces[1]]].concat())?;
        let row = s.fuse(&rows)?;
        for producer in producers.iter().rev() {
            s.compute_at(&producer.block, &row)?;
        }
        for Part { block, info } in parts {
            let loops = s.loops(block)?;
            let mut inside: Vec<&Loop> = loops.iter().skip(1).collect();
            if info.is_reduction() {
                // The row's loop goes inside those of the reduction.
                let place = inside.len() - self.reduced.len() - 1;
                let along = inside.remove(place);
                inside.push(along);
                s.reorder(&inside)?;
            }
            if let Some(&along) = inside.last() {
                vectorize_evenly(s, info, along, lanes)?;
            }
        }
        Ok(row)
    }
}
