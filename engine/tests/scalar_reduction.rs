//! Default schedules of reductions to one number, which have no spatial loop to tile or to run in parallel.

use opengine::device::cpu::templates;
use opengine::schedule::default_schedule;
use opmodels::tile::VectorUnit;
use tvm_bridge::compile::{Asserts, compile};
use tvm_bridge::{DType, Device, PrimFunc, Target, Tensor};

#[test]
fn the_sum_of_a_tensor_has_a_default_schedule_that_computes_it() {
    let json = include_str!("../../tvm/tests/fixtures/total.json");
    let function = PrimFunc::from_json(json).unwrap();
    let templates = templates(VectorUnit::of_width(256, true));
    let scheduled = default_schedule(&function, templates.as_ref(), 1).unwrap();
    let target = Target::llvm(&tvm_bridge::target::host_cpu().unwrap(), 1).unwrap();
    let module = scheduled.schedule.module().unwrap();
    let compiled = compile(&module, &target, Asserts::Kept).unwrap();

    let ones: Vec<u8> = 1f32.to_le_bytes().repeat(64 * 64);
    let tensors = [
        Tensor::from_bytes(Device::cpu(), &[64, 64], DType::Float32, &ones).unwrap(),
        Tensor::zeros(Device::cpu(), &[], DType::Float32).unwrap(),
    ];
    let kernel = compiled.module.function(tvm_bridge::ir::ENTRY).unwrap();
    kernel.bind(&tensors).call().unwrap();
    assert_eq!(&*tensors[1].bytes().unwrap(), 4096f32.to_le_bytes());
}
