//! The template `vta`: the configuration of a convolution, as knobs of a sweep and as annotations of its block.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use serde::{Deserialize, Serialize};
use tvm_bridge::{PrimFunc, Result, Schedule};
use vtasim::{Config, Profile, Space as Configs, Tail, Workload, lower, timing};

use super::operator::{Offload, offload};
use crate::schedule::{
    Choice, Combined, Dimension, FactorInfo, FactorSettings, FactorValue, Space, Templates, unfit,
};

const NAME: &str = "vta";
/// Prefix of a knob's name in annotations.
const ANNOTATION: &str = "vta.";

/// The tail of an operator as far as instructions depend on it; its constants are set when scales are known.
pub(super) const TAIL: Tail = Tail {
    bias: true,
    shift: 8,
    min: -128,
    max: 127,
};

/// The factors of the template.
pub(super) const FACTORS: &[FactorInfo] = &[
    FactorInfo::named("tile_b", "blocks of images in a tile"),
    FactorInfo::named("tile_h", "output rows in a tile"),
    FactorInfo::named("tile_w", "output columns in a tile"),
    FactorInfo::named("tile_ci", "blocks of input channels in a tile"),
    FactorInfo::named("tile_co", "blocks of output channels in a tile"),
    FactorInfo::named("oc_nthread", "virtual threads over output channels"),
    FactorInfo::named("h_nthread", "virtual threads over output rows"),
];

/// The configuration of a choice.
///
/// # Errors
/// Fails if it is of another template, or lacks a knob.
pub(super) fn config_of(choice: &Choice) -> std::result::Result<Config, serde_json::Error> {
    use serde::de::Error;
    match choice.template.as_str() {
        NAME => choice.knobs(),
        other => Err(serde_json::Error::custom(format!(
            "unknown template `{other}`, expected `{NAME}`"
        ))),
    }
}

/// A configuration as a choice.
pub(super) fn choice_of(config: &Config) -> Choice {
    Choice::new(NAME, config)
}

/// The configuration that a scheduled function is annotated with. `None` if it does not run on VTA.
pub(super) fn annotated(function: &PrimFunc) -> Result<Option<Config>> {
    let script = function.script()?;
    let mut config = Config::ONES;
    for (knob, _) in config.knobs() {
        let key = format!("\"{ANNOTATION}{knob}\": ");
        let Some((_, rest)) = script.split_once(&key) else {
            return Ok(None);
        };
        let digits: String = rest
            .chars()
            .skip_while(|c| !c.is_ascii_digit())
            .take_while(char::is_ascii_digit)
            .collect();
        config.set(knob, digits.parse().unwrap_or_default());
    }
    Ok(Some(config))
}

/// The sizes that a space is checked against.
#[derive(Debug, Serialize, Deserialize)]
struct Shape {
    workload: Workload,
    profile: Profile,
}

/// The schedule of a space with these settings.
///
/// # Errors
/// Fails if the configuration could not be compiled.
pub(super) fn combine(space: &Space, settings: &FactorSettings<'_>) -> Combined {
    let Ok(mut config) = config_of(&space.base) else {
        return Ok(space.base.clone());
    };
    for (dimension, setting) in settings {
        let FactorValue::Number(value) = setting else {
            return Err(format!("{} cannot be {setting}", dimension.name()));
        };
        let value =
            u64::try_from(*value).map_err(|_| format!("{} cannot be {value}", dimension.name()))?;
        if !config.set(dimension.factor.name(), value) {
            return Err(format!("there is no knob {}", dimension.name()));
        }
    }
    let shape: Option<Shape> = space.shape().map_err(|e| e.to_string())?;
    if let Some(shape) = shape {
        lower(&shape.profile.hardware, &shape.workload, &config, TAIL)
            .map_err(|e| e.to_string())?;
    }
    Ok(choice_of(&config))
}

/// The template, for one profile. The fastest configuration of a workload is looked for once.
#[derive(Debug)]
pub(super) struct VtaTemplate {
    pub profile: Arc<Profile>,
    best: Mutex<HashMap<Workload, Option<Config>>>,
}

impl VtaTemplate {
    pub fn new(profile: Arc<Profile>) -> VtaTemplate {
        VtaTemplate {
            profile,
            best: Mutex::default(),
        }
    }

    fn offload(&self, function: &PrimFunc) -> Result<Offload> {
        offload(function, self.profile.hardware.block).map_err(|refusal| unfit(&refusal))
    }

    fn best(&self, workload: &Workload) -> Option<Config> {
        if let Some(known) = self
            .best
            .lock()
            .ok()
            .and_then(|best| best.get(workload).copied())
        {
            return known;
        }
        let found = timing::best::best(&self.profile, workload, TAIL).map(|(config, _)| config);
        if let Ok(mut best) = self.best.lock() {
            best.insert(*workload, found);
        }
        found
    }

    fn annotate(&self, schedule: &Schedule, config: &Config) -> Result<Choice> {
        for block in schedule.blocks()? {
            if schedule.info(&block)?.is_reduction() {
                for (knob, value) in config.knobs() {
                    schedule.annotate_block(
                        &block,
                        &format!("{ANNOTATION}{knob}"),
                        value as i64,
                    )?;
                }
                return Ok(choice_of(config));
            }
        }
        Err(unfit("it has no sum of products"))
    }
}

impl Templates for VtaTemplate {
    fn suggest(&self, schedule: &Schedule, attempt: usize) -> Option<Result<Choice>> {
        if attempt > 0 {
            return None;
        }
        let suggestion = schedule.function().and_then(|function| {
            let offload = self.offload(&function)?;
            let config = self.best(&offload.workload);
            let config = config.ok_or_else(|| unfit("no configuration of it fits the chip"))?;
            self.annotate(schedule, &config)
        });
        Some(suggestion)
    }

    fn apply(&self, schedule: &Schedule, choice: &Choice) -> Result<Choice> {
        let config = config_of(choice).map_err(|error| unfit(&error.to_string()))?;
        let offload = self.offload(&schedule.function()?)?;
        lower(&self.profile.hardware, &offload.workload, &config, TAIL)
            .map_err(|invalid| unfit(&invalid.to_string()))?;
        self.annotate(schedule, &config)
    }

    fn space(&self, function: &PrimFunc) -> Result<Space> {
        let fixed = || Ok(Space::fixed(Choice::unscheduled()));
        let Ok(offload) = self.offload(function) else {
            return fixed();
        };
        let (Some(base), Ok(packed)) = (
            self.best(&offload.workload),
            offload.workload.packed(&self.profile.hardware),
        ) else {
            return fixed();
        };
        let dimensions = Configs::of(&packed)
            .values
            .into_iter()
            .zip(base.knobs())
            .zip(FACTORS);
        let dimensions = dimensions.map(|(((_, values), (_, own)), info)| {
            let values = values.into_iter().map(|value| value as i64);
            Dimension::numbers(info.factor.clone(), values, own as i64)
        });
        let shape = Shape {
            workload: offload.workload,
            profile: Profile::clone(&self.profile),
        };
        Space::with_shape(choice_of(&base), dimensions.collect(), &shape)
            .map_err(|error| unfit(&error.to_string()))
    }
}
