//! The plain loops of a function that came with a schedule of its own.
//!
//! Tiles, threads, vectors and `compute_at` change the loops around a block and the values that they give to its axes. The
//! domain of the axes stays. So one loop an axis, block after block, computes the same without a schedule. What is inside a
//! block (a tensorised body) stays as it is.

use crate::algorithm::with_body;
use crate::call::{Obj, call, elements, field, none, text, value};
use crate::error::Result;
use crate::inspect::string;
use crate::ir::{PrimFunc, type_key};
use crate::nest::{LoopKind, looped, realized};

impl PrimFunc {
    /// The function in plain loops, or nothing if none of its loops was scheduled.
    ///
    /// # Errors
    /// Fails if TVM does.
    pub fn unscheduled(&self) -> Result<Option<PrimFunc>> {
        let body = field(&self.handle, "body")?;
        if type_key(&body) != Some("s_tir.SBlockRealize") {
            return Ok(None);
        }
        let root = self.root_block()?;
        let mut found = Found::default();
        found.walk(&field(&root, "body")?)?;
        if !found.is_scheduled || found.blocks.is_empty() {
            return Ok(None);
        }
        let nests = found.blocks.iter().map(plain_nest);
        let nests = nests.collect::<Result<Vec<_>>>()?;
        let buffers = elements(&field(&root, "alloc_buffers")?)?;
        with_body(self, &nests, &buffers).map(Some)
    }
}

/// The blocks of a function in their order, and whether something was done with the loops around them.
#[derive(Default)]
struct Found {
    blocks: Vec<Obj>,
    is_scheduled: bool,
}

impl Found {
    fn walk(&mut self, statement: &Obj) -> Result<()> {
        match type_key(statement) {
            Some("tirx.SeqStmt") => {
                for part in elements(&field(statement, "seq")?)? {
                    self.walk(&part)?;
                }
            }
            Some("tirx.For") => {
                let kind: i64 = value("For.kind", field(statement, "kind")?)?;
                self.is_scheduled |= kind != LoopKind::Serial as i64;
                self.walk(&field(statement, "body")?)?;
            }
            Some("s_tir.SBlockRealize") => {
                for value in elements(&field(statement, "iter_values")?)? {
                    let is_plain = matches!(type_key(&value), Some("ir.Var" | "ir.IntImm"));
                    self.is_scheduled |= !is_plain;
                }
                self.blocks.push(field(statement, "block")?);
            }
            _ => {}
        }
        Ok(())
    }
}

/// A block in one serial loop for each of its axes.
fn plain_nest(block: &Obj) -> Result<Obj> {
    let axes = elements(&field(block, "iter_vars")?)?;
    let mut loops = Vec::new();
    for axis in &axes {
        let (variable, domain) = (field(axis, "var")?, field(axis, "dom")?);
        let name = string(&field(&variable, "name")?)?;
        let name = name.strip_prefix("v_").unwrap_or(&name);
        let counter = call("ir.Var", &[&text(name), &field(&variable, "ty")?, &none()])?;
        loops.push((counter, field(&domain, "min")?, field(&domain, "extent")?));
    }
    let counters: Vec<Obj> = loops.iter().map(|(counter, ..)| counter.clone()).collect();
    let mut nest = realized(block, &counters)?;
    for (counter, from, extent) in loops.iter().rev() {
        let kind = LoopKind::Serial as i64;
        nest = looped(counter, [from, extent], kind, &nest, &none())?;
    }
    Ok(nest.0)
}
