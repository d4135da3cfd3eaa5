//! `opcollect compare --framework`: one model run by several frameworks in turn, on the same threads and the same values.
//!
//! [`compare`] gives each framework the model: [`tvm`], and [`program`] for those that run in a program of their own.
//! Then they run in rounds, each begun by another one. A machine that slows down meanwhile slows all of them. A round
//! first times unwatched runs, and then watches some for the operators' times. Operators are described in the words of
//! [`kinds`]. `render/frameworks.rs` prints the result.

mod contender;
mod error;
pub mod kinds;
mod program;
mod tvm;

use std::path::PathBuf;
use std::time::Duration;

use anyhow::bail;
use clap::ValueEnum;
use opinstall::Home;
use opmodels::deployed::Form;
use opmodels::{ImportRequest, Source};
use optorch::client::Program;
use optorch::protocol::Device;

pub use contender::OperatorTime;
use contender::{Contender, Round};
pub use error::FrameworksError;
use kinds::Kind;

use crate::plan::Planned;
use crate::profile::libtorch;
use crate::profile::summary::overhead;
use crate::run::Session;

/// Rounds in which each framework runs: enough for an interval of the ratios' median.
const ROUNDS: usize = 10;

/// The frameworks that can run a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Framework {
    /// libtorch, for models of the sources torch and transformers
    Torch,
    /// TVM, with the schedules of the main job
    Tvm,
    /// TVM, with the best schedules of the store
    TvmTuned,
    /// ONNX Runtime, for ONNX files and models that can be exported to one
    #[value(name = "onnxruntime")]
    OnnxRuntime,
}

impl Framework {
    /// The word on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Framework::Torch => "torch",
            Framework::Tvm => "tvm",
            Framework::TvmTuned => "tvm-tuned",
            Framework::OnnxRuntime => "onnxruntime",
        }
    }
}

/// A request for a comparison.
#[derive(Debug, Clone, PartialEq)]
pub struct FrameworksRequest {
    /// The model, the target of TVM and the threads.
    pub planned: Box<Planned>,
    /// The frameworks, in the order of the columns; the first is the base of ratios.
    pub frameworks: Vec<Framework>,
    /// File of the table as CSV.
    pub csv: Option<PathBuf>,
}

/// A model run by several frameworks.
#[derive(Debug, Clone, PartialEq)]
pub struct SideBySide {
    /// The model's name.
    pub model: String,
    /// Samples at once.
    pub batch: u64,
    /// The processor.
    pub cpu: Option<String>,
    /// Threads of each framework.
    pub threads: u32,
    /// The frameworks, in the requested order.
    pub frameworks: Vec<Measured>,
}

/// The measurements of one framework.
#[derive(Debug, Clone, PartialEq)]
pub struct Measured {
    /// The framework.
    pub framework: Framework,
    /// Its version.
    pub version: String,
    /// The reference of its outputs.
    pub checked_against: String,
    /// Largest difference to that, over the largest expected value. `None` if only the verdict is known.
    pub error: Option<f64>,
    /// Its rounds.
    rounds: Vec<Round>,
}

impl Measured {
    /// Median time of a run that nobody watches, nanoseconds.
    pub fn end_to_end_ns(&self) -> Option<f64> {
        opdata::stats::median(self.rounds.iter().flat_map(|r| r.runs_ns.iter().copied()))
    }

    /// Whether its own outputs are the reference for all.
    pub fn is_reference(&self) -> bool {
        self.framework == Framework::OnnxRuntime && self.checked_against == program::ONNX_RUNTIME
    }

    /// Runs that nobody watched.
    pub fn runs(&self) -> usize {
        self.rounds.iter().map(|round| round.runs_ns.len()).sum()
    }

    /// Its operators by the names that it has for them, with means over the rounds, the slowest first.
    pub fn operators(&self) -> Vec<OperatorTime> {
        contender::mean(&self.rounds)
    }

    /// Calls in a run and their time in nanoseconds, of one kind of operators.
    pub fn of_kind(&self, kind: Kind) -> (f64, f64) {
        let operators = self.operators().into_iter();
        let mine = operators.filter(|operator| operator.kind == kind);
        mine.fold((0.0, 0.0), |(calls, ns), o| (calls + o.calls, ns + o.ns))
    }

    /// Its time over that of `base`, round by round: the median, and its 95 % interval.
    pub fn ratio(&self, base: &Measured) -> Option<(f64, Option<(f64, f64)>)> {
        let median = |round: &Round| opdata::stats::median(round.runs_ns.iter().copied());
        let rounds = base.rounds.iter().zip(&self.rounds);
        let pairs: Vec<(f64, f64)> = rounds
            .filter_map(|(base, mine)| Some((median(base)?, median(mine)?)))
            .collect();
        let (excess, interval) = overhead(&pairs)?;
        Some((
            1.0 + excess,
            interval.map(|(low, high)| (1.0 + low, 1.0 + high)),
        ))
    }
}

impl SideBySide {
    /// The kinds that some framework has, those first that take all of them together longest.
    pub fn kinds(&self) -> Vec<Kind> {
        let ns = |kind: Kind| -> f64 { self.frameworks.iter().map(|f| f.of_kind(kind).1).sum() };
        let mut found: Vec<(Kind, f64)> = Kind::ALL
            .into_iter()
            .map(|kind| (kind, ns(kind)))
            .filter(|(_, ns)| *ns > 0.0)
            .collect();
        found.sort_by(|a, b| b.1.total_cmp(&a.1));
        found.into_iter().map(|(kind, _)| kind).collect()
    }
}

