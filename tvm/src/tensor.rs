//! Tensors on any device: contiguous, in row-major order.
//!
//! Memory of the host is allocated here, zeroed and 64-byte aligned as generated code assumes; that of other devices by
//! TVM's runtime. Host memory is read and written in place ([`Tensor::host_bytes`]); everything else is copied.

use std::alloc::Layout;
use std::borrow::Cow;
use std::fmt;

use tvm_ffi::collections::tensor::DLTensorExt;
use tvm_ffi::tvm_ffi_sys::dlpack::DLTensor;
use tvm_ffi::{Any, AnyView, ObjectRefCore};

use crate::call::{Obj, call, int, none};
use crate::device::Device;
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::libs::Libraries;

/// A tensor; clones share the memory.
#[derive(Clone)]
pub struct Tensor {
    pub(crate) handle: tvm_ffi::Tensor,
    dtype: DType,
    device: Device,
}

// SAFETY: tensors are counted atomically and their memory is plain bytes; the measuring code writes to a tensor from
// one thread at a time.
unsafe impl Send for Tensor {}

impl fmt::Debug for Tensor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "Tensor({:?} {} {})",
            self.shape(),
            self.dtype,
            self.device
        )
    }
}

impl Tensor {
    /// A tensor of zeros on `device`.
    ///
    /// # Errors
    /// Fails if a dimension is negative, there is not enough memory, or the device is missing.
    pub fn zeros(device: Device, shape: &[i64], dtype: DType) -> Result<Tensor> {
        let tensor = Tensor::uninit(device, shape, dtype)?;
        if !device.is_host() {
            let zeros = Tensor::uninit(Device::cpu(), shape, dtype)?;
            tensor.copy_from(&zeros)?;
        }
        Ok(tensor)
    }

    /// A tensor on `device` of the given bytes (little-endian elements in row-major order).
    ///
    /// # Errors
    /// Fails if the number of bytes is not that of the shape, or as [`Tensor::zeros`] does.
    pub fn from_bytes(device: Device, shape: &[i64], dtype: DType, bytes: &[u8]) -> Result<Tensor> {
        let mut host = Tensor::uninit(Device::cpu(), shape, dtype)?;
        match host.host_bytes_mut() {
            Some(place) if place.len() == bytes.len() => place.copy_from_slice(bytes),
            _ => {
                let reason = format!("{} bytes for shape {shape:?} of {dtype}", bytes.len());
                return Err(Error::unexpected("Tensor::from_bytes", reason));
            }
        }
        host.into_device(device)
    }

    /// An argument of a call, if it is a tensor of a type that is known here.
    pub(crate) fn of_argument(value: &AnyView<'_>) -> Option<Tensor> {
        let handle: tvm_ffi::Tensor = value.try_as()?;
        Some(Tensor {
            dtype: DType::from_dl(handle.dtype())?,
            device: device_of(&handle)?,
            handle,
        })
    }

    /// The same values on `device`: this tensor itself where it lies there already, else a copy.
    ///
    /// # Errors
    /// Fails as [`Tensor::zeros`] does, or if the copy fails.
    pub fn into_device(self, device: Device) -> Result<Tensor> {
        if device == self.device {
            return Ok(self);
        }
        let there = Tensor::uninit(device, self.shape(), self.dtype)?;
        there.copy_from(&self)?;
        Ok(there)
    }

    /// A copy in memory of its own, on the same device.
    ///
    /// # Errors
    /// Fails if there is not enough memory.
    pub fn duplicate(&self) -> Result<Tensor> {
        let copy = Tensor::uninit(self.device, self.shape(), self.dtype)?;
        copy.copy_from(self)?;
        Ok(copy)
    }

    /// The same memory, or the beginning of it, as a tensor of another shape and type.
    ///
    /// # Errors
    /// Fails if it has fewer bytes.
    pub fn view(&self, shape: &[i64], dtype: DType) -> Result<Tensor> {
        const NAME: &str = "runtime.TVMTensorCreateView";
        Libraries::load_runtime()?;
        let extents: Vec<Obj> = shape.iter().map(|&d| int(d)).collect();
        let shape = call("ffi.Shape", &extents.iter().collect::<Vec<_>>())?;
        let own = dtype.object();
        let view = call(NAME, &[&self.obj(), &shape, &own, &int(0)])?;
        Tensor::from_obj(&view).ok_or_else(|| Error::unexpected(NAME, "no tensor"))
    }

    /// Overwrites this tensor's values with those of `source`, from any device; waits for the end of the copy.
    ///
    /// # Errors
    /// Fails if shapes or types differ, or the runtime cannot copy between the two devices.
    pub fn copy_from(&self, source: &Tensor) -> Result<()> {
        const NAME: &str = "runtime.TVMTensorCopyFromTo";
        if (self.shape(), self.dtype) != (source.shape(), source.dtype) {
            return Err(Error::unexpected(NAME, format!("{source:?} into {self:?}")));
        }
        Libraries::load_runtime()?;
        call(NAME, &[&source.obj(), &self.obj()])?;
        [self.device, source.device]
            .iter()
            .filter(|device| !device.is_host())
            .try_for_each(|device| device.synchronize())
    }

