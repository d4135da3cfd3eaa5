//! The loops of a kernel, whatever the device.

use super::cpu::CpuNest;
use super::gpu::GpuNest;

/// The loops of a kernel, by the kind of device.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Nest {
    Gpu(GpuNest),
    Cpu(CpuNest),
    /// Not known: no knobs, or those of an unknown template.
    None,
}
