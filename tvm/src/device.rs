//! Devices as TVM and DLPack number them: where a tensor lies and where a kernel runs.
//!
//! Only kinds and numbers are decided here; whether this machine has the device is asked of TVM's runtime
//! ([`Device::exists`]). A device behind an RPC session has a code beyond DLPack's: that of its kind and its session's number
//! in one.

use std::fmt;
use std::str::FromStr;

use tvm_ffi::tvm_ffi_sys::{TVMFFIAny, TVMFFIAnyDataUnion, TVMFFITypeIndex};
use tvm_ffi::{Any, DLDevice, DLDeviceType};

use crate::call::{Obj, call, int, value};
use crate::error::{Error, Result};
use crate::libs::Libraries;

/// A kind of device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum DeviceKind {
    /// The processor that this program runs on.
    Cpu,
    /// NVIDIA GPUs.
    Cuda,
    /// Devices of an OpenCL platform.
    OpenCl,
    /// GPUs through Vulkan.
    Vulkan,
    /// Apple GPUs.
    Metal,
    /// AMD GPUs.
    Rocm,
    /// Accelerators with a runtime of their own, such as VTA.
    ExtDev,
    /// GPUs through WebGPU.
    WebGpu,
    /// Qualcomm DSPs.
    Hexagon,
}

impl DeviceKind {
    /// Every kind with its name in TVM and its code in DLPack.
    const ALL: [(DeviceKind, &'static str, DLDeviceType); 9] = [
        (DeviceKind::Cpu, "cpu", DLDeviceType::kDLCPU),
        (DeviceKind::Cuda, "cuda", DLDeviceType::kDLCUDA),
        (DeviceKind::OpenCl, "opencl", DLDeviceType::kDLOpenCL),
        (DeviceKind::Vulkan, "vulkan", DLDeviceType::kDLVulkan),
        (DeviceKind::Metal, "metal", DLDeviceType::kDLMetal),
        (DeviceKind::Rocm, "rocm", DLDeviceType::kDLROCM),
        (DeviceKind::ExtDev, "ext_dev", DLDeviceType::kDLExtDev),
        (DeviceKind::WebGpu, "webgpu", DLDeviceType::kDLWebGPU),
        (DeviceKind::Hexagon, "hexagon", DLDeviceType::kDLHexagon),
    ];

    fn entry(self) -> (DeviceKind, &'static str, DLDeviceType) {
        // The table lists every variant; a test holds it to that.
        Self::ALL
            .into_iter()
            .find(|e| e.0 == self)
            .unwrap_or(Self::ALL[0])
    }

    /// The name in TVM, for example `cuda`.
    pub fn name(self) -> &'static str {
        self.entry().1
    }

    /// The code in DLPack.
    pub fn code(self) -> i64 {
        self.entry().2 as i64
    }

    /// The kind with this DLPack code.
    pub fn from_code(code: i64) -> Option<DeviceKind> {
        Self::ALL.iter().find(|e| e.2 as i64 == code).map(|e| e.0)
    }

    /// Whether this program can read and write the device's memory directly, and start its kernels by a plain call.
    pub fn is_host(self) -> bool {
        self == DeviceKind::Cpu
    }
}

impl fmt::Display for DeviceKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for DeviceKind {
    type Err = Error;

    fn from_str(name: &str) -> Result<DeviceKind> {
        Self::ALL
            .iter()
            .find(|e| e.1 == name)
            .map(|e| e.0)
            .ok_or_else(|| {
                Error::unexpected("device", format!("`{name}` is not a device of TVM's"))
            })
    }
}

/// TVM's function for attributes of devices.
const ATTRIBUTE: &str = "runtime.GetDeviceAttr";
/// `kRPCSessMask` of TVM's runtime: a session's devices are numbered from its multiple on.
const SESSION: i64 = 128;

/// One device of this machine, or of another one behind a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Device {
    /// The kind of device.
    pub kind: DeviceKind,
    /// Its number among those of its kind, from 0.
    pub id: i32,
    /// The number of the RPC session that it is behind; none on this machine.
    pub session: Option<i32>,
}

impl Device {
    /// The processor that this program runs on.
    pub const fn cpu() -> Device {
        Device::first(DeviceKind::Cpu)
    }

    /// The first device of a kind.
    pub const fn first(kind: DeviceKind) -> Device {
        Device {
            kind,
            id: 0,
            session: None,
        }
    }

    /// Whether this program can read and write the device's memory directly, and start its kernels by a plain call.
    pub fn is_host(self) -> bool {
        self.kind.is_host() && self.session.is_none()
    }

    /// TVM's number for it.
    pub(crate) fn code(self) -> i64 {
        let session = self.session.map_or(0, |session| i64::from(session) + 1);
        self.kind.code() + session * SESSION
    }

