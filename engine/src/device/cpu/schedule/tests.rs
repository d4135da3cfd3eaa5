//! The templates on real operators: the loop nests that come out, and that no combination of knobs changes a result.

use std::cell::RefCell;
use std::collections::HashMap;
use std::path::Path;

use opmodels::Graph;
use opmodels::graph::{ArgumentRole, Operator};
use proptest::prelude::*;
use tvm_bridge::compile::{Asserts, Lowered, compile};
use tvm_bridge::ir::ENTRY;
use tvm_bridge::tensorize::DotProduct;
use tvm_bridge::{IrModule, Target, Tensor};

use super::*;
use crate::measure::check::{Tolerance, compare};
use crate::measure::fill::{filled, poison};
use crate::schedule::testing::nest;
use crate::schedule::with_choice;

/// Operators of awkward shapes (primes, strides, groups, paddings), one a folder.
const OPERATORS: [&str; 31] = [
    "conv2d_prime",
    "conv2d_packed",
    "conv2d_pointwise_plain",
    "conv2d_strided",
    "conv2d_grouped",
    "conv2d_swish",
    "depthwise",
    "depthwise_small",
    "depthwise_strided",
    "conv_transpose",
    "dense",
    "matmul_prime",
    "batch_matmul_prime",
    "max_pool_strided",
    "avg_pool",
    "softmax",
    "softmax_of_channels",
    "softmax_of_columns",
    "layer_norm",
    "global_avg_pool",
    "elementwise",
    "padded",
    "transposed",
    "enlarged",
    "variance",
    "ranked",
    "qconv2d",
    "qdense",
    "largest",
    "place_of_largest",
    "scores_of_one_query",
];

fn operator(name: &str) -> (PrimFunc, Operator) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../collector/tests/fixtures")
        .join(name);
    let read = |file| std::fs::read_to_string(folder.join(file)).unwrap();
    let graph: Graph = serde_json::from_str(&read("graph.json")).unwrap();
    let operator = graph.operators[0].clone();
    let module = IrModule::from_json(&read("module.json")).unwrap();
    (module.prim_func(&operator.symbol).unwrap(), operator)
}

/// The loop nest of an operator's default schedule for 16 lanes, and what was chosen.
fn default_nest(name: &str) -> String {
    let templates = CpuTemplates {
        unit: VectorUnit::of_width(512, true),
        dot: DotProduct::Portable,
    };
    let (function, _) = operator(name);
    let scheduled = default_schedule(&function, &templates, 0).unwrap();
    let choice = serde_json::to_string(&scheduled.choice).unwrap();
    let function = scheduled.schedule.function().unwrap();
    format!("{choice}\n{}", nest(&function))
}

#[test]
fn default_schedules_have_the_loops_of_their_template() {
    for name in OPERATORS {
        insta::assert_snapshot!(name, default_nest(name));
    }
}

#[test]
fn sums_are_no_workspace_of_the_runtime() {
    let target = Target::llvm("x86-64-v4", 2).unwrap();
    for name in [
        "conv2d_grouped",
        "conv2d_swish",
        "matmul_prime",
        // 16 vectors of sums: 1 KiB.
        "conv2d_pointwise_plain",
        // Sums of scope `local`.
        "qconv2d",
        "qdense",
    ] {
        let (function, _) = operator(name);
        let scheduled = default_schedule(&function, &templates(&target), 0).unwrap();
        let module = scheduled.schedule.module().unwrap();
        let lowered = Lowered::new(&module, &target, Asserts::Dropped).unwrap();
        let assembly = lowered.generate().unwrap().assembly().unwrap();
        let calls = assembly.matches("__TVMBackendAllocWorkspace@GOTPCREL");
        assert_eq!(calls.count(), 0, "{name}");
    }
}

#[test]
fn products_of_bytes_are_dot_products() {
    let target = Target::llvm(&tvm_bridge::target::host_cpu().unwrap(), 2).unwrap();
    for name in ["qconv2d", "qdense"] {
        let (function, operator) = operator(name);
        let reference = outputs(&Schedule::new(&function, 0).unwrap(), &operator, &target);
        for dot in [DotProduct::of(&target).unwrap(), DotProduct::Portable] {
            let templates = CpuTemplates {
                dot,
                ..templates(&target)
            };
            let schedule = Schedule::new(&function, 0).unwrap();
            let choice = templates.suggest(&schedule, 0).unwrap().unwrap();
            assert_eq!(choice.template, "dot", "{name}");
            let found = outputs(&schedule, &operator, &target);
            let tolerance = Tolerance::new(reference[0].dtype(), operator.reduction_length());
            let comparison = compare(&found[0], &reference[0], tolerance).unwrap();
            assert_eq!(comparison.complaint(), None, "{name} with {dot:?}");
        }
    }
}

