//! Packs a module's imports as one object of a shared library: TVM's own format, so that any TVM runtime loads it.
//!
//! Without a device's runtime in this process, TVM packs the device's kernels as source, which the other end would have to
//! compile. [`write()`] replaces source by machine code on the way. The format is that of `ModulePackImportsToLLVM` (TVM 0.27):
//! sizes are 64-bit little-endian numbers; a vector and a string begin with theirs.
//!
//! | part | content |
//! | --- | --- |
//! | size | bytes that follow |
//! | tree | two vectors of 64-bit numbers: the first child of each module (one more than there are modules), the children |
//! | modules | kind, and its bytes unless the kind is `_lib`, the library itself |
//!
//! A CUDA module is: format (`cuda` for source, `cubin`), launches, code; the code is the string at the end.

use std::path::Path;

use crate::call::{Obj, boolean, call, text, value};
use crate::error::{Error, Result};
use crate::kernel::KernelModule;
use crate::target::Target;
use crate::tensor::Tensor;

/// Turns the source of a device's kernels into machine code; the reason if it cannot.
pub type DeviceCompiler<'a> = dyn FnMut(&str) -> std::result::Result<Vec<u8>, String> + 'a;

const PACK: &str = "runtime.ModulePackImportsToTensor";
/// The kind that means the library itself, which has no bytes.
const OWN: &str = "_lib";
/// The kind of CUDA modules, and the format of source.
const CUDA: &str = "cuda";
/// The format of machine code.
const CUBIN: &str = "cubin";

/// Writes the imports of `module` as an object file for `host`; `compile` is asked for the machine code of each device
/// module that holds source.
///
/// # Errors
/// Fails if TVM cannot pack or write for the target, or the source is refused.
pub(crate) fn write(
    module: &Obj,
    host: &Target,
    compile: &mut DeviceCompiler<'_>,
    file: &Path,
) -> Result<()> {
    const BLOB: &str = "codegen.codegen_blob";
    let packed: tvm_ffi::Tensor = value(PACK, call(PACK, &[module])?)?;
    let packed = Tensor::of_argument(&(&packed).into())
        .ok_or_else(|| Error::unexpected(PACK, "no bytes".to_owned()))?;
    let compiled = with_machine_code(&packed.bytes()?, compile)
        .map_err(|reason| Error::unexpected(PACK, reason))?;
    let bytes = Obj(tvm_ffi::Any::from(tvm_ffi::Bytes::from(
        compiled.as_slice(),
    )));
    let described = text(&host.json().to_string());
    let object = call(BLOB, &[&bytes, &boolean(false), &described, &text("")])?;
    KernelModule::compiled(object).write_object(file)
}

/// Reads a packed module.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, length: usize) -> std::result::Result<&'a [u8], String> {
        let (taken, rest) = self
            .0
            .split_at_checked(length)
            .ok_or("it ends early: another version of TVM's format")?;
        self.0 = rest;
        Ok(taken)
    }

    fn size(&mut self) -> std::result::Result<usize, String> {
        let bytes = self.take(8)?.try_into().unwrap_or_default();
        usize::try_from(u64::from_le_bytes(bytes)).map_err(|_| "a size beyond memory".to_owned())
    }

    fn string(&mut self) -> std::result::Result<&'a [u8], String> {
        let length = self.size()?;
        self.take(length)
    }

    fn numbers(&mut self) -> std::result::Result<usize, String> {
        let count = self.size()?;
        self.take(count.saturating_mul(8))?;
        Ok(count)
    }
}

/// A string with its length in front.
fn string(bytes: &[u8]) -> Vec<u8> {
    [&(bytes.len() as u64).to_le_bytes()[..], bytes].concat()
}

/// A packed module with machine code in place of the source of its device modules.
fn with_machine_code(
    packed: &[u8],
    compile: &mut DeviceCompiler<'_>,
) -> std::result::Result<Vec<u8>, String> {
    let mut reader = Reader(packed);
    let content = reader.string()?;
    let mut reader = Reader(content);
    let modules = reader.numbers()?.saturating_sub(1);
    reader.numbers()?;
    let mut out = content[..content.len() - reader.0.len()].to_vec();
    for _ in 0..modules {
        let kind = reader.string()?;
        out.extend(string(kind));
        if kind == OWN.as_bytes() {
            continue;
        }
        let bytes = reader.string()?;
        let bytes = match kind == CUDA.as_bytes() {
            true => cuda_with_machine_code(bytes, compile)?,
            false => bytes.to_vec(),
        };
        out.extend(string(&bytes));
    }
    Ok(string(&out))
}

fn cuda_with_machine_code(
    module: &[u8],
    compile: &mut DeviceCompiler<'_>,
) -> std::result::Result<Vec<u8>, String> {
    let mut reader = Reader(module);
    if reader.string()? != CUDA.as_bytes() {
        return Ok(module.to_vec());
    }
    // The code is the string that ends where the module ends.
    let rest = reader.0;
    let ends = |at: &usize| {
        let mut from = Reader(&rest[*at..]);
        from.size().is_ok_and(|length| length == from.0.len())
    };
    let at = (0..rest.len().saturating_sub(8))
        .find(ends)
        .ok_or("a CUDA module has no code")?;
    let source = std::str::from_utf8(&rest[at + 8..])
        .map_err(|_| "the source of a CUDA module is no text".to_owned())?;
    let code = compile(source)?;
    Ok([string(CUBIN.as_bytes()), rest[..at].to_vec(), string(&code)].concat())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(numbers: &[u64]) -> Vec<u8> {
        let count = (numbers.len() as u64).to_le_bytes().to_vec();
        [
            count,
            numbers.iter().flat_map(|n| n.to_le_bytes()).collect(),
        ]
        .concat()
    }

    /// A library that imports a CUDA module.
    fn packed(format: &str, code: &[u8]) -> Vec<u8> {
        let launches = [string(b"relu_kernel"), numbers(&[3, 7])].concat();
        let module = [string(format.as_bytes()), launches, string(code)].concat();
        let tree = [numbers(&[0, 1, 1]), numbers(&[1])].concat();
        let modules = [string(b"_lib"), string(b"cuda"), string(&module)].concat();
        string(&[tree, modules].concat())
    }

    #[test]
    fn source_becomes_machine_code_and_all_else_stays() {
        let mut compile = |source: &str| Ok(source.to_uppercase().into_bytes());
        let done = with_machine_code(&packed("cuda", b"kernel"), &mut compile).unwrap();
        assert_eq!(done, packed("cubin", b"KERNEL"));
        let done = with_machine_code(&packed("cubin", b"ready"), &mut compile).unwrap();
        assert_eq!(done, packed("cubin", b"ready"));
    }

    #[test]
    fn what_is_of_another_format_or_refused_is_an_error() {
        let whole = packed("cuda", b"kernel");
        let mut refuse = |_: &str| Err("line 1: no kernel".to_owned());
        let error = with_machine_code(&whole, &mut refuse).unwrap_err();
        assert_eq!(error, "line 1: no kernel");
        for end in 0..whole.len() {
            let mut compile = |_: &str| Ok(Vec::new());
            assert!(
                with_machine_code(&whole[..end], &mut compile).is_err(),
                "{end}"
            );
        }
    }
}
