//! VTA on a PYNQ board, simulated: the target `pynq`.
//!
//! [`operator`] finds the part of an operator that the accelerator can run ([`bytes`] for quantised operators).
//! [`knobs`] has its configurations. [`compiler`] lowers it with the crate `vtasim`, [`arithmetic`] quantises and runs
//! it, and [`session`] reports what the simulator counted. The rest would run on the board's Cortex-A9. Its time is
//! missing, because it can be measured only on a board.

mod arithmetic;
mod bytes;
mod chip;
mod compiler;
mod knobs;
mod operator;
mod session;

use opdata::contract::Environment;
use opdata::{DeviceKind, Row};
use serde_json::{Value, json};
use tvm_bridge::rpc::server::Answer;
use vtasim::Profile;

use super::remote::connect::{WAIT, connect};
use super::{
    DeviceHost, DevicePlan, DeviceSchedules, Finding, Opening, Session, Sharing, Target,
    TargetOption, TargetProblem,
};
use crate::schedule::{Choice, Combined, FactorInfo, FactorSettings, Space};

/// The device.
#[derive(Debug, Clone, Copy)]
pub struct Vta;

/// The option that names the profile of the hardware build.
const PROFILE: &str = "profile";
/// The simulator's name in rows.
const SIMULATOR: &str = "vta-sim";

/// The profile of a target.
fn profile_of(target: &Target) -> Result<Profile, TargetProblem> {
    let default = Profile::names().next().unwrap_or_default();
    let name = target.value(PROFILE).unwrap_or(default);
    Profile::find(name).map_err(|error| TargetProblem {
        problem: error.to_string(),
        next: format!(
            "profiles are {}, or your own TOML file",
            Profile::names().collect::<Vec<_>>().join(", ")
        ),
    })
}

/// The profile in a dictionary: all of it, so that a worker needs no file.
fn profile_in(dictionary: &Value) -> Option<Profile> {
    serde_json::from_value(dictionary[PROFILE].clone()).ok()
}

impl DevicePlan for Vta {
    fn name(&self) -> &'static str {
        "pynq"
    }

    fn title(&self) -> &'static str {
        "the VTA accelerator of a PYNQ board, simulated"
    }

    fn kind(&self) -> DeviceKind {
        DeviceKind::VTA_SIM
    }

    fn sharing(&self) -> Sharing {
        Sharing::SideBySide
    }

    fn has_host_threads(&self) -> bool {
        false
    }

    fn profiles(&self) -> bool {
        true
    }

    fn check_remote(&self, _target: &Target) -> Result<(), TargetProblem> {
        Ok(())
    }

    fn options(&self) -> &'static [TargetOption] {
        const { &[TargetOption::one(PROFILE, "NAME")] }
    }

    fn check(&self, target: &Target) -> Result<(), TargetProblem> {
        profile_of(target).map(|_| ())
    }

    fn dictionary(&self, target: &Target, _machine: &Environment) -> Value {
        let profile = profile_of(target).ok();
        json!({ "kind": self.name(), PROFILE: profile })
    }

    fn describe_target(&self, dictionary: &Value) -> String {
        let name = dictionary[PROFILE]["name"].as_str().unwrap_or_default();
        format!("{} -{PROFILE}={name}", self.name())
    }

    fn hardware(&self, _machine: &Environment) -> String {
        "VTA, simulated".to_owned()
    }

    fn simulation(&self, dictionary: &Value) -> Option<String> {
        let profile = profile_in(dictionary)?;
        let error = match profile.calibration.left_out_error_percent {
            Some(percent) => format!("{percent:.1} % off boards on tasks left out of its fit"),
            None => format!("not calibrated: {}", profile.doubts.join(" ")),
        };
        Some(format!(
            "times are simulated by {SIMULATOR} with the profile {} ({error}); nothing was measured",
            profile.name
        ))
    }

    fn fill_target(&self, row: &mut Row, dictionary: &Value) {
        row.simulator = Some(SIMULATOR.to_owned());
        let Some(profile) = profile_in(dictionary) else {
            return;
        };
        let calibration = profile.calibration;
        row.simulator_profile = Some(profile.name);
        row.simulator_calibration = Some(format!("{} ({})", calibration.source, calibration.date));
        row.simulator_error_percent = calibration.left_out_error_percent;
    }
}

impl DeviceSchedules for Vta {
    fn factors(&self) -> &'static [FactorInfo] {
        knobs::FACTORS
    }

    fn read_choice(&self, choice: Choice) -> Result<Choice, serde_json::Error> {
        knobs::config_of(&choice).map(|config| knobs::choice_of(&config))
    }

    fn combine(&self, space: &Space, settings: &FactorSettings<'_>) -> Combined {
        knobs::combine(space, settings)
    }

    fn fill_schedule(&self, row: &mut Row, choice: &Choice) {
        if let Ok(config) = knobs::config_of(choice) {
            row.knob_tile_spatial = Some(format!("{}x{}", config.tile_h, config.tile_w));
            row.knob_tile_cache = Some(config.tile_co.to_string());
            row.knob_tile_reduction = Some(config.tile_ci.to_string());
            row.knob_parallel_extent = Some(config.threads());
        }
    }
}

impl DeviceHost for Vta {
    fn limit_memory(&self, mib: u64) -> std::io::Result<()> {
        super::limit_private_memory(mib)
    }

    fn serve(&self) -> anyhow::Result<Vec<Answer>> {
        Ok(chip::answers())
    }

    fn findings(&self) -> Vec<Finding> {
        let names: Vec<&str> = Profile::names().collect();
        vec![Finding::fine(
            "VTA",
            format!(
                "simulated, no board is asked; profiles {}",
                names.join(", ")
            ),
        )]
    }

    fn open(&self, opening: &Opening) -> anyhow::Result<Box<dyn Session>> {
        let profile = profile_in(&opening.dictionary);
        let profile = profile.ok_or_else(|| anyhow::anyhow!("the target has no profile of VTA"))?;
        let connected = |address| connect(address, &opening.avoid, WAIT);
        let server = opening.remote.as_ref().map(connected).transpose()?;
        Ok(Box::new(session::VtaSession::open(profile, server)?))
    }
}
