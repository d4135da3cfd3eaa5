//! The path from TVM's JSON to a running kernel, on real TVM.

use tvm_bridge::compile::{Asserts, Lowered, compile};
use tvm_bridge::threads::Pool;
use tvm_bridge::{DType, DesignSpace, Device, PrimFunc, Schedule, Target, Tensor, Trace};

fn function(name: &str) -> PrimFunc {
    let path = format!("{}/tests/fixtures/{name}.json", env!("CARGO_MANIFEST_DIR"));
    PrimFunc::from_json(&std::fs::read_to_string(path).unwrap()).unwrap()
}

fn target() -> Target {
    Target::llvm(&tvm_bridge::target::host_cpu().unwrap(), 1).unwrap()
}

fn floats(values: impl IntoIterator<Item = f32>) -> Vec<u8> {
    values.into_iter().flat_map(f32::to_le_bytes).collect()
}

fn to_floats(tensor: &Tensor) -> Vec<f32> {
    tensor
        .bytes()
        .unwrap()
        .chunks_exact(4)
        .map(|b| f32::from_le_bytes(b.try_into().unwrap()))
        .collect()
}

#[test]
fn a_function_runs_and_computes() {
    let n = 64;
    let compiled = compile(
        &function("vector_add").to_module().unwrap(),
        &target(),
        Asserts::Kept,
    )
    .unwrap();
    let kernel = compiled.module.function("main").unwrap();
    let tensors = [
        Tensor::from_bytes(
            Device::cpu(),
            &[n],
            DType::Float32,
            &floats((0..n).map(|i| i as f32)),
        )
        .unwrap(),
        Tensor::from_bytes(
            Device::cpu(),
            &[n],
            DType::Float32,
            &floats((0..n).map(|i| 2.0 * i as f32)),
        )
        .unwrap(),
        Tensor::zeros(Device::cpu(), &[n], DType::Float32).unwrap(),
    ];
    kernel.bind(&tensors).call().unwrap();
    assert_eq!(
        to_floats(&tensors[2]),
        (0..n).map(|i| 3.0 * i as f32).collect::<Vec<_>>()
    );
}

#[test]
fn a_kernel_that_checks_refuses_a_wrong_shape() {
    let compiled = compile(
        &function("vector_add").to_module().unwrap(),
        &target(),
        Asserts::Kept,
    )
    .unwrap();
    let kernel = compiled.module.function("main").unwrap();
    let wrong = [8, 64, 64].map(|n| Tensor::zeros(Device::cpu(), &[n], DType::Float32).unwrap());
    let error = kernel.bind(&wrong).call().unwrap_err().to_string();
    assert!(
        error.contains("shape") && error.lines().count() == 1,
        "{error}"
    );
}

fn tiled(function: &PrimFunc) -> Schedule {
    let s = Schedule::new(function, 7).unwrap();
    s.compute_inline(&s.block("T_add").unwrap()).unwrap();
    let conv = s.block("conv2d").unwrap();
    let [_n, f, y, x, rc, ry, rx]: [_; 7] = s.loops(&conv).unwrap().try_into().unwrap();
    let f = s.split(&f, &[None, Some(16)]).unwrap();
    let x = s.split(&x, &[None, Some(7)]).unwrap();
    s.reorder(&[&f[0], &y, &x[0], &rc, &ry, &rx, &x[1], &f[1]])
        .unwrap();
    let outer = s.fuse(&[&f[0], &y]).unwrap();
    s.parallel(&outer).unwrap();
    s.vectorize(&f[1]).unwrap();
    s.decompose_reduction(&conv, &rc).unwrap();
    s
}

