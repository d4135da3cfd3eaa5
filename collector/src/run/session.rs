//! Inputs of a run besides its plan: the importer, the runners, the listener, and the clock.
//!
//! Each is a seam: a test puts a scripted runner, a clock of its own or a made-up model here. The rest of the run is the
//! real one.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use opdata::contract::{Environment, Software};
use opengine::calibrate::Store;
use opengine::device::remote::facts;
use opengine::env::{Root, capture, revision_near, versions};
use opengine::interrupt::Interrupt;
use opengine::runner::{ChildRunners, RunnerFactory};
use opinstall::Home;
use opmodels::{ImportError, ImportRequest, Imported, Watch};
use opreport::progress::Progress;

use crate::plan::Plan;

/// Inputs of a run besides its plan.
pub struct Session<'a> {
    /// The importer of models.
    pub importer: &'a dyn Importer,
    /// What builds and measures kernels.
    pub runners: Box<dyn RunnerFactory + 'a>,
    /// Stored calibrations of machines.
    pub calibrations: Store,
    /// The root under which the machine's facts are read.
    pub root: Root,
    /// The program's arguments.
    pub command_line: Vec<String>,
    /// Whether the user wants to stop.
    pub interrupt: Interrupt,
    /// The listener that shows progress and warnings.
    pub progress: &'a mut dyn Progress,
    /// The clock of time budgets.
    pub clock: Box<dyn Clock + 'a>,
}

impl<'a> Session<'a> {
    /// A session with the installation at `home` on this machine, its workers being this program.
    ///
    /// # Errors
    /// Fails if the program does not find itself.
    pub fn new(
        home: &'a Home,
        command_line: Vec<String>,
        interrupt: Interrupt,
        progress: &'a mut dyn Progress,
    ) -> anyhow::Result<Session<'a>> {
        let program = std::env::current_exe().context("the path of this program")?;
        Ok(Session {
            importer: home,
            runners: Box::new(ChildRunners { program }),
            calibrations: Store::new(home.calibrations()),
            root: Root::system(),
            command_line,
            interrupt,
            progress,
            clock: Box::new(SystemClock::default()),
        })
    }

    /// The environment of a plan's points: this machine's, or that of the machine that the plan names.
    ///
    /// # Errors
    /// Fails if no server of that machine is available, or the servers of its key are unlike machines.
    pub fn environment_of(&self, plan: &Plan) -> anyhow::Result<Environment> {
        let here = self.environment();
        let Some(address) = &plan.remote else {
            return Ok(here);
        };
        Ok(Environment {
            software: here.software,
            ..facts::of_all(address)?
        })
    }

    /// The environment of this process.
    pub fn environment(&self) -> Environment {
        environment(&self.root, self.command_line.clone())
    }
}

/// The environment of this process; `command_line` are its arguments.
pub fn environment(root: &Root, command_line: Vec<String>) -> Environment {
    let program = std::env::current_exe().unwrap_or_default();
    capture(
        root,
        Software {
            versions: versions(),
            git_revision: revision_near(&program),
            command_line,
        },
    )
}

/// Imports models.
pub trait Importer {
    /// Imports a model, or finds the import in the cache; `watch` hears how far a download has come.
    ///
    /// # Errors
    /// Fails if the importer or the registry does.
    fn import(
        &self,
        request: &ImportRequest,
        python: Option<&Path>,
        watch: &mut Watch<'_>,
    ) -> Result<Imported, ImportError>;
}

impl Importer for Home {
    fn import(
        &self,
        request: &ImportRequest,
        python: Option<&Path>,
        watch: &mut Watch<'_>,
    ) -> Result<Imported, ImportError> {
        opmodels::Importer::new(self, python)?.import(request, watch)
    }
}

/// A clock that never goes back.
pub trait Clock {
    /// Time since some moment that stays the same.
    fn now(&self) -> Duration;
}

/// The system's clock.
#[derive(Debug, Clone, Copy)]
pub struct SystemClock(Instant);

impl Default for SystemClock {
    fn default() -> SystemClock {
        SystemClock(Instant::now())
    }
}

impl Clock for SystemClock {
    fn now(&self) -> Duration {
        self.0.elapsed()
    }
}
