//! The imports of a plan: its model, at every batch size and image size that the sweep names.

use anyhow::{Context, bail};
use opmodels::graph::Input;
use opmodels::{Graph, ImportRequest, InputOverride};

use crate::plan::Plan;

/// The requests of a plan, in the order they are measured. `base` is the graph of the plan's own request, which tells
/// the names and shapes of the inputs.
///
/// # Errors
/// Fails if the sweep names image sizes, and the model has no images.
pub(crate) fn requests(plan: &Plan, base: &Graph) -> anyhow::Result<Vec<ImportRequest>> {
    let Some(sweep) = &plan.sweep else {
        return Ok(vec![plan.model.clone()]);
    };
    let batches: Vec<Option<u64>> = match &sweep.batches[..] {
        [] => vec![plan.model.batch],
        some => some.iter().copied().map(Some).collect(),
    };
    let sizes: Vec<Option<u64>> = match &sweep.input_sizes[..] {
        [] => vec![None],
        some => some.iter().copied().map(Some).collect(),
    };
    let mut requests = Vec::new();
    for &size in &sizes {
        for &batch in &batches {
            let mut request = ImportRequest {
                batch,
                ..plan.model.clone()
            };
            if let Some(size) = size {
                resize(&mut request, base, size)
                    .with_context(|| format!("sweep {}, input-size {size}", sweep.name))?;
            }
            requests.push(request);
        }
    }
    Ok(requests)
}

/// Sets the height and width of every image input.
fn resize(request: &mut ImportRequest, base: &Graph, size: u64) -> anyhow::Result<()> {
    let is_image = |input: &&Input| input.shape.len() == 4;
    let mut found = false;
    for input in base.fed().filter(is_image) {
        found = true;
        let [batch, channels, ..] = input.shape[..] else {
            continue;
        };
        let batch = request.batch.unwrap_or(batch);
        request.inputs.retain(|given| given.name != input.name);
        request.inputs.push(InputOverride {
            name: input.name.clone(),
            shape: vec![batch, channels, size, size],
            dtype: None,
        });
    }
    if !found {
        bail!(
            "{} has no input of four dimensions (batch, channels, height, width); leave input-size out",
            request.model
        );
    }
    Ok(())
}
