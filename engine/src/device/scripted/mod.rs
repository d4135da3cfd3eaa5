//! A device for tests: real kernels, and times that follow from knobs and conditions alone.
//!
//! It is what a new device that LLVM compiles for looks like: one folder and one line in [`super::ALL`]. Kernels are
//! compiled by LLVM and run on the CPU, so that they can be checked. Its clock, its counter and its reference kernel
//! are scripted, so every row of a run is known before it begins. It has an option, a template with two factors and a
//! condition (`clock`) of its own.

mod grid;
mod session;

use opdata::contract::Environment;
use opdata::{DeviceKind, Row};
use serde_json::{Value, json};

use super::{
    ConditionInfo, DeviceHost, DevicePlan, DeviceSchedules, Opening, Session, Sharing, Target,
    TargetOption, TargetProblem,
};
use crate::schedule::{Choice, Combined, FactorInfo, FactorSettings, Space};
use grid::Grid;

/// The device.
#[derive(Debug, Clone, Copy)]
pub struct Scripted;

/// The option that names the model of the device.
const MODEL: &str = "model";
/// The models there are; the first is the default.
const MODELS: [&str; 2] = ["abacus", "quipu"];

impl DevicePlan for Scripted {
    fn name(&self) -> &'static str {
        "scripted"
    }

    fn title(&self) -> &'static str {
        "scripted times, for tests"
    }

    fn kind(&self) -> DeviceKind {
        DeviceKind::named("scripted")
    }

    fn sharing(&self) -> Sharing {
        Sharing::SideBySide
    }

    fn options(&self) -> &'static [TargetOption] {
        const { &[TargetOption::one(MODEL, "NAME")] }
    }

    fn check(&self, target: &Target) -> Result<(), TargetProblem> {
        match target.value(MODEL) {
            Some(name) if !MODELS.contains(&name) => Err(TargetProblem {
                problem: format!("there is no model `{name}`"),
                next: format!("models are {}", MODELS.join(", ")),
            }),
            _ => Ok(()),
        }
    }

    fn dictionary(&self, target: &Target, _machine: &Environment) -> Value {
        json!({ "kind": self.name(), MODEL: target.value(MODEL).unwrap_or(MODELS[0]) })
    }

    fn describe_target(&self, dictionary: &Value) -> String {
        let model = dictionary[MODEL].as_str().unwrap_or_default();
        format!("{} -{MODEL}={model}", self.name())
    }

    fn hardware(&self, _machine: &Environment) -> String {
        "a script".to_owned()
    }

    fn conditions(&self) -> &'static [ConditionInfo] {
        &[ConditionInfo {
            name: session::CLOCK,
            about: "how fast the clock runs",
            values: &["low", "high"],
        }]
    }

    fn fill_target(&self, row: &mut Row, dictionary: &Value) {
        row.engine = dictionary[MODEL].as_str().map(str::to_owned);
    }
}

impl DeviceSchedules for Scripted {
    fn factors(&self) -> &'static [FactorInfo] {
        grid::FACTORS
    }

    fn read_choice(&self, choice: Choice) -> Result<Choice, serde_json::Error> {
        Grid::of(&choice).map(|grid| grid.choice())
    }

    fn combine(&self, space: &Space, settings: &FactorSettings<'_>) -> Combined {
        grid::combine(space, settings)
    }

    fn fill_schedule(&self, row: &mut Row, choice: &Choice) {
        if let Ok(grid) = Grid::of(choice) {
            row.knob_tile_spatial = Some(grid.grain.to_string());
            row.knob_level_order = Some(grid.style.word().to_owned());
        }
    }
}

impl DeviceHost for Scripted {
    fn limit_memory(&self, _mib: u64) -> std::io::Result<()> {
        Ok(())
    }

    fn open(&self, _opening: &Opening) -> anyhow::Result<Box<dyn Session>> {
        Ok(Box::new(session::ScriptedSession::open()?))
    }
}
