//! Code for a CUDA device, generated with no GPU and no CUDA installed.

use serde_json::json;
use tvm_bridge::compile::{Asserts, Lowered};
use tvm_bridge::{
    DType, DesignSpace, Device, DeviceKind, KernelLaunch, PrimFunc, Schedule, Target, Tensor,
};

fn target() -> Target {
    let host = Target::llvm(&tvm_bridge::target::host_cpu().unwrap(), 1).unwrap();
    let cuda = json!({
        "kind": "cuda", "arch": "sm_80", "max_threads_per_block": 1024, "thread_warp_size": 32,
        "max_shared_memory_per_block": 49152, "registers_per_block": 65536,
    });
    Target::with_host(&cuda, &host).unwrap()
}

fn matmul() -> PrimFunc {
    let path = format!("{}/tests/fixtures/matmul.json", env!("CARGO_MANIFEST_DIR"));
    PrimFunc::from_json(&std::fs::read_to_string(path).unwrap()).unwrap()
}

/// A thread an element, 16 × 16 threads a block.
fn bound(function: &PrimFunc) -> Schedule {
    let s = Schedule::new(function, 0).unwrap();
    let block = s.blocks().unwrap().remove(0);
    let [y, x, _k]: [_; 3] = s.loops(&block).unwrap().try_into().unwrap();
    let (outer, inner) = s.tile(&[(&y, 16), (&x, 16)]).unwrap();
    for (l, axis) in outer.iter().zip(["blockIdx.y", "blockIdx.x"]) {
        s.bind(l, axis).unwrap();
    }
    for (l, axis) in inner.iter().zip(["threadIdx.y", "threadIdx.x"]) {
        s.bind(l, axis).unwrap();
    }
    s
}

#[test]
fn a_bound_matmul_becomes_a_kernel_and_the_code_that_starts_it() {
    let module = bound(&matmul()).module().unwrap();
    let lowered = Lowered::new(&module, &target(), Asserts::Kept).unwrap();
    assert!(lowered.statements(10_000).unwrap() > 0);
    let launches = lowered.launches().unwrap();
    let expected = KernelLaunch {
        name: "main_kernel".to_owned(),
        blocks: [4, 4, 1],
        threads: [16, 16, 1],
        dynamic_shared_bytes: 0,
    };
    assert_eq!(launches, [expected]);
    let alone = lowered.device_source().unwrap().unwrap();
    let generated = lowered.generate().unwrap();
    let source = generated.device_source().unwrap().unwrap();
    assert_eq!(alone.text, source);
    assert!(
        source.contains("__global__") && source.contains("main_kernel"),
        "{source}"
    );
    assert!(source.contains("threadIdx.y") && source.contains("typedef signed char int8_t;"));

    // The host's part loads; a call says what is missing.
    let compiled = generated.load().unwrap();
    let kernel = compiled.module.function("main").unwrap();
    let tensors = [0; 3].map(|_| Tensor::zeros(Device::cpu(), &[64, 64], DType::Float32).unwrap());
    let error = kernel.bind(&tensors).call().unwrap_err().to_string();
    assert!(
        error.contains("device") && error.lines().count() == 1,
        "{error}"
    );
    let device = Device::first(DeviceKind::Cuda);
    if !device.exists().unwrap() {
        assert!(Tensor::zeros(device, &[64, 64], DType::Float32).is_err());
    }
}

#[test]
fn a_launch_says_how_much_shared_memory_it_asks_for() {
    let s = bound(&matmul());
    let block = s.blocks().unwrap().remove(0);
    let k = s.loops(&block).unwrap().pop().unwrap();
    let outer = s.split(&k, &[None, Some(16)]).unwrap().remove(0);
    let tile = s.cache_read(&block, 0, "shared.dyn").unwrap();
    s.compute_at(&tile, &outer).unwrap();
    let lowered = Lowered::new(&s.module().unwrap(), &target(), Asserts::Dropped).unwrap();
    let launch = lowered.launches().unwrap().remove(0);
    assert_eq!(launch.dynamic_shared_bytes, 16 * 16 * 4);
    assert_eq!(
        (launch.block_count(), launch.threads_per_block()),
        (16, 256)
    );
}

#[test]
fn a_loop_that_is_not_bound_is_refused() {
    let module = matmul().to_module().unwrap();
    let error = Lowered::new(&module, &target(), Asserts::Kept).unwrap_err();
    assert!(error.to_string().contains("no loop is bound"), "{error}");
}

#[test]
fn kernels_of_other_schedules_have_another_hash() {
    let hash = |s: &Schedule| {
        Lowered::new(&s.module().unwrap(), &target(), Asserts::Dropped)
            .unwrap()
            .structural_hash()
            .unwrap()
    };
    let plain = bound(&matmul());
    let unrolled = bound(&matmul());
    let block = unrolled.blocks().unwrap().remove(0);
    unrolled
        .unroll(unrolled.loops(&block).unwrap().last().unwrap())
        .unwrap();
    assert_eq!(hash(&plain), hash(&bound(&matmul())));
    assert_ne!(hash(&plain), hash(&unrolled));
}

#[test]
fn samples_of_the_cuda_design_space_become_source() {
    let target = target();
    let space = DesignSpace::generate(&matmul(), &target, 0).unwrap();
    let sample = (0..8).find_map(|seed| {
        let module = space.sample(seed).ok()?.schedule.module().unwrap();
        Lowered::new(&module, &target, Asserts::Dropped)
            .ok()?
            .generate()
            .ok()
    });
    let source = sample.expect("one sketch at least needs no asynchronous copies");
    assert!(
        source
            .device_source()
            .unwrap()
            .unwrap()
            .contains("__shared__")
    );
}
