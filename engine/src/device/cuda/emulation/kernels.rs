//! The source of an emulation: TVM's CUDA behind the shim, and for each kernel the function that TVM's host code calls.
//!
//! Facts missing in the source (the sizes of arguments, the grid) are read from the lowered kernels' script.

use std::fmt::Write as _;

use anyhow::{Context, Result};

/// A kernel's parameter.
#[derive(Debug, PartialEq)]
enum Parameter {
    /// An array of this many bytes.
    Array(u64),
    /// A number.
    Scalar,
}

/// A kernel as the script has it.
#[derive(Debug)]
struct Kernel {
    name: String,
    parameters: Vec<Parameter>,
    /// Extents of `blockIdx` and `threadIdx`, by axis.
    grid: [u64; 3],
    threads: [u64; 3],
}

/// The whole program for the C++ compiler.
///
/// # Errors
/// Fails if the script is not what TVM prints for kernels.
pub(super) fn with_shim(source: &str, script: &str) -> Result<String> {
    // The header is for the CUDA compiler; after it are functions of inline assembly, and the kernels.
    let starts = ["__forceinline__ __device__", "extern \"C\" __global__"];
    let start = starts.iter().filter_map(|s| source.find(s)).min();
    let kernels_alone = &source[start.context("no kernel")?..];
    // Memory whose size is known at the launch only is an array of the shim's.
    let plain = kernels_alone.replace("extern __shared__", "extern");
    let mut text = format!("#include \"shim.h\"\n{plain}\n");
    for kernel in kernels(script)? {
        write_entry(&mut text, &kernel, source)?;
    }
    Ok(text)
}

/// The function that TVM's host code calls in place of a launch.
fn write_entry(text: &mut String, kernel: &Kernel, source: &str) -> Result<()> {
    let Kernel {
        name,
        parameters,
        grid,
        threads,
    } = kernel;
    let types = types_of(source, name)?;
    let mut arguments = Vec::new();
    let mut arrays = String::new();
    let mut place = 0;
    for (i, (parameter, of_type)) in parameters.iter().zip(&types).enumerate() {
        match parameter {
            Parameter::Array(bytes) => {
                arguments.push(format!("({of_type})pointers_{name}[{place}]"));
                write!(arrays, "{{args[{i}].pointer, {bytes}}}, ")?;
                place += 1;
            }
            Parameter::Scalar if of_type.contains("float") || of_type.contains("double") => {
                arguments.push(format!("({of_type})args_{name}[{i}].number"));
            }
            Parameter::Scalar => arguments.push(format!("({of_type})args_{name}[{i}].integer")),
        }
    }
    let arguments = arguments.join(", ");
    let extents = |e: &[u64; 3]| format!("{{{}, {}, {}}}", e[0], e[1], e[2]);
    writeln!(
        text,
        "static std::vector<void*> pointers_{name};\n\
         static const TvmAny* args_{name};\n\
         static void body_{name}() {{ {name}({arguments}); }}\n\
         extern \"C\" int __tvm_ffi_{name}(void*, const TvmAny* args, int32_t, TvmAny* result) {{\n\
           result->type = 0; result->integer = 0; args_{name} = args;\n\
           std::vector<shim::Argument> arrays = {{ {arrays} }};\n\
           const char* problem = shim::launch(\"{name}\", {}, {}, arrays, body_{name}, pointers_{name});\n\
           if (problem) TVMFFIErrorSetRaisedFromCStr(\"RuntimeError\", problem);\n\
           return problem ? -1 : 0;\n\
         }}",
        extents(grid),
        extents(threads),
    )?;
    Ok(())
}

/// The types of a kernel's parameters in the source.
fn types_of(source: &str, name: &str) -> Result<Vec<String>> {
    let head = format!(" {name}(");
    let (_, behind) = source.split_once(&head).context("no such kernel")?;
    let (list, _) = behind.split_once(')').context("no parameters")?;
    let type_of = |parameter: &str| {
        let plain = parameter.replace("__restrict__", "");
        let end = plain.trim_end().rfind([' ', '*']).map_or(0, |at| at + 1);
        plain[..end].trim().to_owned()
    };
    Ok(list
        .split(", ")
        .filter(|p| !p.is_empty())
        .map(type_of)
        .collect())
}

