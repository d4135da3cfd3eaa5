//! The present state of a GPU, from NVIDIA's management library: its clock, its temperature, the reasons for
//! throttling, and the energy that its board took. It comes with the driver, needs no rights, and is asked between
//! measurements, never during one.
//!
//! Not run on a GPU yet (`docs/cuda.md`): tests have a stand-in for the library.

use std::ffi::{c_char, c_int, c_uint, c_ulonglong, c_void};
use std::path::Path;

use super::driver::{NoGpu, driver};
use super::dynamic::Library;

type Status = c_int;
type Handle = *mut c_void;

/// State of a GPU now. Fields that it does not report are missing.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct State {
    /// Clock of the multiprocessors.
    pub clock_mhz: Option<u32>,
    /// Temperature of the chip.
    pub temperature_c: Option<u32>,
    /// Bits of [`REASONS`], and others that are of no concern.
    pub held_back: Option<u64>,
}

/// Reasons for a reduced clock that would be higher under the same work: `nvmlClocksEventReasons` of NVML's
/// documentation. A GPU counts as undisturbed if it is idle, if its user set its clocks, or if it works at its power
/// limit all the time.
const REASONS: [(u64, &str); 4] = [
    (0x08, "hardware slowdown"),
    (0x20, "software thermal slowdown"),
    (0x40, "hardware thermal slowdown"),
    (0x80, "power brake"),
];

impl State {
    /// The reasons for the reduced clock, in words.
    pub fn reasons(&self) -> Vec<&'static str> {
        let bits = self.held_back.unwrap_or(0);
        let active = REASONS.iter().filter(|(bit, _)| bits & bit != 0);
        active.map(|(_, words)| *words).collect()
    }

    /// The reasons for a reduced clock as rows have them: the words, separated by semicolons, or `none`.
    pub fn held_back_by(&self) -> Option<String> {
        self.held_back.map(|_| match &self.reasons()[..] {
            [] => "none".to_owned(),
            reasons => reasons.join(";"),
        })
    }

    /// The state in words, for people.
    pub fn words(&self) -> String {
        let mut parts = Vec::new();
        parts.extend(self.clock_mhz.map(|mhz| format!("{mhz} MHz")));
        parts.extend(self.temperature_c.map(|c| format!("{c} °C")));
        let reasons = self.reasons();
        if !reasons.is_empty() {
            parts.push(format!("slowed by {}", reasons.join(" and ")));
        }
        parts.join(", ")
    }
}

/// Source of a GPU's state.
pub(crate) trait Telemetry {
    /// The state now.
    fn state(&mut self) -> State;
}

/// Why NVML has no readings of a GPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum NoNvml {
    /// The library is not there, or does not know the GPU.
    #[error("there is no NVML (libnvidia-ml.so.1)")]
    NotThere,
    /// The process sees a slice of the board (MIG): clock, temperature and energy are those of the whole board.
    #[error("the GPU is a slice of a board (MIG), and NVML tells of the whole board alone")]
    Slice,
}

/// The library, for one GPU.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Nvml {
    clock: unsafe extern "C" fn(Handle, c_uint, *mut c_uint) -> Status,
    temperature: unsafe extern "C" fn(Handle, c_uint, *mut c_uint) -> Status,
    reasons: unsafe extern "C" fn(Handle, *mut c_ulonglong) -> Status,
    energy: unsafe extern "C" fn(Handle, *mut c_ulonglong) -> Status,
    split: Option<unsafe extern "C" fn(Handle, *mut c_uint, *mut c_uint) -> Status>,
    gpu: Handle,
}

/// `NVML_CLOCK_SM`.
const CLOCK_OF_MULTIPROCESSORS: c_uint = 1;
/// `NVML_TEMPERATURE_GPU`.
const TEMPERATURE_OF_GPU: c_uint = 0;

impl Nvml {
    /// Opens the first GPU that the process sees.
    ///
    /// # Errors
    /// Fails if the library is missing, or says why there is none.
    pub fn of_first() -> Result<Nvml, String> {
        let driver = driver().as_ref().map_err(NoGpu::to_string)?;
        Nvml::of(&driver.gpus[0].bus_id).map_err(|none| none.to_string())
    }

    /// Opens the GPU at a position of the PCI bus as CUDA's runtime names it. The position identifies it, because the
    /// library numbers all GPUs and CUDA only the visible ones.
    ///
    /// # Errors
    /// Fails if there is no library, if it does not know the GPU, or if the GPU is split into slices.
    pub fn of(bus_id: &std::ffi::CStr) -> Result<Nvml, NoNvml> {
        let nvml = Nvml::of_board(bus_id).ok_or(NoNvml::NotThere)?;
        match nvml.is_split() {
            true => Err(NoNvml::Slice),
            false => Ok(nvml),
        }
    }

    /// Whether the board is split into slices (`nvmlDeviceGetMigMode`); boards that cannot be say so by an error.
    fn is_split(&self) -> bool {
        let (mut current, mut pending) = (0, 0);
        let Some(mode) = self.split else { return false };
        // SAFETY: the handle is the library's, and what is written to is valid.
        let status = unsafe { mode(self.gpu, &mut current, &mut pending) };
        status == 0 && current == 1
    }

