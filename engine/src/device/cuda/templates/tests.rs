//! The templates on real operators: the loop nests that come out, and that emulated kernels compute what the unscheduled
//! operator does, whatever the knobs.

use std::path::{Path, PathBuf};

use opmodels::Graph;
use opmodels::graph::{ArgumentRole, Operator};
use serde_json::json;
use tvm_bridge::compile::{Asserts, compile};
use tvm_bridge::ir::ENTRY;
use tvm_bridge::{IrModule, Target, Tensor};

use super::*;
use crate::device::cuda::emulation;
use crate::measure::check::{Tolerance, compare};
use crate::measure::fill::{filled, poison};
use crate::schedule::Scheduled;

/// Operators of awkward shapes (primes, strides, groups, paddings), one a folder.
const OPERATORS: [&str; 11] = [
    "batch_matmul_prime",
    "conv2d_grouped",
    "conv2d_prime",
    "conv2d_strided",
    "dense",
    "depthwise",
    "depthwise_strided",
    "elementwise",
    "layer_norm",
    "max_pool_strided",
    "softmax",
];

fn fixture(name: &str) -> (PrimFunc, Operator) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../collector/tests/fixtures");
    let (module, graph) = read(&folder.join(name));
    let operator = graph.operators[0].clone();
    (module.prim_func(&operator.symbol).unwrap(), operator)
}

fn read(folder: &Path) -> (IrModule, Graph) {
    let read = |file| std::fs::read_to_string(folder.join(file)).unwrap();
    let graph = serde_json::from_str(&read("graph.json")).unwrap();
    (IrModule::from_json(&read("module.json")).unwrap(), graph)
}

fn host() -> Target {
    Target::llvm(&tvm_bridge::target::host_cpu().unwrap(), 2).unwrap()
}

fn gpu() -> Target {
    let dictionary = json!({
        "kind": "cuda", "arch": "sm_80", "max_threads_per_block": 1024, "thread_warp_size": 32,
        "max_shared_memory_per_block": 49152, "registers_per_block": 65536,
    });
    Target::with_host(&dictionary, &host()).unwrap()
}

fn templates() -> CudaTemplates {
    CudaTemplates {
        limits: Limits::of(&json!({ "arch": "sm_80" })),
    }
}

/// Seeded arguments of an operator, its outputs poisoned, and the place of the first output.
fn arguments(operator: &Operator) -> (Vec<Tensor>, usize) {
    let mut tensors: Vec<Tensor> = (0u64..)
        .zip(&operator.args)
        .map(|(i, a)| filled(&a.shape, a.dtype.parse().unwrap(), a.fill, 5, i).unwrap())
        .collect();
    let first = operator
        .args
        .iter()
        .position(|a| a.role == ArgumentRole::Output)
        .unwrap();
    for output in &mut tensors[first..] {
        poison(output).unwrap();
    }
    (tensors, first)
}

/// What an operator computes as TVM's library wrote it.
fn reference(function: &PrimFunc, operator: &Operator) -> Vec<Tensor> {
    let plain = function.to_module().unwrap();
    let compiled = compile(&plain, &host(), Asserts::Kept).unwrap();
    let (mut tensors, first) = arguments(operator);
    compiled
        .module
        .function(ENTRY)
        .unwrap()
        .bind(&tensors)
        .call()
        .unwrap();
    tensors.split_off(first)
}

/// Why an emulated schedule does not compute what it should.
fn complaint(scheduled: &Scheduled, operator: &Operator, reference: &[Tensor]) -> Option<String> {
    let (tensors, first) = arguments(operator);
    let module = scheduled.schedule.module().unwrap();
    let mut found = match emulation::run(&module, &gpu(), &tensors) {
        Ok(found) => found,
        Err(error) => return Some(format!("{error:#}")),
    };
    let terms = operator.reduction_length();
    found
        .split_off(first)
        .iter()
        .zip(reference)
        .find_map(|(found, reference)| {
            let tolerance = Tolerance::new(reference.dtype(), terms);
            compare(found, reference, tolerance).unwrap().complaint()
        })
}

#[test]
fn default_schedules_compute_what_the_operators_do() {
    if let Some(why) = emulation::obstacle() {
        eprintln!("skipped: {why}");
        return;
    }
    let mut complaints = Vec::new();
    for name in OPERATORS {
        let (function, operator) = fixture(name);
        let scheduled = default_schedule(&function, &templates(), 0).unwrap();
        let found = complaint(&scheduled, &operator, &reference(&function, &operator));
        println!("{name}: {}", scheduled.choice.template);
        complaints.extend(found.map(|c| format!("{name} ({:?}): {c}", scheduled.choice)));
    }
    assert!(complaints.is_empty(), "{}", complaints.join("\n"));
}

/// A developer's look at the operators of imported models: the folders of `OPBENCH_OPERATORS`, separated by colons.
#[test]
fn operators_of_models() {
    let Some(folders) = std::env::var_os("OPBENCH_OPERATORS") else {
        return;
    };
    for folder in std::env::split_paths(&folders) {
        let folder: PathBuf = folder;
        let (module, graph) = read(&folder);
        for operator in &graph.operators {
            let function = module.prim_func(&operator.symbol).unwrap();
            let mut reasons = Vec::new();
            for attempt in 0.. {
                let s = Schedule::new(&function, 0).unwrap();
                match templates().suggest(&s, attempt) {
                    None => {
                        println!(
                            "{} {}: NONE {}",
                            folder.display(),
                            operator.symbol,
                            reasons.join(" | ")
                        );
                        break;
                    }
                    Some(Ok(choice)) => {
                        let module = s.module().unwrap();
                        let lowered =
                            tvm_bridge::compile::Lowered::new(&module, &gpu(), Asserts::Dropped);
                        let state = match lowered.and_then(|l| l.generate()) {
                            Ok(_) => "ok".to_owned(),
                            Err(e) => format!("FAILED {e}"),
                        };
                        println!(
                            "{} {}: {} {state} ({})",
                            folder.display(),
                            operator.symbol,
                            choice.template,
                            reasons.join(" | ")
                        );
                        break;
                    }
                    Some(Err(e)) => {
                        reasons.push(e.to_string().chars().skip(45).take(90).collect::<String>())
                    }
                }
            }
        }
    }
}
