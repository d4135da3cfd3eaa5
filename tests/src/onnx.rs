//! Writes small ONNX files, field by field, so that the tests need no Python and no binary fixtures.
//!
//! ONNX is a protocol buffer; the field numbers are those of `onnx.proto` (IR version 8, opset 17).

/// A float tensor that goes into or comes out of the graph.
#[derive(Debug, Clone, Copy)]
pub struct Tensor<'a> {
    /// Its name.
    pub name: &'a str,
    /// Its dimensions.
    pub shape: &'a [u64],
}

/// An operator.
#[derive(Debug, Clone, Copy, Default)]
pub struct Node<'a> {
    /// Operator type, e.g. `Relu`.
    pub op: &'a str,
    /// Its name.
    pub name: &'a str,
    /// Names of what it reads.
    pub inputs: &'a [&'a str],
    /// Name of what it writes.
    pub output: &'a str,
    /// Attributes that are integers.
    pub attributes: &'a [(&'a str, u64)],
}

/// The bytes of a model file.
#[must_use]
pub fn model(inputs: &[Tensor<'_>], nodes: &[Node<'_>], output: Tensor<'_>) -> Vec<u8> {
    let mut graph = Vec::new();
    for node in nodes {
        bytes(&mut graph, 1, &node_proto(node));
    }
    bytes(&mut graph, 2, b"graph");
    for input in inputs {
        bytes(&mut graph, 11, &value_info(input));
    }
    bytes(&mut graph, 12, &value_info(&output));

    let mut opset = Vec::new();
    number(&mut opset, 2, 17);

    let mut file = Vec::new();
    number(&mut file, 1, 8);
    bytes(&mut file, 7, &graph);
    bytes(&mut file, 8, &opset);
    file
}

/// The bytes of a model of one rectifier over a tensor `x` of this shape.
#[must_use]
pub fn relu(shape: &[u64]) -> Vec<u8> {
    let tensor = |name| Tensor { name, shape };
    let node = Node {
        op: "Relu",
        name: "act",
        inputs: &["x"],
        output: "y",
        ..Node::default()
    };
    model(&[tensor("x")], &[node], tensor("y"))
}

fn node_proto(node: &Node<'_>) -> Vec<u8> {
    let mut out = Vec::new();
    for input in node.inputs {
        bytes(&mut out, 1, input.as_bytes());
    }
    bytes(&mut out, 2, node.output.as_bytes());
    bytes(&mut out, 3, node.name.as_bytes());
    bytes(&mut out, 4, node.op.as_bytes());
    for (name, value) in node.attributes {
        let mut attribute = Vec::new();
        bytes(&mut attribute, 1, name.as_bytes());
        number(&mut attribute, 3, *value);
        // Attribute type 2 is an integer.
        number(&mut attribute, 20, 2);
        bytes(&mut out, 5, &attribute);
    }
    out
}

fn value_info(tensor: &Tensor<'_>) -> Vec<u8> {
    let mut shape = Vec::new();
    for extent in tensor.shape {
        let mut dimension = Vec::new();
        number(&mut dimension, 1, *extent);
        bytes(&mut shape, 1, &dimension);
    }
    let mut tensor_type = Vec::new();
    // Element type 1 is float32.
    number(&mut tensor_type, 1, 1);
    bytes(&mut tensor_type, 2, &shape);
    let mut kind = Vec::new();
    bytes(&mut kind, 1, &tensor_type);
    let mut out = Vec::new();
    bytes(&mut out, 1, tensor.name.as_bytes());
    bytes(&mut out, 2, &kind);
    out
}

/// A field of varint type.
fn number(out: &mut Vec<u8>, field: u64, value: u64) {
    varint(out, field << 3);
    varint(out, value);
}

/// A field of length-delimited type.
fn bytes(out: &mut Vec<u8>, field: u64, value: &[u8]) {
    varint(out, field << 3 | 2);
    varint(out, value.len() as u64);
    out.extend_from_slice(value);
}

fn varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_written_seven_bits_at_a_time() {
        let mut out = Vec::new();
        number(&mut out, 1, 300);
        assert_eq!(out, [0x08, 0xac, 0x02]);
    }

    #[test]
    fn texts_carry_their_length() {
        let mut out = Vec::new();
        bytes(&mut out, 2, b"ab");
        assert_eq!(out, [0x12, 0x02, b'a', b'b']);
    }
}
