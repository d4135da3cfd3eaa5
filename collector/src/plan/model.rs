//! The part of a plan that says which model to take apart, and in which shape.

use std::path::Path;

use opmodels::sources::{self, Architecture, UnknownSource};
use opmodels::{Composites, Fusion, ImportError, ImportRequest, InputOverride, Source};

use super::reader::{bad, hint, optional, required, single, unique};
use super::{PlanError, Planned, parse};
use crate::config::Settings;

/// A larger batch, a longer sequence, or an input of more elements is taken for a
/// mistake.
const MAX_BATCH: u64 = 65_536;
const MAX_SEQLEN: u64 = 1 << 20;
const MAX_SIZE: u64 = 1 << 20;
const MAX_ELEMENTS: u64 = 1 << 40;

const WHOLE: &str = "give a whole number";

impl Planned {
    /// Reads and checks the settings of the model alone.
    pub fn model_of(settings: &Settings) -> Result<ImportRequest, PlanError> {
        Ok(ImportRequest {
            source: source(settings)?,
            model: model_name(settings)?,
            batch: optional(
                settings,
                "batchsize",
                |text| parse::count(text, 1, MAX_BATCH),
                WHOLE,
            )?,
            seqlen: optional(
                settings,
                "seqlen",
                |text| parse::count(text, 1, MAX_SEQLEN),
                WHOLE,
            )?,
            inputs: inputs(settings)?,
            architecture: architecture(settings)?,
            fusion: required(
                settings,
                "fusion",
                |text| Fusion::find(text).ok_or_else(|| "no such way of fusing".to_owned()),
                "give full or none",
            )?,
            composites: optional(
                settings,
                "composites",
                |text| Composites::read(Path::new(text)).map_err(|error| error.to_string()),
                "see docs/models.md for its form",
            )?
            .unwrap_or_default(),
        })
    }
}

/// The sizes of a model that is built from a configuration.
fn architecture(settings: &Settings) -> Result<Architecture, PlanError> {
    let size =
        |key: &'static str| optional(settings, key, |text| parse::count(text, 1, MAX_SIZE), WHOLE);
    Ok(Architecture {
        hidden: size("hidden")?,
        layers: size("layers")?,
        heads: size("heads")?,
        intermediate: size("intermediate")?,
        config: single(settings, "model-config")?.map(|(_, path)| path.into()),
    })
}

fn source(settings: &Settings) -> Result<Source, PlanError> {
    let value = settings.get("modelsource");
    let name = required(settings, "modelsource", |text| Ok(text.to_owned()), "")?;
    Source::find(&name).map_err(|unknown| match unknown {
        UnknownSource::PartOf(source) => bad(
            &value,
            &name,
            &format!("its models are of source '{source}'"),
            &format!("use --modelsource {source} --modelname {name}/NAME"),
        ),
        UnknownSource::None => bad(
            &value,
            &name,
            &format!(
                "no such source of models{}",
                hint(&name, sources::names().iter().copied())
            ),
            &format!("give {}", one_of(sources::names())),
        ),
    })
}

/// `a, b or c`.
fn one_of(words: &[&str]) -> String {
    match words {
        [] => String::new(),
        [only] => (*only).to_owned(),
        [others @ .., last] => format!("{} or {last}", others.join(", ")),
    }
}

fn model_name(settings: &Settings) -> Result<String, PlanError> {
    let source = source(settings)?;
    single(settings, "modelname")?
        .map(|(_, text)| text)
        .ok_or_else(|| PlanError::Missing {
            key: "modelname",
            next: source.naming().to_owned(),
        })
}

fn inputs(settings: &Settings) -> Result<Vec<InputOverride>, PlanError> {
    let next = "give name:shape[:dtype], e.g. --input data:1x3x224x224:float32";
    let inputs = unique(settings, "input", read_input, next)?;
    for (index, input) in inputs.iter().enumerate() {
        if inputs[..index].iter().any(|other| other.name == input.name) {
            return Err(bad(
                &settings.get("input"),
                &input.to_string(),
                "this input has been given another shape already",
                "give each input once",
            ));
        }
    }
    Ok(inputs)
}

fn read_input(text: &str) -> Result<InputOverride, String> {
    let input: InputOverride = text.parse().map_err(|error: ImportError| {
        // The setting's name and text stand before the problem already.
        let message = error.to_string();
        let problem = message.strip_prefix(&format!("input '{text}': "));
        problem.map_or(message.clone(), str::to_owned)
    })?;
    let elements = input
        .shape
        .iter()
        .try_fold(1u64, |product, extent| product.checked_mul(*extent));
    if elements.is_none_or(|elements| elements > MAX_ELEMENTS) {
        return Err("it has more elements than any machine holds".to_owned());
    }
    Ok(input)
}
