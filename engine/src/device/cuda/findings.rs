//! Findings of `doctor` about GPUs: the driver, NVML, the compiler.
//!
//! A missing GPU is no fault. A GPU that cannot be used, or not fully, is one.

use super::arch;
use super::nvrtc::{self, HOW_TO_GET_IT, Toolkit, ToolkitMissing};
use crate::device::Finding;
use crate::nvidia::driver::{self, Driver, NoGpu};
use crate::nvidia::nvml::{NoNvml, Nvml, State, Telemetry as _};

const GPU: &str = "GPU";
const COMPILER: &str = "CUDA compiler";

/// The findings on this machine.
pub(super) fn of_machine() -> Vec<Finding> {
    let driver = driver::driver();
    let gpus = driver.as_ref().map_or(&[][..], |driver| &driver.gpus);
    let states = gpus
        .iter()
        .map(|gpu| match Nvml::of(&gpu.bus_id) {
            Ok(mut nvml) => Some(nvml.state()),
            // NVML reports the whole board, and this is a part of it.
            Err(NoNvml::Slice) => Some(State::default()),
            Err(NoNvml::NotThere) => None,
        })
        .collect::<Option<Vec<State>>>();
    let toolkit = Toolkit::find().map(|toolkit| (nvrtc::version(&toolkit), toolkit));
    let has_gpu = driver.is_ok();
    vec![
        of_driver(driver, states.as_deref()),
        of_compiler(toolkit, has_gpu),
    ]
}

/// `states` are those of the driver's GPUs; `None` without NVML.
fn of_driver(driver: &Result<Driver, NoGpu>, states: Option<&[State]>) -> Finding {
    let driver = match driver {
        Ok(driver) => driver,
        Err(old @ NoGpu::OldDriver(_)) => {
            let fix = format!("update the driver to {} or later", driver::NEEDED_DRIVER);
            return Finding::problem(GPU, old.to_string(), fix);
        }
        Err(no_gpu) => {
            let finding = format!("{no_gpu}: --target cuda compiles, and measures nothing");
            return Finding::fine(GPU, finding);
        }
    };
    let gpus: Vec<String> = driver
        .gpus
        .iter()
        .enumerate()
        .map(|(place, gpu)| {
            let state = states.and_then(|states| states.get(place));
            let words = state.map(State::words).filter(|words| !words.is_empty());
            let words = words.map_or_else(String::new, |words| format!(", {words}"));
            format!("{} ({}{words})", gpu.name, gpu.arch())
        })
        .collect();
    let (major, minor) = driver.cuda;
    let finding = format!("{}; the driver runs CUDA {major}.{minor}", gpus.join(", "));
    match states {
        Some(_) => Finding::fine(GPU, finding),
        None => Finding::problem(
            GPU,
            format!("{finding}; there is no NVML (libnvidia-ml.so.1)"),
            "install the driver's libnvidia-ml, for clocks, temperature and energy".to_owned(),
        ),
    }
}

fn of_compiler(
    toolkit: Result<(anyhow::Result<(i32, i32)>, Toolkit), ToolkitMissing>,
    has_gpu: bool,
) -> Finding {
    match toolkit {
        Ok((Ok((major, minor)), toolkit)) => Finding::fine(
            COMPILER,
            format!(
                "NVRTC {major}.{minor} for {} in {}",
                arch::names().join(", "),
                toolkit.root().display()
            ),
        ),
        Ok((Err(error), toolkit)) => Finding::problem(
            COMPILER,
            format!("NVRTC in {}: {error:#}", toolkit.root().display()),
            HOW_TO_GET_IT.to_owned(),
        ),
        Err(missing) if has_gpu => {
            Finding::problem(COMPILER, missing.to_string(), HOW_TO_GET_IT.to_owned())
        }
        Err(_) => Finding::fine(
            COMPILER,
            "not installed; for --target cuda: scripts/setup --with cuda".to_owned(),
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nvidia::driver::Gpu;

    #[test]
    fn each_state_of_driver_and_compiler_in_words() {
        let gpu = || Driver {
            cuda: (13, 0),
            gpus: vec![Gpu {
                name: "NVIDIA H200".to_owned(),
                capability: 90,
                multiprocessors: 132,
                bus_id: c"0000:01:00.0".to_owned(),
            }],
        };
        let slowed = State {
            clock_mhz: Some(990),
            temperature_c: Some(88),
            held_back: Some(0x40),
        };
        let findings = [
            of_driver(&Ok(gpu()), Some(&[slowed])),
            of_driver(&Ok(gpu()), Some(&[State::default()])),
            of_driver(&Ok(gpu()), None),
            of_driver(&Err(NoGpu::NoDriver), None),
            of_driver(&Err(NoGpu::NoDevice(100)), None),
            of_driver(&Err(NoGpu::OldDriver((12, 4))), Some(&[])),
            of_compiler(Err(ToolkitMissing), true),
            of_compiler(Err(ToolkitMissing), false),
        ];
        let lines: Vec<String> = findings
            .iter()
            .map(|f| {
                format!(
                    "{}: {} | {}",
                    f.name,
                    f.finding,
                    f.fix.as_deref().unwrap_or("-")
                )
            })
            .collect();
        insta::assert_snapshot!(lines.join("\n"), @r#"
        GPU: NVIDIA H200 (sm_90, 990 MHz, 88 °C, slowed by hardware thermal slowdown); the driver runs CUDA 13.0 | -
        GPU: NVIDIA H200 (sm_90); the driver runs CUDA 13.0 | -
        GPU: NVIDIA H200 (sm_90); the driver runs CUDA 13.0; there is no NVML (libnvidia-ml.so.1) | install the driver's libnvidia-ml, for clocks, temperature and energy
        GPU: there is no NVIDIA driver (libcuda.so.1): --target cuda compiles, and measures nothing | -
        GPU: the NVIDIA driver finds no GPU (error 100): --target cuda compiles, and measures nothing | -
        GPU: the NVIDIA driver runs CUDA 12.4 at most, and TVM's runtime needs 13.0 | update the driver to 580 or later
        CUDA compiler: NVRTC, NVIDIA's compiler of CUDA source, is not installed | run scripts/setup --with cuda (97 MB to download, under NVIDIA's licence), or set CUDA_HOME to a CUDA toolkit of version 12 or 13
        CUDA compiler: not installed; for --target cuda: scripts/setup --with cuda | -
        "#);
    }
}