fn run_conv(module: &tvm_bridge::IrModule) -> Vec<f32> {
    let compiled = compile(module, &target(), Asserts::Dropped).unwrap();
    let wave = |n: i64| floats((0..n).map(|i| ((i * 37 % 101) as f32 - 50.0) / 50.0));
    let tensors = [
        Tensor::from_bytes(
            Device::cpu(),
            &[1, 16, 14, 14],
            DType::Float32,
            &wave(16 * 196),
        )
        .unwrap(),
        Tensor::from_bytes(
            Device::cpu(),
            &[2, 16, 3, 3, 16],
            DType::Float32,
            &wave(2 * 16 * 9 * 16),
        )
        .unwrap(),
        Tensor::from_bytes(Device::cpu(), &[1, 32, 1, 1], DType::Float32, &wave(32)).unwrap(),
        Tensor::zeros(Device::cpu(), &[1, 32, 14, 14], DType::Float32).unwrap(),
    ];
    let _pool = Pool::start(2).unwrap();
    compiled
        .module
        .function("main")
        .unwrap()
        .bind(&tensors)
        .call()
        .unwrap();
    to_floats(&tensors[3])
}

#[test]
fn a_scheduled_function_agrees_with_the_unscheduled_one_and_its_trace_rebuilds_it() {
    let plain = function("conv2d_relu");
    let expected = run_conv(&plain.to_module().unwrap());
    assert!(
        expected.iter().any(|v| *v > 0.0),
        "the test data must not all be cut off by ReLU"
    );

    let scheduled = tiled(&plain);
    let found = run_conv(&scheduled.module().unwrap());
    for (e, f) in expected.iter().zip(&found) {
        assert!((e - f).abs() <= 1e-4 * e.abs().max(1.0), "{e} against {f}");
    }

    let trace = scheduled.trace().unwrap();
    let text = serde_json::to_string(&trace.0).unwrap();
    let again = Schedule::new(&plain, 7).unwrap();
    again
        .apply(&Trace(serde_json::from_str(&text).unwrap()))
        .unwrap();
    assert_eq!(again.script().unwrap(), scheduled.script().unwrap());
}

#[test]
fn the_design_space_gives_the_same_sample_for_a_seed_and_others_for_others() {
    let plain = function("conv2d_relu");
    let target = Target::llvm("x86-64-v3", 2).unwrap();
    let space = DesignSpace::generate(&plain, &target, 0).unwrap();
    assert!(space.sketches() > 1, "with and without a write cache");
    let sample = |seed| space.sample(seed).unwrap().schedule;
    let hashes: Vec<u64> = (0..6)
        .map(|seed| sample(seed).function().unwrap().structural_hash().unwrap())
        .collect();
    let again = sample(3).function().unwrap().structural_hash().unwrap();
    assert_eq!(again, hashes[3]);
    let distinct: std::collections::HashSet<_> = hashes.iter().collect();
    assert!(distinct.len() > 3, "{hashes:?}");

    let expected = run_conv(&plain.to_module().unwrap());
    let found = run_conv(&sample(1).module().unwrap());
    for (e, f) in expected.iter().zip(&found) {
        assert!((e - f).abs() <= 1e-4 * e.abs().max(1.0), "{e} against {f}");
    }
    let trace = sample(1).trace().unwrap();
    assert!(trace.0.to_string().contains("SamplePerfectTile"));
    let rebuilt = Schedule::new(&plain, 99).unwrap();
    rebuilt.apply(&trace).unwrap();
    assert_eq!(rebuilt.script().unwrap(), sample(1).script().unwrap());
}

#[test]
fn unrolled_statements_are_counted_before_code_is_made_of_them() {
    let plain = function("conv2d_relu");
    let target = Target::llvm("x86-64-v3", 2).unwrap();
    let statements = |module: &tvm_bridge::IrModule, limit| {
        Lowered::new(module, &target, Asserts::Dropped)
            .unwrap()
            .statements(limit)
            .unwrap()
    };
    let unrolled = Schedule::new(&plain, 0).unwrap();
    let loops = unrolled.loops(&unrolled.block("conv2d").unwrap()).unwrap();
    unrolled.unroll(&loops[3]).unwrap();
    let (small, unrolled) = (plain.to_module().unwrap(), unrolled.module().unwrap());
    let few = statements(&small, 10_000);
    let many = statements(&unrolled, 10_000);
    assert!(few < many, "{few} {many}");
    assert!(
        statements(&unrolled, few) <= few + 2,
        "counting stops at the limit"
    );
}

