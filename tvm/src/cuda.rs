//! Inputs of TVM's CUDA code generator: a header, inline assembly, and a compiler.
//!
//! TVM's Python package registers these as global functions; without Python they are registered here, in Rust.
//! [`prepare`] gives the generator what it needs to write source, with no GPU and no CUDA installed. [`set_compiler`]
//! takes what turns source into machine code; TVM asks for it only where its CUDA runtime is loaded.

use std::sync::OnceLock;

use tvm_ffi::{Any, Function};

use crate::call::register;
use crate::error::{Error, Result};
use crate::libs::Libraries;
use crate::{async_copy, bfloat16};

/// Integer types of fixed width: the only part of TVM's own header that kernels without tensor cores need. The rest
/// includes `<cuda/std/cstdint>`, which costs a second for each kernel compiled.
const TYPES: &str = "\
typedef signed char int8_t;
typedef unsigned char uint8_t;
typedef short int16_t;
typedef unsigned short uint16_t;
typedef int int32_t;
typedef unsigned int uint32_t;
typedef long long int64_t;
typedef unsigned long long uint64_t;
typedef unsigned char uchar;
typedef unsigned short ushort;
typedef unsigned int uint;
";

/// NaN and infinity under the names of `<math_constants.h>`, which NVRTC does not have.
const INFINITIES: &str = "\
#ifndef CUDART_INF_F
#define CUDART_INF_F __int_as_float(0x7f800000)
#define CUDART_NAN_F __int_as_float(0x7fffffff)
#define CUDART_INF __longlong_as_double(0x7ff0000000000000ULL)
#define CUDART_NAN __longlong_as_double(0xfff8000000000000ULL)
#endif
";

/// Definitions that TVM's code for half precision expects, besides `<cuda_fp16.h>`.
const HALVES: &str = "#include <cuda_fp16.h>\n";

/// The same for bfloat16, whose header names the function that makes a pair differently.
const BFLOATS: &str = "\
#include <cuda_bf16.h>
static inline __device__ nv_bfloat162 make_nv_bfloat162(nv_bfloat16 x, nv_bfloat16 y) { return __halves2bfloat162(x, y); }
";

/// Definitions that it expects for each type of 16 bits, `{T}`, whose functions NVIDIA names with `{F}`: packing, and
/// functions under the names of single precision.
const OF_16_BITS: &str = "\
static inline __device__ __host__ unsigned __pack_{T}2(const {T} x, const {T} y) {
  return (unsigned)__{F}_as_ushort(y) << 16 | __{F}_as_ushort(x);
}
struct __align__(8) {T}4 {
  {T} x, y, z, w;
};
static inline __device__ {T}4 make_{T}4({T} x, {T} y, {T} z, {T} w) {
  {T}4 all = {x, y, z, w};
  return all;
}
static inline __device__ {T} max({T} a, {T} b) { return __hgt(a, b) ? a : b; }
static inline __device__ {T} min({T} a, {T} b) { return __hlt(a, b) ? a : b; }
static inline __device__ {T} hpow({T} x, {T} y) { return __float2{F}_rn(powf(__{F}2float(x), __{F}2float(y))); }
#if __CUDACC_VER_MAJOR__ < 12 || (__CUDACC_VER_MAJOR__ == 12 && __CUDACC_VER_MINOR__ < 8)
static inline __device__ {T} htanh({T} x) { return __float2{F}_rn(tanhf(__{F}2float(x))); }
#endif
static inline __device__ {T} htan({T} x) { return __float2{F}_rn(tanf(__{F}2float(x))); }
static inline __device__ {T} hatan({T} x) { return __float2{F}_rn(atanf(__{F}2float(x))); }
static inline __device__ {T} herf({T} x) { return __float2{F}_rn(erff(__{F}2float(x))); }
";

/// Registers what generating CUDA source needs, once a process.
///
/// # Errors
/// Fails if TVM cannot be loaded, or something else has registered these functions.
pub(crate) fn prepare() -> Result<()> {
    static DONE: OnceLock<Result<()>> = OnceLock::new();
    let register_both = || {
        Libraries::load()?;
        register("tirx.intrinsics.cuda.header_generator", |arguments| {
            let tags = arguments.first().map(|a| Any::from(*a));
            Ok(text(&header(&tags_of(tags))))
        })?;
        // TVM asks for the code of inline assembly by the intrinsic's name. Most intrinsics have none.
        register("tirx.intrinsics.cuda.get_codegen", |arguments| {
            let name: Option<tvm_ffi::String> = arguments.first().and_then(|a| a.try_as());
            Ok(name.map_or_else(Any::new, |name| async_copy::code_of(name.as_str())))
        })?;
        async_copy::register_operators()?;
        bfloat16::register()
    };
    DONE.get_or_init(register_both).clone()
}

