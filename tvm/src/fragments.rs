//! Whether a program multiplies on tensor cores: whether its blocks have fragments of matrices.

use crate::call::{Obj, elements, field};
use crate::dtype::DType;
use crate::error::Result;
use crate::inspect::{any_statement, string};
use crate::ir::{IrModule, type_key};

/// Whether a block of a module before lowering has fragments of a type for which `test` is true. Its type is missing
/// where tensors cannot have it.
///
/// # Errors
/// Fails if TVM does.
pub(crate) fn has_fragments(
    module: &IrModule,
    test: impl Fn(Option<DType>) -> bool,
) -> Result<bool> {
    any_statement(module, |statement| {
        if type_key(statement) != Some("s_tir.SBlock") {
            return Ok(false);
        }
        for buffer in elements(&field(statement, "alloc_buffers")?)? {
            if let Some(of) = fragment(&buffer)?
                && test(of)
            {
                return Ok(true);
            }
        }
        Ok(false)
    })
}

/// The type of a buffer that is a fragment.
fn fragment(buffer: &Obj) -> Result<Option<Option<DType>>> {
    let of_type = field(buffer, "ty")?;
    if !string(&field(&of_type, "storage_scope")?)?.starts_with("wmma.") {
        return Ok(None);
    }
    let dtype = field(&field(&of_type, "dtype")?, "dtype")?;
    Ok(Some(dtype.0.try_as().and_then(DType::from_dl)))
}
