//! Which layer of the source model a call belongs to: that of the weights that it reads.
//!
//! Frontends keep the names of weights (`layer1.0.conv1.weight`) but not those of layers, so the layer is a weight's name
//! without its last part. A call without weights belongs to the layer whose result it reads: that of the call before it.

use opengine::protocol::ProfiledCall;
use opmodels::graph::{Graph, InputRole};

/// What stands before the first call with a weight.
const INPUT: &str = "(input)";

/// Last parts of names that say which weight of a layer it is.
const ROLES: [&str; 15] = [
    "weight",
    "bias",
    "gamma",
    "beta",
    "w",
    "b",
    "kernel",
    "scale",
    "shift",
    "mean",
    "var",
    "running_mean",
    "running_var",
    "moving_mean",
    "moving_var",
];

/// The layer of every call.
pub(super) fn layers(graph: &Graph, calls: &[ProfiledCall]) -> Vec<String> {
    let mut last = INPUT.to_owned();
    calls
        .iter()
        .map(|call| {
            let weight = call.arguments.iter().find_map(|argument| {
                let input = graph.inputs.get(argument.input?)?;
                (input.role == InputRole::Param).then_some(input.name.as_str())
            });
            if let Some(weight) = weight {
                last = layer_of(weight).to_owned();
            }
            last.clone()
        })
        .collect()
}

/// A weight's name without the part that says which of its layer's it is; the name itself where it has none.
fn layer_of(weight: &str) -> &str {
    let before = |role: &str| {
        let rest = weight.strip_suffix(role)?.strip_suffix(['.', '/', '_'])?;
        (!rest.is_empty()).then_some(rest)
    };
    // The longest role: `bn1.running_mean` is of `bn1`, not of `bn1.running`.
    let layers = ROLES.iter().filter_map(|role| before(role));
    layers.min_by_key(|layer| layer.len()).unwrap_or(weight)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_layer_is_its_weights_name_without_the_role() {
        for (weight, layer) in [
            ("layer1.0.conv1.weight", "layer1.0.conv1"),
            ("resnetv17_dense0_bias", "resnetv17_dense0"),
            ("norm1.shift", "norm1"),
            ("bn1.running_mean", "bn1"),
            ("conv1", "conv1"),
            ("weight", "weight"),
            ("p_12", "p_12"),
        ] {
            assert_eq!(layer_of(weight), layer, "{weight}");
        }
    }
}
