//! TVM's runtime alone, in a process of its own: what a program needs that runs kernels compiled elsewhere.

use tvm_bridge::{DType, Device, Libraries, Target, Tensor};

#[test]
fn tensors_need_the_runtime_alone_and_the_compiler_loads_later() {
    let runtime = Libraries::load_runtime().unwrap();
    let loaded = || std::fs::read_to_string("/proc/self/maps").unwrap();
    assert!(loaded().contains("libtvm_runtime.so") && !loaded().contains("libtvm_compiler.so"));

    assert!(Device::cpu().exists().unwrap());
    let tensor = Tensor::from_bytes(Device::cpu(), &[4], DType::UInt8, &[1, 2, 3, 4]).unwrap();
    assert_eq!(&*tensor.duplicate().unwrap().bytes().unwrap(), [1, 2, 3, 4]);
    assert!(!loaded().contains("libtvm_compiler.so"));

    Target::llvm("x86-64-v3", 1).unwrap();
    assert!(loaded().contains("libtvm_compiler.so"));
    assert_eq!(
        Libraries::load().unwrap().site_packages(),
        runtime.site_packages()
    );
}