    /// Whether TVM's runtime, as loaded, can reach the device.
    ///
    /// # Errors
    /// Fails if TVM cannot be loaded.
    pub fn exists(self) -> Result<bool> {
        /// `DeviceAttrKind::kExist` of TVM's runtime.
        const EXISTS: i64 = 0;
        Ok(value::<i64>(ATTRIBUTE, self.attribute(EXISTS)?)? != 0)
    }

    /// Its compute version, as in `8.0` for a GPU of sm_80.
    ///
    /// # Errors
    /// Fails if the device is missing, or if it has no such version.
    pub fn compute_version(self) -> Result<String> {
        /// `DeviceAttrKind::kComputeVersion` of TVM's runtime.
        const COMPUTE_VERSION: i64 = 4;
        self.attribute_text(COMPUTE_VERSION)
    }

    /// The manufacturer's name for it.
    ///
    /// # Errors
    /// Fails if the device is missing, or has no name.
    pub fn name(self) -> Result<String> {
        /// `DeviceAttrKind::kDeviceName` of TVM's runtime.
        const DEVICE_NAME: i64 = 5;
        self.attribute_text(DEVICE_NAME)
    }

    fn attribute_text(self, which: i64) -> Result<String> {
        let text: tvm_ffi::String = value(ATTRIBUTE, self.attribute(which)?)?;
        Ok(text.as_str().to_owned())
    }

    fn attribute(self, which: i64) -> Result<Obj> {
        Libraries::load_runtime()?;
        call(
            ATTRIBUTE,
            &[&int(self.code()), &int(self.id.into()), &int(which)],
        )
    }

    /// Waits until everything that was started on the device has ended.
    ///
    /// # Errors
    /// Fails if the device is missing, or what it ran has failed.
    pub fn synchronize(self) -> Result<()> {
        /// The default stream.
        const STREAM: i64 = 0;
        call("runtime.Device_StreamSync", &[&self.obj(), &int(STREAM)]).map(drop)
    }

    pub(crate) fn dl(self) -> DLDevice {
        DLDevice::new(self.kind.entry().2, self.id)
    }

    pub(crate) fn obj(self) -> Obj {
        // Codes of sessions are no values of `DLDeviceType`, so the number itself is laid out: type, then id.
        let bits = (self.id as u32 as u64) << 32 | self.code() as u64;
        let any = TVMFFIAny {
            type_index: TVMFFITypeIndex::kTVMFFIDevice as i32,
            small_str_len: 0,
            data_union: TVMFFIAnyDataUnion { v_uint64: bits },
        };
        // SAFETY: a device is a plain value of two 32-bit numbers, which these bits are; there is no object to count.
        Obj(unsafe { Any::from_raw_ffi_any(any) })
    }

    /// The device with TVM's code for its kind, and its number among those.
    pub(crate) fn from_code(code: i64, id: i32) -> Option<Device> {
        let session = i32::try_from(code / SESSION).ok()?;
        Some(Device {
            kind: DeviceKind::from_code(code % SESSION)?,
            id,
            session: (session > 0).then(|| session - 1),
        })
    }
}

impl fmt::Display for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.session {
            None => write!(f, "{}({})", self.kind, self.id),
            Some(session) => write!(f, "remote[{session}]:{}({})", self.kind, self.id),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_reads_back_from_its_name_and_its_code() {
        for (kind, name, code) in DeviceKind::ALL {
            assert_eq!(name.parse::<DeviceKind>().unwrap(), kind);
            assert_eq!(DeviceKind::from_code(code as i64), Some(kind));
            assert_eq!((kind.name(), kind.code()), (name, code as i64));
        }
        assert!("gpu".parse::<DeviceKind>().is_err());
        assert_eq!(
            Device {
                id: 1,
                ..Device::first(DeviceKind::Cuda)
            }
            .to_string(),
            "cuda(1)"
        );
    }

    #[test]
    fn devices_of_sessions_read_back_from_their_numbers() {
        for session in [None, Some(0), Some(3)] {
            let device = Device {
                session,
                ..Device::first(DeviceKind::Cuda)
            };
            assert_eq!(Device::from_code(device.code(), 0), Some(device));
            assert!(!device.is_host());
        }
        let remote = Device {
            session: Some(1),
            ..Device::cpu()
        };
        assert_eq!((remote.code(), remote.is_host()), (257, false));
        assert_eq!(remote.to_string(), "remote[1]:cpu(0)");
    }

    #[test]
    fn the_processor_is_always_there_and_a_device_without_its_runtime_never() {
        assert!(Device::cpu().exists().unwrap());
        assert!(!Device::first(DeviceKind::Metal).exists().unwrap());
    }
}
