//! The kind of a libtorch operator, in the project's words for TVM's operators.

/// Names of operators, without `aten::`, and their kind; `*` matches any suffix.
const KINDS: &[(&str, &str)] = &[
    ("conv_transpose*", "conv_transpose"),
    ("conv1d", "conv1d"),
    ("conv2d", "conv2d"),
    ("conv3d", "conv3d"),
    ("_convolution*", "conv2d"),
    ("convolution*", "conv2d"),
    ("linear", "dense"),
    ("addmm", "dense"),
    ("mm", "dense"),
    ("bmm", "batch_matmul"),
    ("baddbmm", "batch_matmul"),
    ("matmul", "matmul"),
    ("einsum", "batch_matmul"),
    ("scaled_dot_product_attention", "attention"),
    ("_native_multi_head_attention", "attention"),
    ("*max_pool*", "max_pool"),
    ("adaptive_avg_pool*", "global_avg_pool"),
    ("avg_pool*", "avg_pool"),
    ("batch_norm", "batch_norm"),
    ("layer_norm", "layer_norm"),
    ("native_layer_norm", "layer_norm"),
    ("group_norm", "layer_norm"),
    ("*softmax", "softmax"),
    ("embedding", "gather"),
    ("gather", "gather"),
    ("index*", "gather"),
    ("mean", "reduce"),
    ("sum", "reduce"),
    ("amax", "reduce"),
    ("argmax", "reduce"),
    ("cat", "concat"),
    ("concat", "concat"),
    ("lstm", "lstm"),
    ("gru", "gru"),
    ("upsample*", "resize"),
    ("view", "view"),
    ("reshape", "view"),
    ("flatten", "view"),
    ("expand*", "view"),
    ("permute", "view"),
    ("transpose", "view"),
    ("t", "view"),
    ("slice", "view"),
    ("select", "view"),
    ("unsqueeze", "view"),
    ("squeeze", "view"),
    ("split*", "view"),
    ("chunk", "view"),
    ("unbind", "view"),
    ("unflatten", "view"),
    ("detach", "view"),
    ("alias", "view"),
    ("contiguous", "copy"),
    ("clone", "copy"),
    ("copy_", "copy"),
    ("to", "copy"),
    ("roll", "copy"),
    ("pad", "pad"),
    ("constant_pad_nd", "pad"),
    ("dropout*", "dropout"),
    ("arange", "constant"),
    ("zeros", "constant"),
    ("ones", "constant"),
    ("full", "constant"),
    ("empty*", "constant"),
];

/// The kind of an operator. Operators that are in no list count as element-wise.
pub fn kind(name: &str) -> &'static str {
    let name = name.strip_prefix("aten::").unwrap_or(name);
    let found = KINDS.iter().find(|(pattern, _)| fits(pattern, name));
    found.map_or("elementwise", |(_, kind)| kind)
}

/// All kinds, some more than once.
pub fn names() -> impl Iterator<Item = &'static str> {
    let elementwise = std::iter::once("elementwise");
    elementwise.chain(KINDS.iter().map(|(_, kind)| *kind))
}

/// Whether a name matches a pattern, in which `*` matches any prefix or suffix.
pub fn fits(pattern: &str, name: &str) -> bool {
    let inner = pattern.trim_matches('*');
    match (pattern.starts_with('*'), pattern.ends_with('*')) {
        (false, false) => name == inner,
        (false, true) => name.starts_with(inner),
        (true, false) => name.ends_with(inner),
        (true, true) => name.contains(inner),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operators_have_the_kind_that_their_name_says() {
        for (name, expected) in [
            ("aten::conv2d", "conv2d"),
            ("aten::conv_transpose2d", "conv_transpose"),
            ("aten::linear", "dense"),
            ("aten::max_pool2d", "max_pool"),
            ("aten::_softmax", "softmax"),
            ("aten::relu_", "elementwise"),
            ("aten::t", "view"),
            ("aten::tanh", "elementwise"),
        ] {
            assert_eq!(kind(name), expected, "{name}");
        }
    }
}