    /// Extents of the dimensions.
    pub fn shape(&self) -> &[i64] {
        self.handle.shape()
    }

    /// Element type.
    pub fn dtype(&self) -> DType {
        self.dtype
    }

    /// The device that holds the tensor.
    pub fn device(&self) -> Device {
        self.device
    }

    /// Number of elements.
    pub fn len(&self) -> usize {
        self.handle.numel()
    }

    /// Whether there is no element.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes of all elements.
    pub fn size_bytes(&self) -> usize {
        self.len() * self.dtype.bytes()
    }

    /// The elements as bytes: in place where the tensor lies on the host, else copied from its device.
    ///
    /// # Errors
    /// Fails if the copy fails.
    pub fn bytes(&self) -> Result<Cow<'_, [u8]>> {
        if let Some(bytes) = self.host_bytes() {
            return Ok(Cow::Borrowed(bytes));
        }
        let host = self.clone().into_device(Device::cpu())?;
        Ok(Cow::Owned(host.host_bytes().unwrap_or_default().to_vec()))
    }

    /// The elements as bytes, in place. `None` for a tensor on another device than the host.
    pub fn host_bytes(&self) -> Option<&[u8]> {
        // SAFETY: the tensor is contiguous and owns `size_bytes` bytes of host memory for as long as `self` lives.
        self.device.is_host().then(|| unsafe {
            std::slice::from_raw_parts(self.handle.data_ptr().cast(), self.size_bytes())
        })
    }

    /// The elements as bytes, to be written in place. `None` for a tensor on another device than the host. Clones see
    /// the change.
    pub fn host_bytes_mut(&mut self) -> Option<&mut [u8]> {
        let bytes = self.size_bytes();
        // SAFETY: as in `host_bytes`; kernels, the only other writers, are called from the thread that holds the tensors.
        self.device.is_host().then(|| unsafe {
            std::slice::from_raw_parts_mut(self.handle.data_ptr_mut().cast(), bytes)
        })
    }

    /// Memory of the host is zeroed, that of other devices as it was found.
    fn uninit(device: Device, shape: &[i64], dtype: DType) -> Result<Tensor> {
        const NAME: &str = "Tensor::zeros";
        let bytes = shape
            .iter()
            .try_fold(dtype.bytes(), |n, &d| {
                usize::try_from(d).ok().and_then(|d| n.checked_mul(d))
            })
            .filter(|&n| n <= isize::MAX as usize)
            .ok_or_else(|| {
                Error::unexpected(NAME, format!("shape {shape:?} is not one of memory"))
            })?;
        let handle = if device.is_host() {
            tvm_ffi::Tensor::from_nd_alloc(ZeroedMemory, shape, dtype.dl(), device.dl())
        } else {
            on_device(device, shape, dtype)?
        };
        if device.is_host() && handle.data_ptr().is_null() {
            let reason = format!("no memory for {bytes} bytes (shape {shape:?})");
            return Err(Error::unexpected(NAME, reason));
        }
        Ok(Tensor {
            handle,
            dtype,
            device,
        })
    }

    pub(crate) fn obj(&self) -> Obj {
        Obj(Any::from(self.handle.clone()))
    }

    /// The tensor in a value of TVM's. `None` for other values, strided tensors, and unknown types or devices.
    pub(crate) fn from_obj(object: &Obj) -> Option<Tensor> {
        let handle: tvm_ffi::Tensor = object.0.try_as()?;
        let dtype = DType::from_dl(handle.dtype())?;
        let device = device_of(&handle)?;
        handle.is_contiguous().then_some(Tensor {
            handle,
            dtype,
            device,
        })
    }
}

/// The device that holds a tensor.
fn device_of(handle: &tvm_ffi::Tensor) -> Option<Device> {
    /// A tensor in memory is an object's header, then DLPack's structure.
    const DEVICE: usize =
        std::mem::size_of::<tvm_ffi::Object>() + std::mem::offset_of!(DLTensor, device);
    let object: *const tvm_ffi::collections::tensor::TensorObj = &**ObjectRefCore::data(handle);
    // SAFETY: the structure lives as long as the tensor. A device is two 32-bit numbers. Its type is read as a number,
    // because types of sessions are not variants of `DLDeviceType`.
    let [code, id] = unsafe { object.byte_add(DEVICE).cast::<[i32; 2]>().read() };
    Device::from_code(code.into(), id)
}