#[test]
fn every_algorithm_computes_the_convolution() {
    let target = Target::llvm(&tvm_bridge::target::host_cpu().unwrap(), 2).unwrap();
    let templates = templates(&target);
    let mut tried = Vec::new();
    let names = [
        "conv2d_packed",
        // Enough tiles to be divided into two tasks.
        "conv2d_wide",
        "conv2d_strided",
        "conv2d_pointwise",
        "conv2d_pointwise_plain",
    ];
    for name in names {
        with_subject(name, &target, |subject| {
            let of = algorithm::convolution(&subject.function).unwrap().unwrap();
            for algorithm in of.algorithms().split_off(1) {
                for blocks in [1, 2] {
                    let knobs = of.knobs(algorithm, blocks, templates.unit);
                    // One that leaves a rest where that is possible, and one that does not.
                    let other = if algorithm == Algorithm::Pixels { 4 } else { 7 };
                    for columns in [knobs.columns, other] {
                        let knobs = ConvolutionKnobs { columns, ..knobs };
                        let choice = Knobs::Convolution(knobs).choice();
                        let scheduled = with_choice(&subject.function, &templates, 0, &choice);
                        let schedule = scheduled.unwrap().schedule;
                        let found = outputs(&schedule, &subject.operator, &target);
                        let terms = subject.operator.reduction_length();
                        let tolerance = Tolerance::new(found[0].dtype(), terms);
                        let comparison = compare(&found[0], &subject.reference[0], tolerance);
                        assert_eq!(comparison.unwrap().complaint(), None, "{name} {knobs:?}");
                    }
                }
                tried.push((name, algorithm.word()));
            }
        });
    }
    for (name, tried) in ["conv2d_packed", "conv2d_wide"].iter().zip(tried.chunks(3)) {
        let packed = ["winograd2", "winograd4", "im2col"];
        assert_eq!(tried, packed.map(|algorithm| (*name, algorithm)));
    }
    let pointwise = [
        ("conv2d_pointwise", "pixels"),
        ("conv2d_pointwise_plain", "pixels"),
    ];
    assert_eq!(
        tried[6..],
        [[("conv2d_strided", "im2col")].as_slice(), &pointwise].concat()
    );
}

#[test]
fn algorithms_refuse_what_they_do_not_compute() {
    let target = Target::llvm(&tvm_bridge::target::host_cpu().unwrap(), 2).unwrap();
    let refusal = |name: &str, algorithm, vector_blocks| {
        let knobs = ConvolutionKnobs {
            algorithm,
            columns: 4,
            vector_blocks,
        };
        let choice = Knobs::Convolution(knobs).choice();
        let made = with_choice(&operator(name).0, &templates(&target), 0, &choice);
        made.unwrap_err().to_string()
    };
    insta::assert_snapshot!(
        [
            refusal("dense", Algorithm::Im2col, 1),
            refusal("conv2d_grouped", Algorithm::Im2col, 1),
            refusal("conv2d_strided", Algorithm::Winograd4, 1),
            refusal("conv2d_packed", Algorithm::Direct, 1),
            refusal("conv2d_packed", Algorithm::Winograd4, 3),
            refusal("conv2d_packed", Algorithm::Pixels, 1),
            refusal("conv2d_pointwise", Algorithm::Pixels, 7),
        ]
        .join("\n"),
        @r"
    schedule template returned something unexpected: no convolution with packed weights
    schedule template returned something unexpected: no convolution with packed weights
    schedule template returned something unexpected: an algorithm for another window or stride
    schedule template returned something unexpected: an algorithm for another window or stride
    schedule template returned something unexpected: a tile that does not divide the channels
    schedule template returned something unexpected: no convolution of 1×1 windows over all pixels
    schedule template returned something unexpected: a tile that does not divide channels or pixels
    "
    );
}

