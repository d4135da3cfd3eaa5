//! Small buffers on the stack of a CPU.
//!
//! TVM 0.27 keeps a buffer below 1 KiB on the stack, from where LLVM moves it into registers. For a larger one it asks
//! its runtime for a workspace. So a tile of 24 vectors of 64 bytes was stored, loaded and stored again. A mark keeps
//! every buffer that registers can hold on the stack.

use crate::call::{Obj, array, call, elements, field, int, map, none, text};
use crate::dtype::DType;
use crate::error::Result;
use crate::inspect::allocation;
use crate::ir::{IrModule, type_key};

/// Bytes of the largest register file of a CPU: 32 vector registers of 64 bytes (AVX-512; Intel's Software Developer's
/// Manual, volume 1, chapter 15).
const REGISTER_FILE_BYTES: i64 = 32 * 64;
/// The mark of an allocation that `tirx.transform.LowerTVMBuiltin` leaves to the code generator
/// (`tirx::transform::kDisableLowerTVMBuiltin`).
const MARK: &str = "disable_lower_builtin";

/// The module with its small buffers marked. `None` if it has none. For modules whose buffers are flat and shared.
///
/// # Errors
/// Fails if TVM does.
pub(crate) fn keep_small_buffers(module: &IrModule) -> Result<Option<IrModule>> {
    module.with_changed(|function| {
        let body = marked(&field(&function.handle, "body")?)?;
        body.map(|body| function.with_statement(&body)).transpose()
    })
}

/// The statement with its small buffers marked; nothing if it has none.
fn marked(statement: &Obj) -> Result<Option<Obj>> {
    let part = |name: &str| field(statement, name);
    match type_key(statement) {
        Some("tirx.SeqStmt") => {
            let mut parts = elements(&part("seq")?)?;
            match mark_each(&mut parts)? {
                true => call("tirx.SeqStmt", &[&array(&parts)?, &part("span")?]).map(Some),
                false => Ok(None),
            }
        }
        Some("tirx.For") => rebuilt(
            statement,
            &[
                "loop_var",
                "min",
                "extent",
                "kind",
                "body",
                "thread_binding",
                "annotations",
                "step",
            ],
        ),
        Some("tirx.AttrStmt") => rebuilt(statement, &["node", "attr_key", "value", "body"]),
        Some("tirx.IfThenElse") => rebuilt(statement, &["condition", "then_case", "else_case"]),
        Some("tirx.AllocBuffer") => match allocation(statement)?.1 {
            Some(bytes) if bytes <= REGISTER_FILE_BYTES => {
                let yes = call("ir.IntImm", &[&DType::Bool.object(), &int(1), &none()])?;
                let marks = map([(&text(MARK), &yes)])?;
                call(
                    "tirx.AllocBuffer",
                    &[&part("buffer")?, &marks, &part("span")?],
                )
                .map(Some)
            }
            _ => Ok(None),
        },
        _ => Ok(None),
    }
}

/// Puts marked statements in the place of those with small buffers; whether there was one.
fn mark_each(parts: &mut [Obj]) -> Result<bool> {
    let mut changed = false;
    for part in parts {
        if let Some(other) = marked(part)? {
            *part = other;
            changed = true;
        }
    }
    Ok(changed)
}

/// A statement rebuilt from its fields, in the order of its constructor, with the small buffers inside it marked.
/// `None` if there are none.
fn rebuilt(statement: &Obj, fields: &[&str]) -> Result<Option<Obj>> {
    let parts = fields.iter().map(|name| field(statement, name));
    let mut parts: Vec<Obj> = parts.collect::<Result<_>>()?;
    if !mark_each(&mut parts)? {
        return Ok(None);
    }
    parts.push(field(statement, "span")?);
    let parts: Vec<&Obj> = parts.iter().collect();
    call(type_key(statement).unwrap_or_default(), &parts).map(Some)
}
