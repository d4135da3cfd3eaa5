//! Source `local`: the models of the registry, by name or alias.

pub mod registry;

use super::{Context, ModelSource, Resolved};
use crate::error::{ImportError, Result};
use crate::files;
use crate::sources::request::{ImportRequest, InputOverride};
use registry::{Dim, Model};

/// The source.
pub(super) struct Local;

impl ModelSource for Local {
    fn name(&self) -> &'static str {
        "local"
    }

    fn naming(&self) -> &'static str {
        "name a model, e.g. --modelname resnet-18; `opcollect list models` shows them"
    }

    fn is_onnx(&self) -> bool {
        true
    }

    fn resolve(&self, request: &ImportRequest, context: &mut Context<'_>) -> Result<Resolved> {
        let model = context.registry.find(&request.model)?;
        let bad = |message: String| ImportError::BadShape { message };
        if request.seqlen.is_some() && !model.has_symbol("seq") {
            return Err(bad(format!(
                "{} has no sequence dimension, so --seqlen means nothing for it",
                model.name
            )));
        }
        for (label, number, limit) in [
            ("batch size", request.batch, model.limits.batch),
            ("sequence length", request.seqlen, model.limits.seq),
        ] {
            if let (Some(number), Some(limit)) = (number, limit)
                && number > limit
            {
                return Err(bad(format!(
                    "{label} {number} is beyond what {} allows ({limit})",
                    model.name
                )));
            }
        }
        for given in &request.inputs {
            check_override(model, given)?;
        }
        let file = context.registry.file(model);
        files::require_model(&file)?;
        Ok(Resolved {
            model: model.name.clone(),
            batch: request.batch.or(model.defaults.batch),
            seqlen: request.seqlen.or(model.defaults.seq),
            fills: model
                .inputs
                .iter()
                .filter_map(|i| Some((i.name.clone(), i.fill?)))
                .collect(),
            ..Resolved::of_file(request, file)
        })
    }
}

/// Whether an override names an input of the model and has its rank.
fn check_override(model: &Model, given: &InputOverride) -> Result<()> {
    let Some(input) = model.inputs.iter().find(|i| i.name == given.name) else {
        return Err(ImportError::UnknownInput {
            name: given.name.clone(),
            inputs: model.inputs.iter().map(|i| i.name.clone()).collect(),
        });
    };
    if input.shape.len() != given.shape.len() {
        let shown: Vec<String> = input.shape.iter().map(Dim::to_string).collect();
        return Err(ImportError::BadShape {
            message: format!(
                "input '{}' of {} has {} dimensions ({}), but {} were given",
                given.name,
                model.name,
                input.shape.len(),
                shown.join("x"),
                given.shape.len()
            ),
        });
    }
    Ok(())
}
