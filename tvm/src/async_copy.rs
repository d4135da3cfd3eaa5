//! Asynchronous copies from a GPU's memory into a block's shared memory (`cp.async`, compute capability 8.0 and later).
//!
//! TVM turns loads of a software pipeline's asynchronous stages into operators, and asks how they are written in CUDA.
//! Its Python package answers with functions of inline assembly; here the same is done in Rust. Outside a GPU, where
//! tests run generated code, these functions call what the tests' shim has in their place.

use tvm_ffi::{Any, AnyView, DLDataType, DLDataTypeCode, Function};

use crate::call::{Obj, array, call, elements, field, none, text, value};
use crate::error::{Error, Result};

/// Ends a group of copies.
const COMMIT: &str = "tirx.ptx.cp_async_commit_group";
/// Waits for all groups but the newest few.
const WAIT: &str = "tirx.ptx.cp_async_wait_group";
/// More groups than any pipeline has in flight: a stage of a pipeline begins one.
const MOST_IN_FLIGHT: u32 = 8;
/// Begins a copy.
const COPY: &str = "tirx.s_tir.cp_async_raw";

/// Registers the operators that TVM's Python package would.
///
/// # Errors
/// Fails if TVM does.
pub(crate) fn register_operators() -> Result<()> {
    [COMMIT, WAIT]
        .iter()
        .try_for_each(|op| call("ir.RegisterOp", &[&text(op), &text("")]).map(drop))
}

/// Generates the code of an operator of asynchronous copies. `None` for other operators.
pub(crate) fn code_of(op: &str) -> Any {
    let written = match op {
        COMMIT => |_: &[Obj]| Ok(commit()),
        WAIT => wait,
        COPY => copy,
        _ => return Any::new(),
    };
    let make = move |arguments: &[AnyView<'_>]| {
        let operands = Obj(arguments.first().map(|a| Any::from(*a)).unwrap_or_default());
        let made = elements(&operands).and_then(|operands| called(written(&operands)?));
        made.map_err(|e| tvm_ffi::Error::new(tvm_ffi::RUNTIME_ERROR, &e.to_string(), ""))
    };
    Any::from(Function::from_packed(make))
}

/// A call of a function in the generated source.
struct Written {
    name: String,
    source: String,
    operands: Vec<Obj>,
}

fn commit() -> Written {
    let name = "cp_async_commit".to_owned();
    Written {
        source: function(
            &name,
            "",
            "asm volatile(\"cp.async.commit_group;\" ::: \"memory\");",
            "async_commit();",
        ),
        name,
        operands: Vec::new(),
    }
}

fn wait(operands: &[Obj]) -> Result<Written> {
    if let Ok(count) = number(WAIT, operands, 0) {
        let name = format!("cp_async_wait_{count}");
        return Ok(Written {
            source: function(
                &name,
                "",
                &format!("asm volatile(\"cp.async.wait_group {count};\" ::: \"memory\");"),
                &format!("async_wait({count});"),
            ),
            name,
            operands: Vec::new(),
        });
    }
    // The last iterations begin no copies, so there the count follows from the index of a loop. The instruction takes a
    // constant only: the compiler unrolls the loop and keeps one case. Waiting for all copies is always right.
    let case = |count| {
        format!(
            "case {count}: asm volatile(\"cp.async.wait_group {count};\" ::: \"memory\"); break; "
        )
    };
    let cases: String = (1..MOST_IN_FLIGHT).map(case).collect();
    let name = "cp_async_wait_for".to_owned();
    Ok(Written {
        source: function(
            &name,
            "int groups",
            &format!(
                "switch (groups) {{ {cases}default: asm volatile(\"cp.async.wait_group 0;\" ::: \"memory\"); }}"
            ),
            "async_wait(groups);",
        ),
        name,
        operands: operands.iter().take(1).cloned().collect(),
    })
}

