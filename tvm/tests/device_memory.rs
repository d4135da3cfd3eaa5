//! Tensors in the memory of another device, in a process of its own: the host's memory under the name of a CUDA device.

use std::borrow::Cow;

use tvm_bridge::{DType, Device, DeviceKind, Libraries, Tensor};

#[test]
fn tensors_travel_between_devices() {
    Libraries::load_runtime().unwrap();
    let device = Device::first(DeviceKind::Cuda);
    assert!(
        !device.exists().unwrap(),
        "TVM's CUDA runtime is not loaded here"
    );
    // TVM finds a device by the function that returns its interface.
    let host = tvm_ffi::Function::get_global("device_api.cpu").unwrap();
    tvm_ffi::Function::register_global("device_api.cuda", host).unwrap();
    assert!(device.exists().unwrap());

    let bytes: Vec<u8> = (0..24).collect();
    let there = Tensor::from_bytes(device, &[2, 3], DType::Float32, &bytes).unwrap();
    assert_eq!((there.device(), there.shape()), (device, &[2, 3][..]));
    assert!(there.host_bytes().is_none(), "not to be read in place");
    assert!(matches!(there.bytes().unwrap(), Cow::Owned(copied) if copied == bytes));

    let back = there.clone().into_device(Device::cpu()).unwrap();
    assert!(matches!(back.bytes().unwrap(), Cow::Borrowed(found) if found == bytes));
    let zeros = Tensor::zeros(device, &[2, 3], DType::Float32).unwrap();
    assert_eq!(&*zeros.bytes().unwrap(), [0; 24]);
    zeros.copy_from(&there).unwrap();
    assert_eq!(zeros.duplicate().unwrap().bytes().unwrap(), bytes);
}
