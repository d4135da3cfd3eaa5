//! Status codes of CUDA's runtime, and the stream that its calls work on.

use std::ffi::{c_int, c_void};

/// `cudaError_t`.
pub(super) type Status = c_int;
/// `cudaStream_t`.
pub(super) type Stream = *mut c_void;

/// The stream that TVM starts kernels on by default.
pub(super) const DEFAULT_STREAM: Stream = std::ptr::null_mut();

/// A call of CUDA's runtime failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{call} failed with CUDA's error {status}{}", words(*.status))]
pub(super) struct CudaError {
    call: &'static str,
    status: Status,
}

/// A description of an error that kernels cause (`cudaError_t` of the CUDA Runtime API), in brackets.
fn words(status: Status) -> &'static str {
    match status {
        2 => " (out of memory)",
        214 => " (an uncorrectable error of its memory)",
        700 => " (an illegal memory access)",
        702 => " (a kernel ran into the driver's time limit)",
        715 => " (an illegal instruction)",
        716 => " (a misaligned address)",
        719 => " (a kernel failed)",
        _ => "",
    }
}

pub(super) fn done(call: &'static str, status: Status) -> Result<(), CudaError> {
    match status {
        0 => Ok(()),
        status => Err(CudaError { call, status }),
    }
}