/// Takes `(to, offset, from, offset, bytes)`, and optionally whether there is something to copy: otherwise zeros are
/// stored. Offsets count elements of the pointers' types.
fn copy(operands: &[Obj]) -> Result<Written> {
    let [to, to_offset, from, from_offset, _, predicate @ ..] = operands else {
        return Err(Error::unexpected(COPY, "too few operands"));
    };
    let bytes = number(COPY, operands, 4)?;
    let (to_bytes, from_bytes) = (element_bytes(to)?, element_bytes(from)?);
    // Sixteen bytes at once can pass by the first-level cache; fewer cannot.
    let cached = if bytes == 16 { "cg" } else { "ca" };
    let (guarded, parameter, exists) = match predicate {
        [] => ("", "", "true"),
        _ => ("_if", ", bool exists", "exists"),
    };
    let name = format!("cp_async_{bytes}_{to_bytes}_{from_bytes}{guarded}");
    let on_gpu = format!(
        "asm volatile(\"cp.async.{cached}.shared.global [%0], [%1], {bytes}, %2;\" :: \
         \"r\"((unsigned)__cvta_generic_to_shared(place)), \"l\"(value), \"r\"({exists} ? {bytes} : 0) : \"memory\");"
    );
    let body = |copies: &str| {
        format!(
            "unsigned char* place = (unsigned char*)to + (long long)to_offset * {to_bytes}; \
             const unsigned char* value = (const unsigned char*)from + (long long)from_offset * {from_bytes}; {copies}"
        )
    };
    Ok(Written {
        source: function(
            &name,
            &format!("void* to, int to_offset, const void* from, int from_offset{parameter}"),
            &body(&on_gpu),
            &body(&format!("async_copy(place, value, {bytes}, {exists});")),
        ),
        name,
        operands: [to, to_offset, from, from_offset]
            .into_iter()
            .chain(predicate)
            .cloned()
            .collect(),
    })
}

/// A function with one body for the GPU and one for the host.
fn function(name: &str, parameters: &str, on_gpu: &str, on_host: &str) -> String {
    format!(
        "__forceinline__ __device__ void {name}({parameters}) {{\n\
         #ifdef __CUDA_ARCH__\n  {on_gpu}\n#else\n  {on_host}\n#endif\n}}\n"
    )
}

/// The number that an operand is.
fn number(op: &str, operands: &[Obj], place: usize) -> Result<i64> {
    let operand = operands.get(place);
    let operand = operand.ok_or_else(|| Error::unexpected(op, "too few operands"))?;
    value(op, field(operand, "value")?)
}

/// Bytes of an element of a pointer's type.
fn element_bytes(pointer: &Obj) -> Result<i64> {
    let element = field(&field(pointer, "ty")?, "element_type")?;
    let dtype: DLDataType = value("PrimType.dtype", field(&element, "dtype")?)?;
    Ok(i64::from(dtype.bits.div_ceil(8)))
}

/// A written call as TVM takes it: the call, and tags of headers.
fn called(written: Written) -> Result<Any> {
    let nothing = DLDataType {
        code: DLDataTypeCode::kDLOpaqueHandle as u8,
        bits: 0,
        lanes: 0,
    };
    let of_type = call("ir.PrimType", &[&Obj(Any::from(nothing))])?;
    let operator = call("ir.GetOp", &[&text("tirx.cuda.func_call")])?;
    let immediate = |s: &str| call("ir.StringImm", &[&text(s), &none()]);
    let (name, source) = (immediate(&written.name)?, immediate(&written.source)?);
    let operands = [&name]
        .into_iter()
        .chain(&written.operands)
        .chain([&source]);
    let operands = array(operands)?;
    let none = none();
    let empty = array([])?;
    let made = call(
        "ir.Call",
        &[&of_type, &operator, &operands, &none, &empty, &none],
    )?;
    Ok(array([&made, &array([])?])?.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_operators_have_no_code_of_ours() {
        assert_eq!(code_of("tirx.exp").type_index(), Any::new().type_index());
        assert_ne!(code_of(COPY).type_index(), Any::new().type_index());
    }

    #[test]
    fn a_function_has_a_body_for_either_side() {
        let source = commit().source;
        assert!(source.contains("#ifdef __CUDA_ARCH__\n  asm volatile(\"cp.async.commit_group;\""));
        assert!(source.contains("#else\n  async_commit();"));
    }
}