#[test]
fn knobs_decide_the_loops() {
    let (function, _) = operator("dense");
    let templates = CpuTemplates {
        unit: VectorUnit::of_width(512, true),
        dot: DotProduct::Portable,
    };
    let base = default_schedule(&function, &templates, 0).unwrap().choice;
    let Knobs::Contraction(mut knobs) = Knobs::of(&base).unwrap() else {
        panic!("a contraction, not {base:?}");
    };
    let nest_of = |knobs: &ContractionKnobs| {
        let choice = Knobs::Contraction(knobs.clone()).choice();
        let scheduled = with_choice(&function, &templates, 0, &choice).unwrap();
        nest(&scheduled.schedule.function().unwrap())
    };
    assert_eq!(
        nest_of(&knobs),
        default_nest("dense").split_once('\n').unwrap().1,
        "the default's own knobs make the default again"
    );
    knobs.cache_write = CacheWrite::None;
    knobs.epilogue = Epilogue::Root;
    let changed = nest_of(&knobs);
    assert!(
        !changed.contains("_local"),
        "no accumulators of its own: {changed}"
    );
}

/// A kernel's outputs on seeded arguments.
fn outputs(schedule: &Schedule, operator: &Operator, target: &Target) -> Vec<Tensor> {
    let compiled = compile(&schedule.module().unwrap(), target, Asserts::Kept).unwrap();
    let mut tensors: Vec<Tensor> = (0u64..)
        .zip(&operator.args)
        .map(|(i, a)| filled(&a.shape, a.dtype.parse().unwrap(), a.fill, 5, i).unwrap())
        .collect();
    let is_output = |role| role == ArgumentRole::Output;
    let first = operator
        .args
        .iter()
        .position(|a| is_output(a.role))
        .unwrap();
    for output in &mut tensors[first..] {
        poison(output).unwrap();
    }
    let kernel = compiled.module.function(ENTRY).unwrap();
    kernel.bind(&tensors).call().unwrap();
    tensors.split_off(first)
}

/// An operator with its space, and what it computes as TVM's library wrote it.
struct Subject {
    function: PrimFunc,
    operator: Operator,
    space: Space,
    reference: Vec<Tensor>,
}

thread_local! {
    static SUBJECTS: RefCell<HashMap<&'static str, Subject>> = RefCell::default();
}

fn with_subject<T>(name: &'static str, target: &Target, work: impl FnOnce(&Subject) -> T) -> T {
    SUBJECTS.with_borrow_mut(|subjects| {
        let subject = subjects.entry(name).or_insert_with(|| {
            let (function, operator) = operator(name);
            let plain = Schedule::new(&function, 0).unwrap();
            Subject {
                space: templates(target).space(&function).unwrap(),
                reference: outputs(&plain, &operator, target),
                function,
                operator,
            }
        });
        work(subject)
    })
}

fn templates(target: &Target) -> CpuTemplates {
    CpuTemplates::of(target).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, max_shrink_iters: 0, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn no_combination_of_knobs_changes_the_result(
        name in prop::sample::select(&OPERATORS[..]),
        // Few at a time: most combinations of many are refused.
        picks in prop::collection::vec(prop::option::weighted(0.3, any::<prop::sample::Index>()), 32),
    ) {
        let target = Target::llvm(&tvm_bridge::target::host_cpu().unwrap(), 2).unwrap();
        with_subject(name, &target, |subject| {
            let dimensions = subject.space.dimensions.iter();
            let settings: Vec<_> = dimensions
                .zip(&picks)
                .filter_map(|(dimension, pick)| Some((dimension, pick.as_ref()?.get(&dimension.values))))
                .collect();
            // A combination that is refused says why; most others are schedules, and some do not fit after all.
            let choice = match super::combine(&subject.space, &settings) {
                Ok(choice) => choice,
                Err(reason) => {
                    prop_assert!(!reason.is_empty());
                    return Ok(());
                }
            };
            let scheduled = with_choice(&subject.function, &templates(&target), 0, &choice);
            let Ok(scheduled) = scheduled else { return Ok(()) };
            let found = outputs(&scheduled.schedule, &subject.operator, &target);
            let terms = subject.operator.reduction_length();
            for (found, reference) in found.iter().zip(&subject.reference) {
                let tolerance = Tolerance::new(reference.dtype(), terms);
                let comparison = compare(found, reference, tolerance).unwrap();
                prop_assert_eq!(comparison.complaint(), None, "{} with {:?}", name, choice);
            }
            Ok(())
        })?;
    }
}
