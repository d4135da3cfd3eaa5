//! Finds a call's layer in the source model: that of the weights that it reads.
//!
//! Frontends keep the names of weights (`layer1.0.conv1.weight`) but not those of layers, so the layer is a weight's
//! name without its last part. A call without weights belongs to the layer of the preceding call, whose result it
//! reads.

use std::collections::BTreeMap;

use super::Graph;

/// The layer of calls before the first one with a weight.
const INPUT: &str = "(input)";

/// Last parts of names that say which weight of a layer it is.
#[rustfmt::skip]
const ROLES: [&str; 15] = [
    "weight", "bias", "gamma", "beta", "w", "b", "kernel", "scale", "shift", "mean", "var",
    "running_mean", "running_var", "moving_mean", "moving_var",
];

/// The layer of every call, given the largest weight that it reads, if any.
pub fn layers<'a>(largest_weights: impl IntoIterator<Item = Option<&'a str>>) -> Vec<&'a str> {
    let mut last = INPUT;
    let of_call = |weight: Option<&'a str>| {
        last = weight.map_or(last, layer_of);
        last
    };
    largest_weights.into_iter().map(of_call).collect()
}

impl Graph {
    /// The layers that call each operator, by its symbol, in the order of their first calls.
    #[must_use]
    pub fn layers(&self) -> BTreeMap<&str, Vec<&str>> {
        let layers = layers(self.calls.iter().map(|call| call.weight.as_deref()));
        let mut of: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for (call, layer) in self.calls.iter().zip(layers) {
            let own = of.entry(call.symbol.as_str()).or_default();
            if !own.contains(&layer) {
                own.push(layer);
            }
        }
        of
    }
}

/// A weight's name without its last part, the role in the layer. The name itself if it has no such part.
fn layer_of(weight: &str) -> &str {
    // `cell.weight__499` was derived from `cell.weight` by the import; `conv1_w_0` is Caffe2's `conv1_w`.
    let own = without_number(weight, "__").unwrap_or(weight);
    let before = |name: &'_ str, role: &str| -> Option<usize> {
        let rest = name.strip_suffix(role)?.strip_suffix(['.', '/', '_'])?;
        (!rest.is_empty()).then_some(rest.len())
    };
    // The longest role: `bn1.running_mean` is of `bn1`, not of `bn1.running`.
    let ends = |name: &str| ROLES.iter().filter_map(|role| before(name, role)).min();
    let end = ends(own).or_else(|| ends(without_number(own, "_")?));
    end.map_or(own, |end| &own[..end])
}

/// A name without the digits at its end and the text before them.
fn without_number<'a>(name: &'a str, before: &str) -> Option<&'a str> {
    let rest = name.trim_end_matches(|c: char| c.is_ascii_digit());
    let rest = rest
        .strip_suffix(before)
        .filter(|_| rest.len() < name.len())?;
    (!rest.is_empty()).then_some(rest)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::Call;

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
            ("fire2/expand3x3_w_0", "fire2/expand3x3"),
            ("cell.weight_ih_l1__499", "cell.weight_ih_l1"),
            ("fc.weight__7", "fc"),
            ("__7", "__7"),
        ] {
            assert_eq!(layer_of(weight), layer, "{weight}");
        }
    }

    #[test]
    fn a_call_without_weights_is_of_the_layer_before() {
        let weights = [None, Some("conv1.weight"), None, Some("fc.bias"), None];
        let expected = ["(input)", "conv1", "conv1", "fc", "fc"];
        assert_eq!(layers(weights), expected);
    }

    #[test]
    fn an_operator_has_the_layers_that_call_it_once_each() {
        let mut graph: Graph = serde_json::from_str(crate::graph::tests_sample()).unwrap();
        let call = |symbol: &str, weight: Option<&str>| Call {
            symbol: symbol.to_owned(),
            weight: weight.map(str::to_owned),
            inputs: Vec::new(),
        };
        graph.calls = vec![
            call("conv", Some("b.weight")),
            call("relu", None),
            call("conv", Some("a.weight")),
            call("relu", None),
            call("conv", Some("b.weight")),
        ];
        let layers = graph.layers();
        assert_eq!(layers["conv"], ["b", "a"]);
        assert_eq!(layers["relu"], ["b", "a"]);
    }
}