    fn of_board(bus_id: &std::ffi::CStr) -> Option<Nvml> {
        type Init = unsafe extern "C" fn() -> Status;
        type ByPlace = unsafe extern "C" fn(*const c_char, *mut Handle) -> Status;
        let library = Library::open(Path::new("libnvidia-ml.so.1")).ok()?;
        let mut gpu = std::ptr::null_mut();
        // SAFETY: the types are those of NVML's documentation; `gpu` is valid for writing and `bus_id` is a C string.
        unsafe {
            let init: Init = library.function(c"nvmlInit_v2").ok()?;
            let by_place: ByPlace = library.function(c"nvmlDeviceGetHandleByPciBusId_v2").ok()?;
            if init() != 0 || by_place(bus_id.as_ptr(), &mut gpu) != 0 {
                return None;
            }
            Some(Nvml {
                clock: library.function(c"nvmlDeviceGetClockInfo").ok()?,
                temperature: library.function(c"nvmlDeviceGetTemperature").ok()?,
                // All versions have a function of this name; newer ones have a second name for it.
                reasons: library
                    .function(c"nvmlDeviceGetCurrentClocksThrottleReasons")
                    .ok()?,
                energy: library
                    .function(c"nvmlDeviceGetTotalEnergyConsumption")
                    .ok()?,
                // Older drivers have no slices.
                split: library.function(c"nvmlDeviceGetMigMode").ok(),
                gpu,
            })
        }
    }

    /// Energy of the board since the driver was loaded, in millijoules. `None` if the GPU has no meter (before Volta).
    pub fn energy_mj(&self) -> Option<u64> {
        let mut energy = 0;
        // SAFETY: the handle is the library's, and what is written to is valid.
        let status = unsafe { (self.energy)(self.gpu, &mut energy) };
        (status == 0).then_some(energy)
    }
}

impl Telemetry for Nvml {
    fn state(&mut self) -> State {
        let (mut clock, mut temperature, mut reasons) = (0, 0, 0);
        // SAFETY: the handle is the library's, and what is written to is valid.
        let [clock_status, temperature_status, reasons_status] = unsafe {
            [
                (self.clock)(self.gpu, CLOCK_OF_MULTIPROCESSORS, &mut clock),
                (self.temperature)(self.gpu, TEMPERATURE_OF_GPU, &mut temperature),
                (self.reasons)(self.gpu, &mut reasons),
            ]
        };
        State {
            clock_mhz: (clock_status == 0).then_some(clock),
            temperature_c: (temperature_status == 0).then_some(temperature),
            held_back: (reasons_status == 0).then_some(reasons),
        }
    }
}

/// Watches a GPU's clock: how far it is below the highest that was seen, while something holds it back.
pub(crate) struct Throttling<T> {
    telemetry: T,
    highest_mhz: u32,
}

impl<T: Telemetry> Throttling<T> {
    /// A record of throttling without an observation.
    pub fn new(telemetry: T) -> Throttling<T> {
        Throttling {
            telemetry,
            highest_mhz: 0,
        }
    }

    /// Source of the state.
    pub fn telemetry(&mut self) -> &mut T {
        &mut self.telemetry
    }

    /// The highest clock seen over the present one, at least 1. It is 1 unless something throttles the GPU, because a
    /// GPU without work lowers its clock by itself.
    pub fn slowdown(&mut self) -> f64 {
        let state = self.telemetry.state();
        let Some(now) = state.clock_mhz.filter(|mhz| *mhz > 0) else {
            return 1.0;
        };
        self.highest_mhz = self.highest_mhz.max(now);
        match state.reasons().is_empty() {
            true => 1.0,
            false => f64::from(self.highest_mhz) / f64::from(now),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reports one state after the other.
    struct Scripted(Vec<State>);

    impl Telemetry for Scripted {
        fn state(&mut self) -> State {
            self.0.remove(0)
        }
    }

    fn state(clock_mhz: u32, held_back: u64) -> State {
        State {
            clock_mhz: Some(clock_mhz),
            temperature_c: Some(71),
            held_back: Some(held_back),
        }
    }

    #[test]
    fn a_clock_that_heat_holds_back_is_drift_and_an_idle_one_is_not() {
        const IDLE: u64 = 0x01;
        const POWER_LIMIT: u64 = 0x04;
        const HEAT: u64 = 0x20;
        let states = vec![
            state(1980, 0),
            state(345, IDLE),
            state(1900, POWER_LIMIT),
            state(990, HEAT),
            State::default(),
            state(1980, 0),
        ];
        let mut watched = Throttling::new(Scripted(states));
        let slowdowns: Vec<f64> = (0..6).map(|_| watched.slowdown()).collect();
        assert_eq!(slowdowns, [1.0, 1.0, 1.0, 2.0, 1.0, 1.0]);
    }

    #[test]
    fn rows_say_what_holds_the_clock_back_or_that_nothing_does() {
        let of = |state: State| state.held_back_by();
        let both = "software thermal slowdown;hardware thermal slowdown";
        assert_eq!(of(state(990, 0x60)).as_deref(), Some(both));
        assert_eq!(of(state(1980, 0x05)).as_deref(), Some("none"));
        assert_eq!(of(State::default()), None);
    }

    #[test]
    fn states_in_words() {
        assert_eq!(
            state(990, 0x60).words(),
            "990 MHz, 71 °C, slowed by software thermal slowdown and hardware thermal slowdown"
        );
        assert_eq!(state(1980, 0x05).words(), "1980 MHz, 71 °C");
        assert_eq!(State::default().words(), "");
    }

    #[test]
    fn without_a_gpu_at_this_place_there_is_no_telemetry() {
        assert_eq!(Nvml::of(c"ffff:ff:1f.7").unwrap_err(), NoNvml::NotThere);
    }
}
