//! `doctor`: gathers the facts that the checks judge, and calibrates the machine if requested.

use opdata::contract::{CALIBRATION_FORMAT, Calibration, Environment};
use opengine::calibrate::{self, CalibrateError, Hierarchy, Store, TvmMeter, clock_ghz};
use opengine::device::{self, Target};
use opengine::env::Root;
use opengine::interference::load::LoadMeter;
use opengine::interrupt::Interrupt;
use opengine::measure::counters::SOURCES;
use opinstall::Home;
use opreport::progress::for_stderr;
use opreport::{Exit, Verbosity, View};
use tvm_bridge::Libraries;
use tvm_bridge::libs::{TVM_FFI_VERSION, TVM_VERSION};

use super::{AppError, show};
use crate::doctor::{
    self, Calibrated, CalibrationRequest, CheckStatus, DoctorRequest, Facts, FolderFacts,
    PackageWanted, Problem, PythonFacts,
};
use crate::render::{Diagnosis, diagnosis_json, diagnosis_text};
use crate::run;

/// Checks the machine, each problem with its fix.
pub(super) fn diagnose(request: &DoctorRequest, view: View) -> Result<Exit, AppError> {
    let home = Home::find()?;
    let environment = run::environment(&Root::system(), std::env::args().collect());
    let tvm = match Libraries::load() {
        Ok(_) => Ok(vec![
            ("apache-tvm".to_owned(), TVM_VERSION.to_owned()),
            ("apache-tvm-ffi".to_owned(), TVM_FFI_VERSION.to_owned()),
        ]),
        Err(error) => Err(Problem {
            finding: error.to_string(),
            fix: "run scripts/setup".to_owned(),
        }),
    };
    let cpu = environment.machine.llvm_cpu.name.clone();
    let llvm_knows_cpu = cpu
        .filter(|_| tvm.is_ok())
        .map(|cpu| tvm_bridge::Target::llvm(&cpu, 1).is_ok());
    let requirements = std::fs::read_to_string(home.requirements()).unwrap_or_default();
    let packages = PackageWanted::from_requirements(&requirements);
    let python = request.python.clone().unwrap_or_else(|| home.python());
    let python = PythonFacts::probe(&python, &packages);
    let store = Store::new(home.calibrations());
    let measured = match &request.calibration {
        // A missing part is among the checks, with its fix.
        Some(wanted) if tvm.is_ok() => {
            let calibration = calibrate(wanted, &environment, view.verbosity)?;
            store.save(&calibration)?;
            Some(calibration)
        }
        _ => None,
    };
    let calibrated = match store.load(&environment.env_hash) {
        Ok(None) => Calibrated::Never,
        Ok(Some(calibration)) => Calibrated::Yes(calibration),
        Err(error) => Calibrated::Unusable(error.to_string()),
    };
    let mut checks = doctor::examine(&Facts {
        environment: &environment,
        threads: &request.threads,
        tvm,
        llvm_knows_cpu,
        python,
        packages,
        compiler: doctor::find_compiler(std::env::var_os("PATH").as_deref()),
        folder: FolderFacts::probe(&request.out),
        calibrated,
        counters: SOURCES
            .iter()
            .map(|kind| (kind.name(), kind.survey()))
            .collect(),
        devices: device::ALL.iter().flat_map(|d| d.findings()).collect(),
    });
    if let Some((address, target)) = &request.remote {
        checks.extend(doctor::check_remote(address, target));
    }
    let diagnosis = Diagnosis {
        checks: &checks,
        measured: measured.as_ref(),
        file: &store.file(&environment.env_hash),
    };
    show(
        view,
        || diagnosis_json(&diagnosis),
        |style| diagnosis_text(&diagnosis, style),
    )?;
    Ok(if doctor::any_failed(&checks) {
        Exit::Failed
    } else {
        Exit::Done
    })
}

/// Measures the machine's rates.
fn calibrate(
    request: &CalibrationRequest,
    environment: &Environment,
    verbosity: Verbosity,
) -> Result<Calibration, AppError> {
    let interrupt = Interrupt::install()?;
    let mut progress = for_stderr(verbosity);
    let load = doctor::check_load(environment);
    if load.status != CheckStatus::Ok {
        progress.note(&format!(
            "warning: load {}; the rates will be too low",
            load.finding
        ));
    }
    // Calibration is of the machine itself, whatever is attached to it.
    let target = Target::plain(device::HOST).dictionary(environment);
    // This comes before TVM's thread pool starts, because its threads keep the clock high while they wait for work.
    let clock_ghz = clock_ghz();
    let most = request.threads.iter().copied().max().unwrap_or(1);
    let ended = |error: CalibrateError| AppError {
        exit: match error {
            CalibrateError::Interrupted => Exit::Interrupted,
            _ => Exit::Failed,
        },
        source: error.into(),
    };
    let mut meter = TvmMeter::new(&target, most, interrupt.clone()).map_err(ended)?;
    let memory = environment.state.memory;
    let others = LoadMeter::start();
    let rates = calibrate::measure(
        &request.threads,
        Hierarchy {
            caches: &environment.machine.caches,
            cores: environment.machine.cores_online,
            available_bytes: [memory.available_bytes, memory.limit_bytes]
                .into_iter()
                .flatten()
                .min(),
        },
        calibrate::timing(request.budget_ns),
        &mut meter,
        &interrupt,
        progress.as_mut(),
    )
    .map_err(ended)?;
    let calibration = Calibration {
        format: CALIBRATION_FORMAT,
        env_hash: environment.env_hash.clone(),
        measured_at_utc: opdata::Timestamp::now(),
        versions: environment.software.versions.clone(),
        target,
        cores_usable: environment.state.cores_usable,
        load_1min: environment.state.load_1min,
        other_cpu_share: others.other_cpu_share(),
        clock_ghz,
        rates,
    };
    if calibration.is_of_busy_machine() {
        progress.note(
            "warning: other processes took much of the CPU time: the rates are too low, and are marked so; calibrate again on \
             the quiet machine",
        );
    }
    Ok(calibration)
}
