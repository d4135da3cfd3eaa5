//! Element types of tensors: names, sizes and codes in DLPack.

use std::fmt;
use std::str::FromStr;

use tvm_ffi::{DLDataType, DLDataTypeCode};

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
    /// The upper half of a single-precision number.
    BFloat16,
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
    const ALL: [(DType, &'static str, DLDataTypeCode, u8); 13] = [
        (DType::Float32, "float32", DLDataTypeCode::kDLFloat, 32),
        (DType::Float64, "float64", DLDataTypeCode::kDLFloat, 64),
        (DType::Float16, "float16", DLDataTypeCode::kDLFloat, 16),
        (DType::BFloat16, "bfloat16", DLDataTypeCode::kDLBfloat, 16),
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

    pub(crate) fn dl(self) -> DLDataType {
        let (_, _, code, bits) = self.entry();
        DLDataType {
            code: code as u8,
            bits,
            lanes: 1,
        }
    }

    /// The type as TVM's functions take it.
    pub(crate) fn object(self) -> Obj {
        Obj(tvm_ffi::Any::from(self.dl()))
    }

    /// The type with this code in DLPack. `None` for vectors.
    pub(crate) fn from_dl(dl: DLDataType) -> Option<DType> {
        Self::ALL
            .iter()
            .find(|e| e.2 as u8 == dl.code && e.3 == dl.bits && dl.lanes == 1)
            .map(|e| e.0)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_type_reads_back_from_its_name_and_its_code() {
        for (dtype, name, _, bits) in DType::ALL {
            assert_eq!(name.parse::<DType>().unwrap(), dtype);
            assert_eq!(DType::from_dl(dtype.dl()), Some(dtype));
            assert_eq!(dtype.to_string(), name);
            assert_eq!(dtype.bytes() * 8, usize::from(bits));
        }
    }
}
