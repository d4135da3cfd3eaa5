//! Tensors in CPU memory, 64-byte aligned and contiguous, and their element types.

use std::alloc::Layout;
use std::fmt;
use std::str::FromStr;

use tvm_ffi::collections::tensor::DLTensorExt;
use tvm_ffi::tvm_ffi_sys::dlpack::DLTensor;
use tvm_ffi::{DLDataType, DLDataTypeCode, DLDevice, DLDeviceType};

use crate::call::Obj;
use crate::error::{Error, Result};

/// An element type.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum DType {
    /// IEEE 754 single precision.
    Float32,
    /// IEEE 754 double precision.
    Float64,
    /// IEEE 754 half precision.
    Float16,
    /// Signed 8-bit integer.
    Int8,
    /// Signed 16-bit integer.
    Int16,
    /// Signed 32-bit integer.
    Int32,
    /// Signed 64-bit integer.
    Int64,
    /// Unsigned 8-bit integer.
    UInt8,
    /// Unsigned 16-bit integer.
    UInt16,
    /// Unsigned 32-bit integer.
    UInt32,
    /// Unsigned 64-bit integer.
    UInt64,
    /// Truth value, one byte.
    Bool,
}

impl DType {
    const ALL: [(DType, &'static str, DLDataTypeCode, u8); 12] = [
        (DType::Float32, "float32", DLDataTypeCode::kDLFloat, 32),
        (DType::Float64, "float64", DLDataTypeCode::kDLFloat, 64),
        (DType::Float16, "float16", DLDataTypeCode::kDLFloat, 16),
        (DType::Int8, "int8", DLDataTypeCode::kDLInt, 8),
        (DType::Int16, "int16", DLDataTypeCode::kDLInt, 16),
        (DType::Int32, "int32", DLDataTypeCode::kDLInt, 32),
        (DType::Int64, "int64", DLDataTypeCode::kDLInt, 64),
        (DType::UInt8, "uint8", DLDataTypeCode::kDLUInt, 8),
        (DType::UInt16, "uint16", DLDataTypeCode::kDLUInt, 16),
        (DType::UInt32, "uint32", DLDataTypeCode::kDLUInt, 32),
        (DType::UInt64, "uint64", DLDataTypeCode::kDLUInt, 64),
        (DType::Bool, "bool", DLDataTypeCode::kDLBool, 8),
    ];

    fn entry(self) -> (DType, &'static str, DLDataTypeCode, u8) {
        // The table lists every variant; a test holds it to that.
        Self::ALL
            .into_iter()
            .find(|e| e.0 == self)
            .unwrap_or(Self::ALL[0])
    }

    /// Bytes of one element.
    pub fn bytes(self) -> usize {
        usize::from(self.entry().3) / 8
    }

    fn dl(self) -> DLDataType {
        let (_, _, code, bits) = self.entry();
        DLDataType {
            code: code as u8,
            bits,
            lanes: 1,
        }
    }
}

impl fmt::Display for DType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.entry().1)
    }
}

impl FromStr for DType {
    type Err = Error;

    fn from_str(s: &str) -> Result<DType> {
        Self::ALL
            .iter()
            .find(|e| e.1 == s)
            .map(|e| e.0)
            .ok_or_else(|| Error::unexpected("element type", format!("`{s}` is not supported")))
    }
}

/// A tensor; clones share the memory.
#[derive(Clone)]
pub struct Tensor {
    pub(crate) handle: tvm_ffi::Tensor,
    dtype: DType,
}

// SAFETY: tensors are counted atomically and their memory is plain bytes; the measuring code writes to a tensor from
// one thread at a time.
unsafe impl Send for Tensor {}

impl fmt::Debug for Tensor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Tensor({:?} {})", self.shape(), self.dtype)
    }
}

