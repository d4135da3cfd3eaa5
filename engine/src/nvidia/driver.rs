//! NVIDIA's driver and its description of the GPUs, without CUDA's runtime and without TVM.
//!
//! It is asked once a process, and only where a target or `doctor` is about GPUs.

use std::ffi::{CStr, CString, c_char, c_int};
use std::path::Path;
use std::sync::OnceLock;

use super::dynamic::Library;

/// A GPU.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Gpu {
    /// Its name, e.g. `NVIDIA H200`.
    pub name: String,
    /// Compute capability times ten.
    pub capability: u32,
    /// Its multiprocessors; for a slice, those of the slice.
    pub multiprocessors: u32,
    /// Its place on the PCI bus, by which NVML knows it.
    pub bus_id: CString,
}

impl Gpu {
    /// Its architecture, e.g. `sm_90`.
    pub fn arch(&self) -> String {
        format!("sm_{}", self.capability)
    }
}

/// The driver and its GPUs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Driver {
    /// The newest CUDA that it runs, major and minor.
    pub cuda: (i32, i32),
    /// The machine's GPUs, at least one.
    pub gpus: Vec<Gpu>,
}

impl Driver {
    /// The first GPU, the number of equal ones, and the names of the others, which are not used.
    pub fn words(&self) -> String {
        let alike = self.like_the_first();
        let mut words = self.gpus[0].name.clone();
        if alike.len() > 1 {
            words = format!("{} {words}", alike.len());
        }
        let others = (0u32..).zip(&self.gpus).filter(|(i, _)| !alike.contains(i));
        let others: Vec<&str> = others.map(|(_, gpu)| gpu.name.as_str()).collect();
        match others.is_empty() {
            true => words,
            false => format!("{words} (not measured on: {})", others.join(", ")),
        }
    }

    /// Numbers of the GPUs that are equal to the first one, so that their rows may be mixed.
    pub fn like_the_first(&self) -> Vec<u32> {
        let key = |gpu: &Gpu| (gpu.name.clone(), gpu.capability);
        let alike = |(_, gpu): &(u32, &Gpu)| key(gpu) == key(&self.gpus[0]);
        (0..)
            .zip(&self.gpus)
            .filter(alike)
            .map(|(i, _)| i)
            .collect()
    }
}

/// Variable that says which GPUs a process sees, and in which order.
const VISIBLE: &str = "CUDA_VISIBLE_DEVICES";

/// Makes one GPU, by its number among those visible to the process, the only visible one: for the driver, CUDA's
/// runtime and TVM. Call it before any of them is used.
pub(crate) fn choose(number: u32) {
    let listed = std::env::var(VISIBLE).ok();
    // SAFETY: a worker calls this while it is set up, before it starts a thread or loads a library that does.
    unsafe { std::env::set_var(VISIBLE, chosen(listed.as_deref(), number)) };
}

/// The entry of a list of GPUs at a place; without a list, the place itself.
fn chosen(listed: Option<&str>, number: u32) -> String {
    let entry = listed.and_then(|list| list.split(',').nth(number as usize));
    entry.map_or_else(|| number.to_string(), |entry| entry.trim().to_owned())
}

/// Why nothing can be run on a GPU.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum NoGpu {
    /// The driver's library is not there.
    #[error("there is no NVIDIA driver (libcuda.so.1)")]
    NoDriver,
    /// The driver is there and finds none, or fails.
    #[error("the NVIDIA driver finds no GPU (error {0})")]
    NoDevice(i32),
    /// The driver is older than the runtime.
    #[error("the NVIDIA driver runs CUDA {}.{} at most, and TVM's runtime needs {}.0", .0.0, .0.1, NEEDED)]
    OldDriver((i32, i32)),
}

/// The major version of CUDA that TVM's runtime is built for.
const NEEDED: i32 = 13;
/// The first driver for it.
pub(crate) const NEEDED_DRIVER: u32 = 580;

/// The driver; the same answer for the whole process.
pub(crate) fn driver() -> &'static Result<Driver, NoGpu> {
    static ASKED: OnceLock<Result<Driver, NoGpu>> = OnceLock::new();
    ASKED.get_or_init(ask)
}

fn ask() -> Result<Driver, NoGpu> {
    let library = Library::open(Path::new("libcuda.so.1")).map_err(|_| NoGpu::NoDriver)?;
    let api = Api::of(library).ok_or(NoGpu::NoDriver)?;
    let version = api.version().map_err(NoGpu::NoDevice)?;
    let cuda = (version / 1000, version % 1000 / 10);
    if cuda.0 < NEEDED {
        return Err(NoGpu::OldDriver(cuda));
    }
    let gpus = api.gpus().map_err(NoGpu::NoDevice)?;
    match gpus.is_empty() {
        true => Err(NoGpu::NoDevice(0)),
        false => Ok(Driver { cuda, gpus }),
    }
}

