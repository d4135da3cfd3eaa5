//! Operators to test templates on, with their arguments and what they compute as TVM's library wrote them.

use std::path::Path;

use opmodels::Graph;
use opmodels::graph::{Argument, ArgumentRole, Fill, Operator};
use serde_json::json;
use tvm_bridge::compile::{Asserts, compile};
use tvm_bridge::ir::ENTRY;
use tvm_bridge::{DType, IrModule, PrimFunc, Schedule, Target, Tensor};

use super::super::{CudaTemplates, Limits};
use crate::device::cuda::emulation;
use crate::measure::check::{Tolerance, compare};
use crate::measure::fill::{filled, poison};

/// An operator.
pub(super) struct Case {
    pub name: String,
    pub function: PrimFunc,
    /// Shapes, types and contents of the arguments, outputs last.
    arguments: Vec<(Vec<u64>, DType, Fill)>,
    outputs: usize,
    /// Number of terms of a sum.
    terms: u64,
}

/// Operators of awkward shapes (primes, strides, groups, paddings).
pub(super) const OPERATORS: [&str; 19] = [
    "batch_matmul_prime",
    "conv2d_grouped",
    "conv2d_prime",
    "conv2d_strided",
    "conv_transpose",
    "dense",
    "depthwise",
    "depthwise_strided",
    "elementwise",
    "enlarged",
    "global_avg_pool",
    "layer_norm",
    "matmul_prime",
    "max_pool_strided",
    "padded",
    "ranked",
    "softmax",
    "transposed",
    "variance",
];