impl Tensor {
    /// A tensor of zeros.
    ///
    /// # Errors
    /// A dimension is negative, or there is not enough memory.
    pub fn zeros(shape: &[i64], dtype: DType) -> Result<Tensor> {
        let bytes = shape
            .iter()
            .try_fold(dtype.bytes(), |n, &d| {
                usize::try_from(d).ok().and_then(|d| n.checked_mul(d))
            })
            .filter(|&n| n <= isize::MAX as usize)
            .ok_or_else(|| {
                Error::unexpected(
                    "Tensor::zeros",
                    format!("shape {shape:?} is not one of memory"),
                )
            })?;
        let device = DLDevice::new(DLDeviceType::kDLCPU, 0);
        let handle = tvm_ffi::Tensor::from_nd_alloc(ZeroedMemory, shape, dtype.dl(), device);
        if handle.data_ptr().is_null() {
            return Err(Error::unexpected(
                "Tensor::zeros",
                format!("no memory for {bytes} bytes (shape {shape:?})"),
            ));
        }
        Ok(Tensor { handle, dtype })
    }

    /// A tensor of the given bytes (little-endian elements in row-major order).
    ///
    /// # Errors
    /// The number of bytes is not that of the shape.
    pub fn from_bytes(shape: &[i64], dtype: DType, bytes: &[u8]) -> Result<Tensor> {
        let mut tensor = Tensor::zeros(shape, dtype)?;
        if tensor.bytes().len() != bytes.len() {
            let reason = format!("{} bytes for shape {shape:?} of {dtype}", bytes.len());
            return Err(Error::unexpected("Tensor::from_bytes", reason));
        }
        tensor.bytes_mut().copy_from_slice(bytes);
        Ok(tensor)
    }

    /// Extents of the dimensions.
    pub fn shape(&self) -> &[i64] {
        self.handle.shape()
    }

    /// Element type.
    pub fn dtype(&self) -> DType {
        self.dtype
    }

    /// Number of elements.
    pub fn len(&self) -> usize {
        self.handle.numel()
    }

    /// Whether there is no element.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The elements as bytes.
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: the tensor is contiguous and owns `len × bytes` bytes for as long as `self` lives.
        unsafe {
            std::slice::from_raw_parts(
                self.handle.data_ptr().cast(),
                self.len() * self.dtype.bytes(),
            )
        }
    }

    /// The elements as bytes, to be written. Clones see the change.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `bytes`; kernels, the only other writers, are called from the thread that holds the tensors.
        unsafe {
            std::slice::from_raw_parts_mut(
                self.handle.data_ptr_mut().cast(),
                self.len() * self.dtype.bytes(),
            )
        }
    }

    pub(crate) fn from_obj(object: &Obj) -> Option<Tensor> {
        let handle: tvm_ffi::Tensor = object.0.try_as()?;
        let dl = handle.dtype();
        let dtype = DType::ALL
            .iter()
            .find(|e| e.2 as u8 == dl.code && e.3 == dl.bits && dl.lanes == 1)?
            .0;
        (handle.device().device_type == DLDeviceType::kDLCPU && handle.is_contiguous())
            .then_some(Tensor { handle, dtype })
    }
}

/// Zeroed memory at the alignment that TVM's generated code assumes.
///
/// Must stay without fields: `tvm-ffi` 0.1.14 places a tensor's header after the allocator if that has a size.
struct ZeroedMemory;

impl ZeroedMemory {
    const ALIGNMENT: usize = 64;

    fn layout(tensor: &DLTensor) -> Option<Layout> {
        Layout::from_size_align(
            (tensor.numel() * tensor.item_size()).max(1),
            Self::ALIGNMENT,
        )
        .ok()
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

    #[test]
    fn every_type_reads_back_from_its_name() {
        for (dtype, name, _, bits) in DType::ALL {
            assert_eq!(name.parse::<DType>().unwrap(), dtype);
            assert_eq!(dtype.to_string(), name);
            assert_eq!(dtype.bytes() * 8, usize::from(bits));
        }
    }

    #[test]
    fn bytes_round_trip() {
        let bytes: Vec<u8> = (0..24).collect();
        let tensor = Tensor::from_bytes(&[2, 3], DType::Float32, &bytes).unwrap();
        assert_eq!(tensor.bytes(), bytes);
        assert!((tensor.bytes().as_ptr() as usize).is_multiple_of(64));
        assert!(Tensor::from_bytes(&[2, 2], DType::Float32, &bytes).is_err());
        assert!(Tensor::zeros(&[2, -1], DType::Float32).is_err());
    }
}