#[test]
fn an_impossible_primitive_says_why_in_one_line() {
    let s = Schedule::new(&function("conv2d_relu"), 1).unwrap();
    let conv = s.block("conv2d").unwrap();
    let loops = s.loops(&conv).unwrap();
    let error = s.fuse(&[&loops[0], &loops[2]]).unwrap_err();
    assert_eq!(error.to_string().lines().count(), 1, "{error}");
    assert!(s.block("no_such_block").is_err());
}

#[test]
fn ir_survives_json() {
    let plain = function("conv2d_relu");
    let again = PrimFunc::from_json(&plain.to_json().unwrap()).unwrap();
    assert_eq!(
        plain.structural_hash().unwrap(),
        again.structural_hash().unwrap()
    );
    assert_ne!(
        plain.structural_hash().unwrap(),
        function("vector_add").structural_hash().unwrap()
    );
}

#[test]
fn the_pool_uses_the_threads_that_are_set() {
    let pool = Pool::start(2).unwrap();
    assert_eq!(pool.in_use().unwrap(), 2);
    pool.use_threads(1).unwrap();
    assert_eq!(pool.in_use().unwrap(), 1);
    assert!(pool.use_threads(0).is_err());
    assert!(pool.use_threads(3).is_err());
}

#[test]
fn a_block_has_its_iterators_and_accesses() {
    let s = Schedule::new(&function("conv2d_relu"), 1).unwrap();
    let names: Vec<String> = s
        .blocks()
        .unwrap()
        .iter()
        .map(|b| s.info(b).unwrap().name)
        .collect();
    assert_eq!(names, ["pad_temp", "conv2d", "T_add", "compute"]);
    let info = s.info(&s.block("conv2d").unwrap()).unwrap();
    let iters: Vec<_> = info
        .iters
        .iter()
        .map(|i| (i.name.as_str(), i.extent, i.kind))
        .collect();
    use tvm_bridge::inspect::IterKind::{Reduction, Spatial};
    assert_eq!(
        iters,
        [
            ("nn", 1, Spatial),
            ("ff", 32, Spatial),
            ("yy", 14, Spatial),
            ("xx", 14, Spatial),
            ("rc", 16, Reduction),
            ("ry", 3, Reduction),
            ("rx", 3, Reduction),
        ]
    );
    let weight = info.reads.iter().find(|r| r.buffer == "weight").unwrap();
    assert_eq!(weight.shape, [2, 16, 3, 3, 16]);
    assert_eq!(weight.indices[1].plain(), Some(4));
    assert_eq!(
        weight.indices[4].terms,
        [(1, None)],
        "ff % 16 has no constant factor"
    );
    let pad = info.reads.iter().find(|r| r.buffer == "pad_temp").unwrap();
    assert_eq!(pad.indices[3].terms, [(3, Some(1)), (6, Some(1))]);
}

#[test]
fn schedules_and_design_spaces_leave_their_function_as_it_was() {
    let plain = function("conv2d_relu");
    let (before, module) = (plain.structural_hash().unwrap(), plain.to_module().unwrap());
    tiled(&plain);
    assert_eq!(plain.structural_hash().unwrap(), before);
    let target = Target::llvm("x86-64-v3", 2).unwrap();
    let space = DesignSpace::generate(&plain, &target, 0).unwrap();
    space.sample(1).unwrap();
    assert_eq!(plain.structural_hash().unwrap(), before);
    Lowered::new(&module, &target, Asserts::Dropped).unwrap();
    assert_eq!(plain.structural_hash().unwrap(), before);
    assert_eq!(
        module.structural_hash().unwrap(),
        plain.to_module().unwrap().structural_hash().unwrap()
    );
}
