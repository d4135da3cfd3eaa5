//! Default schedules of reductions to one number, which have no spatial loop to tile or to run in parallel.

use opengine::device::{self, Opening};
use opengine::schedule::default_schedule;
use tvm_bridge::compile::{Asserts, compile};
use tvm_bridge::{DType, Device, PrimFunc, Tensor};

#[test]
fn the_sum_of_a_tensor_has_a_default_schedule_that_computes_it() {
    let json = include_str!("../../tvm/tests/fixtures/total.json");
    let function = PrimFunc::from_json(json).unwrap();
    let cpu = tvm_bridge::target::host_cpu().unwrap();
    let dictionary = serde_json::json!({ "kind": "llvm", "mcpu": cpu, "num-cores": 1 });
    let session = device::HOST
        .open(&Opening::measuring(dictionary, 1))
        .unwrap();
    let scheduled = default_schedule(&function, &*session.templates(), 1).unwrap();
    let module = scheduled.schedule.module().unwrap();
    let compiled = compile(&module, session.target(), Asserts::Kept).unwrap();

    let ones: Vec<u8> = 1f32.to_le_bytes().repeat(64 * 64);
    let tensors = [
        Tensor::from_bytes(Device::cpu(), &[64, 64], DType::Float32, &ones).unwrap(),
        Tensor::zeros(Device::cpu(), &[], DType::Float32).unwrap(),
    ];
    let kernel = compiled.module.function(tvm_bridge::ir::ENTRY).unwrap();
    kernel.bind(&tensors).call().unwrap();
    assert_eq!(&*tensors[1].bytes().unwrap(), 4096f32.to_le_bytes());
}
