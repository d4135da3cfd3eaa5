//! `opcollect doctor`: is this machine fit to build, run and measure, and if not, what to do.
//!
//! The checks judge plain facts ([`Facts`]): the environment's fingerprint, what the caller found
//! of TVM, and a few probes made here (Python's packages, compilers, folders). So every verdict is
//! tested on any machine.

mod calibration;
mod check;
mod folder;
mod machine;
mod python;
mod remote;
mod tools;

pub use calibration::Calibrated;
pub use check::{Check, CheckStatus, Problem};
pub use folder::FolderFacts;
pub use machine::check_load;
pub use python::{PackageWanted, PythonFacts};
pub use remote::check_remote;
pub use tools::find_compiler;

use std::path::PathBuf;

use opdata::contract::{Environment, RemoteAddress};
use opengine::device::{Finding, Target};
use opengine::measure::counters::Survey;

/// Inputs of the doctor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DoctorRequest {
    /// Thread counts that will be measured.
    pub threads: Vec<u32>,
    /// Directory that will hold the results.
    pub out: PathBuf,
    /// Python of the importer; `None` for the project's own.
    pub python: Option<PathBuf>,
    /// Another machine whose servers are checked too, and the target for it.
    pub remote: Option<(RemoteAddress, Target)>,
    /// The target of a calibration, if requested.
    pub calibration: Option<CalibrationRequest>,
}

/// How to calibrate the machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CalibrationRequest {
    /// Numbers of threads.
    pub threads: Vec<u32>,
    /// Time for the samples of one rate, in nanoseconds.
    pub budget_ns: u64,
}

/// Everything that the checks judge.
#[derive(Debug, Clone)]
pub struct Facts<'a> {
    /// The machine and its state.
    pub environment: &'a Environment,
    /// Thread counts that will be measured.
    pub threads: &'a [u32],
    /// The result of loading TVM's libraries: versions by name, or the fault.
    pub tvm: Result<Vec<(String, String)>, Problem>,
    /// Whether LLVM knows the name of this machine's CPU; `None` if LLVM is missing.
    pub llvm_knows_cpu: Option<bool>,
    /// The importer's Python.
    pub python: PythonFacts,
    /// Pinned versions of the importer's packages.
    pub packages: Vec<PackageWanted>,
    /// A C compiler on the path.
    pub compiler: Option<PathBuf>,
    /// The folder of the results.
    pub folder: FolderFacts,
    /// State of the machine's calibration.
    pub calibrated: Calibrated,
    /// The counters of each source here, by name.
    pub counters: Vec<(&'static str, Survey)>,
    /// Findings about devices besides the CPU.
    pub devices: Vec<Finding>,
}

/// All checks, in the order they are shown.
pub fn examine(facts: &Facts<'_>) -> Vec<Check> {
    let environment = facts.environment;
    let devices = facts.devices.iter().map(|found| match &found.fix {
        None => Check::ok(found.name, found.finding.clone()),
        Some(fix) => Check::warn(found.name, found.finding.clone(), fix.clone()),
    });
    let mut checks = vec![
        python::check(&facts.python, &facts.packages),
        tools::check_tvm(&facts.tvm),
        tools::check_compiler(facts.compiler.as_deref()),
        tools::check_llvm_cpu(&environment.machine.llvm_cpu, facts.llvm_knows_cpu),
        machine::check_pmu(environment),
        machine::check_governor(environment),
        machine::check_cores(environment, facts.threads),
        machine::check_memory(environment),
        machine::check_load(environment),
        calibration::check(&facts.calibrated, environment),
        folder::check_disk(&facts.folder),
        folder::check_writable(&facts.folder),
    ];
    let counters = facts.counters.iter();
    checks.extend(counters.map(|(name, survey)| machine::check_counters(name, survey)));
    checks.extend(devices);
    checks
}

/// Whether any check failed.
pub fn any_failed(checks: &[Check]) -> bool {
    checks.iter().any(|check| check.status == CheckStatus::Fail)
}