fn kernels(script: &str) -> Result<Vec<Kernel>> {
    let mut found = Vec::new();
    for text in script.split("\n    def ").skip(1) {
        let (name, rest) = text
            .split_once('(')
            .context("a kernel without parameters")?;
        let (list, body) = rest.split_once("):\n").context("a kernel without a body")?;
        let mut kernel = Kernel {
            name: name.to_owned(),
            parameters: Vec::new(),
            grid: [1; 3],
            threads: [1; 3],
        };
        for parameter in list.split(", ").filter(|p| p.contains(": ")) {
            let (own, of_type) = parameter.split_once(": ").context("an untyped parameter")?;
            kernel.parameters.push(if of_type.starts_with("T.handle") {
                Parameter::Array(bytes_of(body, own).context("an array of unknown size")?)
            } else {
                Parameter::Scalar
            });
        }
        for launch in body.split("T.launch_thread(\"").skip(1) {
            let (axis, rest) = launch.split_once("\", ").context("a launch axis")?;
            let extent = rest.split(')').next().and_then(number);
            set_extent(
                &mut kernel,
                axis,
                extent.context("an extent that is no number")?,
            );
        }
        found.push(kernel);
    }
    Ok(found)
}

fn set_extent(kernel: &mut Kernel, axis: &str, extent: u64) {
    let place = |name: &str| ["x", "y", "z"].iter().position(|a| *a == name);
    match axis.split_once('.') {
        Some(("blockIdx", name)) => place(name).map(|p| kernel.grid[p] = extent),
        Some(("threadIdx", name)) => place(name).map(|p| kernel.threads[p] = extent),
        _ => None,
    };
}

/// Size of the array that the script declares over a parameter: `A = T.decl_buffer((512,), "float16", data=A_ptr)`.
fn bytes_of(body: &str, parameter: &str) -> Option<u64> {
    let declared = |line: &&str| {
        line.contains("T.decl_buffer((") && line.contains(&format!("data={parameter}"))
    };
    let line = body.lines().find(declared)?;
    let (_, rest) = line.split_once("T.decl_buffer((")?;
    let (shape, rest) = rest.split_once(')')?;
    let extents = shape.split(',').map(str::trim).filter(|e| !e.is_empty());
    let elements = extents.map(number).product::<Option<u64>>()?;
    let dtype = rest.split('"').nth(1).unwrap_or("float32");
    let dtype = if rest.starts_with(", \"") {
        dtype
    } else {
        "float32"
    };
    Some(elements * element_bytes(dtype)?)
}

/// A number of the script, of 32 or 64 bits.
fn number(text: &str) -> Option<u64> {
    text.trim_start_matches("T.int64(").parse().ok()
}

fn element_bytes(dtype: &str) -> Option<u64> {
    if dtype == "bool" {
        return Some(1);
    }
    let (scalar, lanes) = dtype.split_once('x').unwrap_or((dtype, "1"));
    let bits = scalar.trim_start_matches(|c: char| !c.is_ascii_digit());
    Some(bits.parse::<u64>().ok()? / 8 * lanes.parse::<u64>().ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernels_are_read_from_the_script() {
        let script = "class Module:\n    @T.prim_func\n    def main_kernel(A_ptr: T.handle(\"float16\", \"global\"), n: T.int32):\n        \
            A = T.decl_buffer((512,), \"float16\", data=A_ptr)\n        with T.launch_thread(\"blockIdx.y\", 8) as blockIdx_y:\n            \
            with T.launch_thread(\"threadIdx.x\", 64):\n";
        let found = kernels(script).unwrap();
        assert_eq!(found[0].name, "main_kernel");
        assert_eq!(
            found[0].parameters,
            [Parameter::Array(1024), Parameter::Scalar]
        );
        assert_eq!((found[0].grid, found[0].threads), ([1, 8, 1], [64, 1, 1]));
    }

    #[test]
    fn parameters_have_their_types() {
        let source =
            "extern \"C\" __global__ void __launch_bounds__(8) k(float* __restrict__ A, int n);";
        assert_eq!(types_of(source, "k").unwrap(), ["float*", "int"]);
    }
}