/// Memory of a device other than the host, from TVM's runtime.
fn on_device(device: Device, shape: &[i64], dtype: DType) -> Result<tvm_ffi::Tensor> {
    const NAME: &str = "runtime.TVMTensorAllocWithScope";
    if !device.exists()? {
        return Err(Error::NoDevice {
            device: device.to_string(),
        });
    }
    let extents: Vec<Obj> = shape.iter().map(|&d| int(d)).collect();
    let shape = call("ffi.Shape", &extents.iter().collect::<Vec<_>>())?;
    let dtype = dtype.object();
    let allocated = call(NAME, &[&shape, &dtype, &device.obj(), &none()])?;
    allocated
        .0
        .try_as()
        .ok_or_else(|| Error::unexpected(NAME, "no tensor"))
}

/// Zeroed memory at the alignment that TVM's generated code assumes.
///
/// Must stay without fields: `tvm-ffi` 0.1.14 places a tensor's header after the allocator if that has a size.
struct ZeroedMemory;

impl ZeroedMemory {
    const ALIGNMENT: usize = 64;

    /// Whole cache lines: what else is allocated there would slow down kernels that run on other cores.
    fn layout(tensor: &DLTensor) -> Option<Layout> {
        let bytes = (tensor.numel() * tensor.item_size()).max(1);
        let lines = bytes.checked_next_multiple_of(Self::ALIGNMENT)?;
        Layout::from_size_align(lines, Self::ALIGNMENT).ok()
    }
}

// SAFETY: `alloc_data` returns a block of the tensor's size or null, and `free_data` frees it with the same layout, once,
// when the tensor object dies.
unsafe impl tvm_ffi::NDAllocator for ZeroedMemory {
    const MIN_ALIGN: usize = Self::ALIGNMENT;

    unsafe fn alloc_data(&mut self, prototype: &DLTensor) -> *mut core::ffi::c_void {
        // SAFETY: the layout has a size of at least one byte.
        Self::layout(prototype)
            .map_or(std::ptr::null_mut(), |l| unsafe {
                std::alloc::alloc_zeroed(l)
            })
            .cast()
    }

    unsafe fn free_data(&mut self, tensor: &DLTensor) {
        if let (false, Some(layout)) = (tensor.data.is_null(), Self::layout(tensor)) {
            // SAFETY: allocated by `alloc_data` with this layout and not freed before.
            unsafe { std::alloc::dealloc(tensor.data.cast(), layout) }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::DeviceKind;

    #[test]
    fn bytes_round_trip() {
        let bytes: Vec<u8> = (0..24).collect();
        let cpu = Device::cpu();
        let tensor = Tensor::from_bytes(cpu, &[2, 3], DType::Float32, &bytes).unwrap();
        assert_eq!(&*tensor.bytes().unwrap(), bytes);
        let address = tensor.host_bytes().unwrap().as_ptr() as usize;
        assert!(address.is_multiple_of(64));
        assert!(Tensor::from_bytes(cpu, &[2, 2], DType::Float32, &bytes).is_err());
        assert!(Tensor::zeros(cpu, &[2, -1], DType::Float32).is_err());
    }

    #[test]
    fn a_duplicate_has_memory_of_its_own_and_a_move_within_a_device_none() {
        let bytes = [1, 2, 3, 4];
        let tensor = Tensor::from_bytes(Device::cpu(), &[4], DType::UInt8, &bytes).unwrap();
        let address = |t: &Tensor| t.host_bytes().unwrap().as_ptr();
        let mut copy = tensor.duplicate().unwrap();
        copy.host_bytes_mut().unwrap()[0] = 9;
        assert_eq!(&*tensor.bytes().unwrap(), bytes);
        assert_eq!(&*copy.bytes().unwrap(), [9, 2, 3, 4]);
        let moved = tensor.clone().into_device(Device::cpu()).unwrap();
        assert_eq!(address(&moved), address(&tensor));
        let other = Tensor::zeros(Device::cpu(), &[2], DType::UInt8).unwrap();
        assert!(other.copy_from(&tensor).is_err());
    }

    #[test]
    fn a_view_shares_memory_and_is_never_larger() {
        let tensor = Tensor::from_bytes(Device::cpu(), &[8], DType::UInt8, &[7; 8]).unwrap();
        let mut view = tensor.view(&[1, 1], DType::Float32).unwrap();
        assert_eq!((view.shape(), view.dtype()), (&[1, 1][..], DType::Float32));
        view.host_bytes_mut().unwrap().fill(1);
        assert_eq!(&*tensor.bytes().unwrap(), [1, 1, 1, 1, 7, 7, 7, 7]);
        assert!(tensor.view(&[3], DType::Float32).is_err());
    }

    #[test]
    fn a_device_that_is_not_here_is_refused_by_name() {
        let device = Device::first(DeviceKind::Metal);
        let error = Tensor::zeros(device, &[4], DType::Float32).unwrap_err();
        assert!(error.to_string().contains("metal(0)"), "{error}");
    }
}