type Status = c_int;

/// The functions of the driver that are asked here (CUDA Driver API).
struct Api {
    init: unsafe extern "C" fn(u32) -> Status,
    version: unsafe extern "C" fn(*mut c_int) -> Status,
    count: unsafe extern "C" fn(*mut c_int) -> Status,
    device: unsafe extern "C" fn(*mut c_int, c_int) -> Status,
    name: unsafe extern "C" fn(*mut c_char, c_int, c_int) -> Status,
    attribute: unsafe extern "C" fn(*mut c_int, c_int, c_int) -> Status,
    place: unsafe extern "C" fn(*mut c_char, c_int, c_int) -> Status,
}

/// `CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR` and `…_MINOR`, then `CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT`.
const ATTRIBUTES: [c_int; 3] = [75, 76, 16];

impl Api {
    fn of(library: Library) -> Option<Api> {
        // SAFETY: the types are those of the driver's documentation.
        unsafe {
            Some(Api {
                init: library.function(c"cuInit").ok()?,
                version: library.function(c"cuDriverGetVersion").ok()?,
                count: library.function(c"cuDeviceGetCount").ok()?,
                device: library.function(c"cuDeviceGet").ok()?,
                name: library.function(c"cuDeviceGetName").ok()?,
                attribute: library.function(c"cuDeviceGetAttribute").ok()?,
                place: library.function(c"cuDeviceGetPCIBusId").ok()?,
            })
        }
    }

    fn version(&self) -> Result<i32, Status> {
        let mut version = 0;
        // SAFETY: `version` is valid for writing.
        done(unsafe { (self.version)(&mut version) })?;
        Ok(version)
    }

    fn gpus(&self) -> Result<Vec<Gpu>, Status> {
        const NAME_BYTES: usize = 128;
        let mut count = 0;
        // SAFETY: what is written to is valid and of the size that is given; devices are those that the driver counts.
        unsafe {
            done((self.init)(0))?;
            done((self.count)(&mut count))?;
            let gpu = |place| {
                let mut device = 0;
                done((self.device)(&mut device, place))?;
                // One byte less: a text ends with a zero in any case.
                const MOST: c_int = NAME_BYTES as c_int - 1;
                let mut name = [0 as c_char; NAME_BYTES];
                done((self.name)(name.as_mut_ptr(), MOST, device))?;
                let mut bus_id = [0 as c_char; NAME_BYTES];
                done((self.place)(bus_id.as_mut_ptr(), MOST, device))?;
                let mut parts = [0; 3];
                for (part, attribute) in parts.iter_mut().zip(ATTRIBUTES) {
                    done((self.attribute)(part, attribute, device))?;
                }
                Ok(Gpu {
                    name: CStr::from_ptr(name.as_ptr()).to_string_lossy().into_owned(),
                    capability: (parts[0] * 10 + parts[1]).unsigned_abs(),
                    multiprocessors: parts[2].unsigned_abs(),
                    bus_id: CStr::from_ptr(bus_id.as_ptr()).to_owned(),
                })
            };
            (0..count).map(gpu).collect()
        }
    }
}

fn done(status: Status) -> Result<(), Status> {
    match status {
        0 => Ok(()),
        failed => Err(failed),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_error_for_an_old_driver_names_what_is_needed() {
        let old = NoGpu::OldDriver((12, 4)).to_string();
        assert_eq!(
            old,
            "the NVIDIA driver runs CUDA 12.4 at most, and TVM's runtime needs 13.0"
        );
        let gpu = Gpu {
            name: "NVIDIA H200".to_owned(),
            capability: 90,
            multiprocessors: 132,
            bus_id: c"0000:01:00.0".to_owned(),
        };
        assert_eq!(gpu.arch(), "sm_90");
    }

    #[test]
    fn workers_share_out_the_gpus_that_are_alike() {
        let gpu = |name: &str| Gpu {
            name: name.to_owned(),
            capability: 90,
            multiprocessors: 132,
            bus_id: c"0000:01:00.0".to_owned(),
        };
        let driver = Driver {
            cuda: (13, 0),
            gpus: ["H200", "H100", "H200"].map(gpu).to_vec(),
        };
        assert_eq!(driver.like_the_first(), [0, 2]);
        assert_eq!(driver.words(), "2 H200 (not measured on: H100)");
        assert_eq!(chosen(None, 2), "2");
        assert_eq!(chosen(Some("3, GPU-8932f937"), 1), "GPU-8932f937");
    }
}