/// A product for tensor cores: its name, the types of operands and result, the shapes of its arguments, and the number
/// of terms of a sum.
type Half = (&'static str, [DType; 2], &'static [&'static [u64]], u64);

const HALF: [DType; 2] = [DType::Float16; 2];
const BFLOAT: [DType; 2] = [DType::BFloat16; 2];
const DENSE: &[&[u64]] = &[&[33, 50], &[47, 50], &[47], &[33, 47]];
const BATCH_MATMUL: &[&[u64]] = &[&[3, 20, 40], &[3, 40, 24], &[3, 20, 24]];
const CONV2D: &[&[u64]] = &[&[1, 6, 11, 11], &[20, 6, 3, 3], &[1, 20, 11, 11]];

/// Products of half precision and of bfloat16.
pub(super) const HALVES: [Half; 9] = [
    ("matmul_even", HALF, &[&[64, 64], &[64, 64], &[64, 64]], 64),
    (
        "matmul_single",
        [DType::Float16, DType::Float32],
        &[&[40, 36], &[36, 52], &[40, 52]],
        36,
    ),
    ("dense", HALF, DENSE, 50),
    ("batch_matmul", HALF, BATCH_MATMUL, 40),
    ("conv2d", HALF, CONV2D, 54),
    ("bfloat_dense", BFLOAT, DENSE, 50),
    ("bfloat_batch_matmul", BFLOAT, BATCH_MATMUL, 40),
    ("bfloat_conv2d", BFLOAT, CONV2D, 54),
    (
        "matmul_rounded",
        HALF,
        &[&[37, 53], &[53, 29], &[37, 29]],
        53,
    ),
];

/// Maxima that begin at minus infinity.
pub(super) const MAXIMA: [Half; 2] = [
    ("row_maximum", HALF, &[&[37, 101], &[37]], 101),
    ("bfloat_row_maximum", BFLOAT, &[&[37, 101], &[37]], 101),
];

/// A convolution whose results are rounded after its sums.
pub(super) const CONV3D: Half = (
    "conv3d",
    HALF,
    &[&[2, 3, 5, 7, 6], &[5, 3, 2, 3, 3], &[2, 5, 5, 4, 6]],
    54,
);

impl Case {
    /// One of [`OPERATORS`].
    pub fn named(name: &str) -> Case {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../collector/tests/fixtures");
        Case::of_folder(&folder.join(name)).remove(0)
    }

    /// One of [`HALVES`], or of those below it.
    pub fn half((name, [operand, result], shapes, terms): Half) -> Case {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/half");
        let json = std::fs::read_to_string(folder.join(format!("{name}.json"))).unwrap();
        // Small, so that sums of half precision stay within it.
        let fill = Fill::Normal { std: 0.25 };
        let mut arguments: Vec<_> = shapes.iter().map(|s| (s.to_vec(), operand, fill)).collect();
        arguments[shapes.len() - 1].1 = result;
        Case {
            name: format!("half {name}"),
            function: PrimFunc::from_json(&json).unwrap(),
            arguments,
            outputs: 1,
            terms,
        }
    }

    /// The operators of an imported model whose arguments are of types that tensors can have.
    pub fn of_folder(folder: &Path) -> Vec<Case> {
        let read = |file| std::fs::read_to_string(folder.join(file)).unwrap();
        let graph: Graph = serde_json::from_str(&read("graph.json")).unwrap();
        let module = IrModule::from_json(&read("module.json")).unwrap();
        let case = |operator: &Operator| {
            let is_output = |a: &&Argument| a.role == ArgumentRole::Output;
            let of = |a: &Argument| Some((a.shape.clone(), a.dtype.parse().ok()?, a.fill));
            Some(Case {
                name: operator.symbol.clone(),
                function: module.prim_func(&operator.symbol).unwrap(),
                arguments: operator.args.iter().map(of).collect::<Option<_>>()?,
                outputs: operator.args.iter().filter(is_output).count(),
                terms: operator.reduction_length(),
            })
        };
        graph.operators.iter().filter_map(case).collect()
    }

    /// Seeded arguments, the outputs poisoned.
    fn tensors(&self) -> Vec<Tensor> {
        let first = self.arguments.len() - self.outputs;
        let tensor = |(i, (shape, dtype, fill)): (usize, &(Vec<u64>, DType, Fill))| {
            let mut tensor = filled(shape, *dtype, *fill, 5, i as u64).unwrap();
            if i >= first {
                poison(&mut tensor).unwrap();
            }
            tensor
        };
        self.arguments.iter().enumerate().map(tensor).collect()
    }

    /// What the operator computes as TVM's library wrote it.
    pub fn reference(&self) -> Vec<Tensor> {
        let plain = self.function.to_module().unwrap();
        let compiled = compile(&plain, &host(), Asserts::Kept).unwrap();
        let mut tensors = self.tensors();
        let kernel = compiled.module.function(ENTRY).unwrap();
        kernel.bind(&tensors).call().unwrap();
        tensors.split_off(self.arguments.len() - self.outputs)
    }

    /// Runs a schedule of the operator on the emulated GPU. Returns why its results are wrong, if they are.
    pub fn complaint(&self, schedule: &Schedule, reference: &[Tensor]) -> Option<String> {
        let module = schedule.module().unwrap();
        let mut found = match emulation::run(&module, &gpu(), &self.tensors()) {
            Ok(found) => found,
            Err(error) => return Some(format!("{error:#}")),
        };
        let found = found.split_off(self.arguments.len() - self.outputs);
        found.iter().zip(reference).find_map(|(found, reference)| {
            let tolerance = Tolerance::new(reference.dtype(), self.terms);
            compare(found, reference, tolerance).unwrap().complaint()
        })
    }
}

pub(super) fn host() -> Target {
    Target::llvm(&tvm_bridge::target::host_cpu().unwrap(), 2).unwrap()
}

pub(super) fn gpu() -> Target {
    let dictionary = json!({
        "kind": "cuda", "arch": "sm_80", "max_threads_per_block": 1024, "thread_warp_size": 32,
        "max_shared_memory_per_block": 49152, "registers_per_block": 65536,
    });
    Target::with_host(&dictionary, &host()).unwrap()
}

pub(super) fn templates() -> CudaTemplates {
    CudaTemplates {
        limits: Limits::of(&json!({ "arch": "sm_80" })),
    }
}

/// The operators that a developer asks for. `OPBENCH_EMULATE` names folders of imported models, separated by colons.
/// `OPBENCH_EMULATE_OPERATORS` names some of their operators, separated by spaces; without it all are taken.
pub(super) fn chosen() -> Vec<Case> {
    let folders = std::env::var_os("OPBENCH_EMULATE").unwrap_or_default();
    let names = std::env::var("OPBENCH_EMULATE_OPERATORS").unwrap_or_default();
    let names: Vec<&str> = names.split_whitespace().collect();
    std::env::split_paths(&folders)
        .filter(|folder| folder.join("graph.json").is_file())
        .flat_map(|folder| Case::of_folder(&folder))
        .filter(|case| names.is_empty() || names.contains(&case.name.as_str()))
        .collect()
}

/// A count that a developer asks for.
pub(super) fn count(variable: &str, default: u64) -> u64 {
    let set = std::env::var(variable).ok();
    set.and_then(|text| text.parse().ok()).unwrap_or(default)
}
