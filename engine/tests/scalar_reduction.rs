//! Schedules of reductions to one number, which have no spatial loop to tile or to run in parallel.

use opengine::device::{self, Opening, Session};
use opengine::schedule::{Choice, Scheduled, default_schedule, with_choice};
use tvm_bridge::compile::{Asserts, compile};
use tvm_bridge::{DType, Device, PrimFunc, Tensor};

/// Sums 64x64 numbers.
fn total() -> PrimFunc {
    PrimFunc::from_json(include_str!("../../tvm/tests/fixtures/total.json")).unwrap()
}

fn session() -> Box<dyn Session> {
    let cpu = tvm_bridge::target::host_cpu().unwrap();
    let dictionary = serde_json::json!({ "kind": "llvm", "mcpu": cpu, "num-cores": 1 });
    device::HOST
        .open(&Opening::measuring(dictionary, 1))
        .unwrap()
}

/// The mean of 1x64x56x56 numbers, which divides their sum in a block without a loop.
fn mean() -> PrimFunc {
    PrimFunc::from_json(include_str!("fixtures/mean.json")).unwrap()
}

/// What a schedule makes of 0, 1, … 15 over and over: their sum is exact in every order of additions.
fn computed(session: &dyn Session, scheduled: &Scheduled, shape: &[i64]) -> f32 {
    let module = scheduled.schedule.module().unwrap();
    let compiled = compile(&module, session.target(), Asserts::Kept).unwrap();
    let numbers: Vec<u8> = (0..shape.iter().product())
        .flat_map(|i: i64| ((i % 16) as f32).to_le_bytes())
        .collect();
    let tensors = [
        Tensor::from_bytes(Device::cpu(), shape, DType::Float32, &numbers).unwrap(),
        Tensor::zeros(Device::cpu(), &[], DType::Float32).unwrap(),
    ];
    let kernel = compiled.module.function(tvm_bridge::ir::ENTRY).unwrap();
    kernel.bind(&tensors).call().unwrap();
    let bytes = tensors[1].bytes().unwrap();
    f32::from_le_bytes(bytes[..4].try_into().unwrap())
}

const SHAPE: [i64; 2] = [64, 64];
const SUM: f32 = 64.0 * 64.0 * 7.5;

#[test]
fn the_sum_of_a_tensor_is_vectorised_by_default() {
    let session = session();
    let scheduled = default_schedule(&total(), &*session.templates(), 1).unwrap();
    assert_eq!(scheduled.choice.template, "partial");
    let script = scheduled.schedule.script().unwrap();
    assert!(script.contains("T.vectorized("), "{script}");
    assert_eq!(computed(&*session, &scheduled, &SHAPE), SUM);
}

#[test]
fn a_mean_is_taken_in_pieces_in_parallel() {
    let session = session();
    let scheduled = default_schedule(&mean(), &*session.templates(), 1).unwrap();
    assert_eq!(scheduled.choice.template, "partial");
    let script = scheduled.schedule.script().unwrap();
    assert!(script.contains("T.parallel("), "{script}");
    assert_eq!(computed(&*session, &scheduled, &[1, 64, 56, 56]), 7.5);
}

#[test]
fn no_number_of_lanes_or_pieces_changes_the_sum() {
    let session = session();
    let with = |lanes: i64, pieces: i64| {
        let knobs = serde_json::json!({ "vector_length": lanes, "parallel_extent": pieces });
        let choice = Choice::new("partial", &knobs);
        with_choice(&total(), &*session.templates(), 1, &choice)
    };
    for (lanes, pieces) in [(2, 1), (8, 4), (64, 64), (32, 128), (4096, 1)] {
        let scheduled = with(lanes, pieces).unwrap();
        assert_eq!(
            computed(&*session, &scheduled, &SHAPE),
            SUM,
            "{lanes} {pieces}"
        );
    }
    for (lanes, pieces) in [(3, 1), (64, 65), (0, 1), (1, 4), (8, -1)] {
        assert!(with(lanes, pieces).is_err(), "{lanes} {pieces}");
    }
}