/// Sets `compile` as the compiler from CUDA source to a cubin or PTX for the current target. This can be done once a
/// process.
///
/// # Errors
/// Fails if TVM cannot be loaded, or there is a compiler already.
pub fn set_compiler(
    compile: impl Fn(&str) -> std::result::Result<Vec<u8>, String> + Send + Sync + 'static,
) -> Result<()> {
    Libraries::load_runtime()?;
    register(COMPILER, move |arguments| {
        let source: Option<tvm_ffi::String> = arguments.first().and_then(|a| a.try_as());
        let source = source.ok_or_else(|| "no source was given".to_owned())?;
        let bytes = compile(source.as_str())?;
        Ok(Any::from(tvm_ffi::Bytes::from(bytes.as_slice())))
    })
}

/// Loads TVM's runtime for CUDA. The loader must find its libraries (`libcudart.so.13`, `libcuda.so.1`), or they must
/// be in this process already. From then on code generation compiles, with the compiler of [`set_compiler`].
///
/// # Errors
/// Fails if TVM cannot be loaded, or a library that its CUDA runtime needs is missing.
pub fn load_runtime() -> Result<()> {
    Libraries::load_runtime()?.open_cuda()
}

/// Makes TVM take the host's memory for that of CUDA devices. TVM's code can then be run, and tested, with kernels that
/// were compiled for the host.
///
/// # Errors
/// Fails if TVM cannot be loaded, or its CUDA runtime exists already.
pub fn emulate_memory() -> Result<()> {
    static DONE: OnceLock<Result<()>> = OnceLock::new();
    let borrow = || {
        const OWN: &str = "device_api.cuda";
        Libraries::load()?;
        let host = Function::get_global("device_api.cpu");
        let host = host.map_err(|e| Error::from_tvm("device_api.cpu", &e))?;
        Function::register_global(OWN, host).map_err(|e| Error::from_tvm(OWN, &e))
    };
    DONE.get_or_init(borrow).clone()
}

/// The global function that TVM's CUDA build calls.
const COMPILER: &str = "tvm_callback_cuda_compile";

/// The head of the source: types, and the headers that the tags name.
fn header(tags: &[String]) -> String {
    let mut lines = String::from(TYPES);
    for tag in tags {
        match tag.as_str() {
            "fp16" => lines.push_str(&(HALVES.to_owned() + &of_16_bits("half", "half"))),
            "bf16" => {
                lines.push_str(&(BFLOATS.to_owned() + &of_16_bits("nv_bfloat16", "bfloat16")))
            }
            "fp8" => lines.push_str("#include <cuda_fp8.h>\n"),
            "mma" => lines.push_str("#include <mma.h>\n"),
            "math_constants" => lines.push_str(INFINITIES),
            // Shuffles and similar intrinsics are part of the language.
            _ => {}
        }
    }
    lines
}

fn of_16_bits(name: &str, in_functions: &str) -> String {
    OF_16_BITS.replace("{T}", name).replace("{F}", in_functions)
}

fn tags_of(array: Option<Any>) -> Vec<String> {
    let strings = array.and_then(|a| crate::call::elements(&crate::call::Obj(a)).ok());
    strings
        .unwrap_or_default()
        .iter()
        .filter_map(|tag| tag.0.try_as::<tvm_ffi::String>())
        .map(|tag| tag.as_str().to_owned())
        .collect()
}

fn text(s: &str) -> Any {
    Any::from(tvm_ffi::String::from(s))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::call::{call, text};

    #[test]
    fn headers_follow_the_tags() {
        let tags = ["fp16", "warp_shuffle"].map(str::to_owned);
        let header = header(&tags);
        assert!(header.contains("int64_t;") && header.contains("<cuda_fp16.h>"));
        assert!(!header.contains("mma.h"));
    }

    #[test]
    fn tvm_reaches_the_compiler_and_gets_its_errors() {
        set_compiler(|source| match source {
            "good" => Ok(vec![0x7f, 0, b'E']),
            "odd" => panic!("a bug in the compiler's caller"),
            _ => Err("line 1: not CUDA".to_owned()),
        })
        .unwrap();
        let compile = |source| call(COMPILER, &[&text(source)]);
        let bytes: tvm_ffi::Bytes = compile("good").unwrap().0.try_as().unwrap();
        assert_eq!(bytes.as_slice(), [0x7f, 0, b'E']);
        let error = compile("bad").unwrap_err().to_string();
        assert!(error.contains("line 1: not CUDA"), "{error}");
        assert!(compile("odd").unwrap_err().to_string().contains("panicked"));
        assert!(set_compiler(|_| Ok(Vec::new())).is_err(), "one a process");
    }
}