/// Runs a model by each framework.
///
/// # Errors
/// Fails if a framework cannot run models of this source, is not installed, has a wrong output, or is lost.
pub fn compare(
    request: &FrameworksRequest,
    home: &Home,
    session: &mut Session<'_>,
) -> anyhow::Result<SideBySide> {
    let plan = &request.planned.plan;
    checked(plan.model.source, &request.frameworks)?;
    let scratch = crate::run::scratch()?;
    let mut contenders = contenders(request, home, session, scratch.path())?;
    let round = Duration::from_nanos(plan.timing.stop.budget_ns) / ROUNDS as u32;
    let mut rounds: Vec<Vec<Round>> = contenders.iter().map(|_| Vec::new()).collect();
    for number in 0..ROUNDS {
        session
            .progress
            .working(&format!("round {} of {ROUNDS}", number + 1));
        let count = contenders.len();
        for place in (0..count).map(|turn| (turn + number) % count) {
            if session.interrupt.requested() {
                bail!("interrupted");
            }
            rounds[place].push(contenders[place].round(round)?);
        }
    }
    let facts = contenders.iter().map(|contender| contender.facts());
    let frameworks = request.frameworks.iter().zip(facts).zip(rounds);
    Ok(SideBySide {
        model: plan.model.model.clone(),
        batch: contenders.first().map_or(1, |first| first.facts().batch),
        cpu: session.environment().machine.cpu.name.clone(),
        threads: threads(request),
        frameworks: frameworks
            .map(|((&framework, facts), rounds)| Measured {
                framework,
                version: facts.version,
                checked_against: facts.checked_against,
                error: facts.error,
                rounds,
            })
            .collect(),
    })
}

fn threads(request: &FrameworksRequest) -> u32 {
    let threads = &request.planned.plan.threads;
    threads.iter().copied().max().unwrap_or(1)
}

/// Refuses frameworks that cannot run models of a source, before anything is built.
fn checked(source: Source, frameworks: &[Framework]) -> Result<(), FrameworksError> {
    if frameworks.len() < 2 {
        return Err(FrameworksError::TooFew);
    }
    let twice = |(place, framework): (usize, &Framework)| {
        frameworks[..place]
            .contains(framework)
            .then_some(*framework)
    };
    if let Some(framework) = frameworks.iter().enumerate().find_map(twice) {
        return Err(FrameworksError::Twice(framework.name()));
    }
    if frameworks.contains(&Framework::Torch) && !Form::TorchScript.fits(source) {
        return Err(FrameworksError::NotOfPyTorch(source));
    }
    if frameworks.contains(&Framework::OnnxRuntime) && !Form::Onnx.fits(source) {
        return Err(FrameworksError::NoOnnx(source));
    }
    Ok(())
}

/// The frameworks with the model loaded and its outputs compared, in the requested order.
fn contenders(
    request: &FrameworksRequest,
    home: &Home,
    session: &mut Session<'_>,
    scratch: &std::path::Path,
) -> anyhow::Result<Vec<Box<dyn Contender>>> {
    let planned = &request.planned;
    let plan = &planned.plan;
    let model = &plan.model.model;
    let has = |framework| request.frameworks.contains(&framework);
    let (threads, limit) = (threads(request), plan.worker.measure_timeout_ns);
    let limit = Duration::from_nanos(limit);
    // A missing extra is reported before anything is built.
    let mut torch = match has(Framework::Torch) {
        true => Some(Program::libtorch(&home.torch_program())?),
        false => None,
    };
    let importer = opmodels::Importer::new(home, planned.python.as_deref())?;
    let onnx = match has(Framework::OnnxRuntime) {
        true => {
            let progress = &mut session.progress;
            progress.working(&format!("writing {model} as an ONNX file"));
            Some(importer.deploy(&plan.model, Form::Onnx, &mut |_| {})?)
        }
        false => None,
    };
    let mut made: Vec<Box<dyn Contender>> = Vec::new();
    for framework in &request.frameworks {
        let name = framework.name();
        session.progress.working(&format!("loading into {name}"));
        made.push(match framework {
            Framework::Torch => {
                let Some(program) = torch.take() else {
                    continue;
                };
                let deployed = importer.deploy(&plan.model, Form::TorchScript, &mut |_| {})?;
                let client = libtorch::start(program, &deployed, threads, Device::Cpu)?;
                Box::new(program::Running::torch(client, &deployed, limit))
            }
            Framework::Tvm | Framework::TvmTuned => {
                let same = onnx.as_ref().map(|file| same_values(&plan.model, file));
                let request = same.as_ref().unwrap_or(&plan.model);
                let tuned = *framework == Framework::TvmTuned;
                let built = tvm::Tvm::build(planned, request, tuned, session, scratch)?;
                // The exported ONNX file has expected outputs, but not the name of the framework that computed them.
                Box::new(match &onnx {
                    Some(file) => built.checked_against(&file.origin),
                    None => built,
                })
            }
            Framework::OnnxRuntime => {
                let Some(deployed) = &onnx else { continue };
                let program = program::onnxruntime(&importer.tooling);
                let client = libtorch::start(program, deployed, threads, Device::Cpu)?;
                Box::new(program::Running::onnxruntime(client, deployed, limit))
            }
        });
    }
    Ok(made)
}

/// The request that gives TVM the very values that ONNX Runtime has: models that PyTorch builds have the same in either form.
/// Others often have no values of their own, and are imported from the file that was written.
fn same_values(request: &ImportRequest, file: &opmodels::Deployed) -> ImportRequest {
    if Form::TorchScript.fits(request.source) {
        return request.clone();
    }
    ImportRequest {
        fusion: request.fusion,
        composites: request.composites.clone(),
        ..ImportRequest::new(Source::ONNX, file.path().to_string_lossy())
    }
}

#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
mod tests;
