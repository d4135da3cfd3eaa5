//! NVIDIA's libraries that come with a GPU's driver, opened at run time: the driver and the management library. The device
//! and the energy counter ask them.

pub(crate) mod driver;
pub(crate) mod dynamic;
pub(crate) mod nvml;
