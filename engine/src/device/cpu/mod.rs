//! CPUs, through LLVM: by default the machine that this program runs on.

mod columns;
mod cross_core;
mod flush;
mod schedule;
mod session;
mod target;

use opdata::contract::Environment;
use opdata::{CacheState, DeviceKind, Row};
use serde_json::Value;

use super::remote::DeviceThere;
use super::target::OptionArity;
use super::{
    DeviceHost, DevicePlan, DeviceSchedules, Opening, Session, Target, TargetOption, TargetProblem,
};
use crate::schedule::{Choice, Combined, FactorInfo, FactorSettings, Space, Templates};

pub use schedule::{
    CacheWrite, ContractionKnobs, Epilogue, Knobs, LevelOrder, MAX_UNROLLED, Padding, RowsKnobs,
    SpatialKnobs,
};

use crate::interference::LINE_BYTES;

/// The schedule templates for the vector registers of a target.
///
/// # Errors
/// Fails if TVM does not know the target's registers.
pub fn templates(target: &tvm_bridge::Target) -> tvm_bridge::Result<Box<dyn Templates>> {
    Ok(Box::new(schedule::CpuTemplates::of(target)?))
}

/// The device.
#[derive(Debug, Clone, Copy)]
pub struct Cpu;

impl DevicePlan for Cpu {
    fn name(&self) -> &'static str {
        "llvm"
    }

    fn title(&self) -> &'static str {
        "the CPU of this machine, through LLVM"
    }

    fn kind(&self) -> DeviceKind {
        DeviceKind::CPU
    }

    fn check_remote(&self, _target: &Target) -> Result<(), TargetProblem> {
        Ok(())
    }

    fn remote_cache_states(&self) -> &'static [CacheState] {
        // The other states rotate copies of the arguments between calls, which needs a clock on this machine.
        &[CacheState::Hot, CacheState::Flushed]
    }

    fn options(&self) -> &'static [TargetOption] {
        const {
            &[
                TargetOption::one(target::MTRIPLE, "TRIPLE"),
                TargetOption::one(target::FLOAT_ABI, "hard|soft"),
                TargetOption::one(target::MCPU, "NAME"),
                TargetOption {
                    name: target::MATTR,
                    arity: OptionArity::List,
                    value: "+FEATURE,-FEATURE",
                },
            ]
        }
    }

    fn check(&self, target: &Target) -> Result<(), TargetProblem> {
        target::check(target)
    }

    fn dictionary(&self, target: &Target, machine: &Environment) -> Value {
        target::dictionary(target, machine)
    }

    fn describe_target(&self, dictionary: &Value) -> String {
        let options = [target::MTRIPLE, target::FLOAT_ABI, target::MCPU];
        let given = options
            .iter()
            .filter_map(|option| Some(format!(" -{option}={}", dictionary[*option].as_str()?)));
        format!("{}{}", self.name(), given.collect::<String>())
    }

    fn hardware(&self, machine: &Environment) -> String {
        let name = machine.machine.cpu.name.clone();
        name.unwrap_or_else(|| "unknown processor".to_owned())
    }

    fn cache_states(&self) -> &'static [CacheState] {
        CacheState::ALL
    }

    fn fill_target(&self, row: &mut Row, dictionary: &Value) {
        row.target_cpu = dictionary[target::MCPU].as_str().map(str::to_owned);
    }
}

impl DeviceSchedules for Cpu {
    fn factors(&self) -> &'static [FactorInfo] {
        schedule::factors::FACTORS
    }

    fn read_choice(&self, choice: Choice) -> Result<Choice, serde_json::Error> {
        Knobs::of(&choice).map(|knobs| knobs.choice())
    }

    fn combine(&self, space: &Space, settings: &FactorSettings<'_>) -> Combined {
        schedule::combine(space, settings)
    }

    fn fill_schedule(&self, row: &mut Row, choice: &Choice) {
        columns::fill(row, choice);
    }
}

impl DeviceHost for Cpu {
    fn limit_memory(&self, mib: u64) -> std::io::Result<()> {
        super::limit_private_memory(mib)
    }

    fn open(&self, opening: &Opening) -> anyhow::Result<Box<dyn Session>> {
        if let Some(address) = &opening.remote {
            let target = tvm_bridge::Target::new(&opening.dictionary)?;
            let templates = schedule::CpuTemplates::of(&target)?;
            let device = DeviceThere {
                target,
                kind: tvm_bridge::DeviceKind::Cpu,
                templates: Box::new(move || Box::new(templates)),
                accelerator: None,
            };
            return super::remote::open(address, device, opening);
        }
        let session = session::CpuSession::open(&opening.dictionary, opening.max_threads)?;
        Ok(Box::new(session))
    }
}
