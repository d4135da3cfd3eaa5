//! Another algorithm for one computation of an operator: its block is replaced by stages written as a loop nest.
//!
//! Schedule primitives change the order of an algorithm's steps, never the steps. [`Computation`] finds the buffers of
//! a block, and [`PrimFunc::with_stages`] puts other statements in its place. The parameters stay, so the operator is
//! called as before. This module owns the replacement alone; the caller brings the algorithms.

use std::cell::RefCell;

use crate::call::{Obj, array, call, elements, field, none};
use crate::error::{Error, Result};
use crate::inspect::{any_statement_in, string};
use crate::ir::{PrimFunc, type_key};
use crate::nest::{Buffer, Stmt, realized};

/// The buffers of a block.
#[derive(Debug, Clone)]
pub struct Computation {
    /// Its reads, in the order of [`crate::BlockInfo::reads`].
    pub reads: Vec<Buffer>,
    /// Its output.
    pub written: Buffer,
}

const CALL: &str = "PrimFunc::with_stages";

impl PrimFunc {
    /// The buffers of the block called `name`.
    ///
    /// # Errors
    /// Fails if there is no such block, or if it writes nothing.
    pub fn computation(&self, name: &str) -> Result<Computation> {
        let found = RefCell::new(None);
        any_statement_in(&field(&self.handle, "body")?, &|statement| {
            let here = is_block(statement, name)?;
            if here {
                *found.borrow_mut() = Some(statement.clone());
            }
            Ok(here)
        })?;
        let found = found.into_inner();
        let block = found.ok_or_else(|| Error::unexpected(CALL, format!("no block {name}")))?;
        let of = |list: &str| -> Result<Vec<Buffer>> {
            let regions = elements(&field(&block, list)?)?;
            let sources = regions.iter().map(|region| field(region, "source"));
            sources.map(|buffer| buffer.map(Buffer)).collect()
        };
        let written = of("writes")?.pop();
        Ok(Computation {
            reads: of("reads")?,
            written: written.ok_or_else(|| Error::unexpected(CALL, "it writes nothing"))?,
        })
    }

    /// The function with `stages` in place of the block called `name`, and `between`: buffers that hold what one stage
    /// leaves for the next.
    ///
    /// # Errors
    /// Fails if the function has no such block among its statements, or if TVM fails.
    pub fn with_stages(&self, name: &str, stages: &[Stmt], between: &[Buffer]) -> Result<PrimFunc> {
        let root = self.root_block()?;
        let body = field(&root, "body")?;
        let statements = match type_key(&body) {
            Some("tirx.SeqStmt") => elements(&field(&body, "seq")?)?,
            _ => vec![body],
        };
        let mut replaced = Vec::new();
        let mut found = false;
        for statement in statements {
            if any_statement_in(&statement, &|s| is_block(s, name))? {
                found = true;
                replaced.extend(stages.iter().map(|stage| stage.0.clone()));
            } else {
                replaced.push(statement);
            }
        }
        if !found {
            return Err(Error::unexpected(CALL, format!("no statement {name}")));
        }
        let mut buffers = elements(&field(&root, "alloc_buffers")?)?;
        buffers.extend(between.iter().map(|buffer| buffer.0.clone()));
        with_body(self, &replaced, &buffers)
    }
}

/// The function with these statements and buffers in its root block.
pub(crate) fn with_body(
    function: &PrimFunc,
    statements: &[Obj],
    buffers: &[Obj],
) -> Result<PrimFunc> {
    let root = function.root_block()?;
    let sequence = match statements {
        [statement] => statement.clone(),
        _ => call("tirx.SeqStmt", &[&array(statements)?, &none()])?,
    };
    let block = call(
        "s_tir.SBlock",
        &[
            &field(&root, "iter_vars")?,
            &field(&root, "reads")?,
            &field(&root, "writes")?,
            &field(&root, "name_hint")?,
            &sequence,
            &none(),
            &array(buffers)?,
            &field(&root, "match_buffers")?,
            &field(&root, "annotations")?,
            &none(),
        ],
    )?;
    function.with_statement(&realized(&block, &[])?.0)
}

fn is_block(statement: &Obj, name: &str) -> Result<bool> {
    Ok(type_key(statement) == Some("s_tir.SBlock")
        && string(&field(statement, "name_hint")?)? == name)
}
