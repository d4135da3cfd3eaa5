//! Tests of the graph's types against a small graph.json as the importer writes it.

use super::*;

/// A 1x1 convolution with bias, called twice, and a softmax.
pub(crate) const SAMPLE: &str = r#"{"format":1,"source":"onnx","model":"tiny","versions":{"tvm":"0.27"},"batch":1,"entry":"main",
"inputs":[
 {"name":"x","shape":[1,4,2,2],"dtype":"float32","role":"input","fill":{"kind":"normal","std":1.0},"layout":null,"data":null},
 {"name":"w","shape":[1,4,1,1,4],"dtype":"float32","role":"param","fill":{"kind":"normal","std":0.7},
  "layout":{"original_shape":[4,4,1,1],"transpose":null,"block_axis":0,"block":4},"data":{"offset":64,"bytes":64}}],
"outputs":[{"name":"y","shape":[1,4,2,2],"dtype":"float32"}],
"reference":{"inputs":[{"name":"x","offset":0,"bytes":64}],"outputs":[{"index":0,"offset":64,"bytes":64,"shape":[1,4,2,2],"dtype":"float32"}],"rtol":0.001,"atol":1e-5,"origin":"y.pb"},
"operators":[{"symbol":"conv2d_add","name":"conv2d_add","kind":"conv2d","pattern":"out_ewise_fusable","count":2,
 "args":[{"name":"input0","shape":[1,4,2,2],"dtype":"float32","role":"input","fill":{"kind":"normal","std":1.0}},
  {"name":"weight0","shape":[1,4,1,1,4],"dtype":"float32","role":"weight","fill":{"kind":"normal","std":0.7}},
  {"name":"output0","shape":[1,4,2,2],"dtype":"float32","role":"output","fill":{"kind":"const","value":0.0}}],
 "attrs":{"kernel":[1,1],"stride":[1,1],"padding":[0,0,0,0],"dilation":[1,1],"groups":1,"in_channels":4,"out_channels":4,"weight_layout":"OIHW4o","axis":1},
 "flops":128,"flops_epilogue":16,"bytes_read":128,"bytes_written":64,"weight_reuse_bytes":656,"output_reuse_bytes":null,
 "loops":[{"name":"ff","extent":4,"kind":"spatial"},{"name":"rc","extent":4,"kind":"reduction"}],
 "blocks":[{"name":"conv2d","role":"anchor","iters":[{"name":"ff","extent":4,"kind":"spatial"}],
  "reads":[{"buffer":"x","shape":[1,4,2,2],"dtype":"float32","index_iters":[["nn"],["rc"],["yy","ry"],["xx","rx"]]}],"writes":[]}]}],
"calls":[{"symbol":"conv2d_add","weight":"w"},{"symbol":"conv2d_add","weight":null}]}"#;

fn sample() -> Graph {
    serde_json::from_str(SAMPLE).unwrap()
}

#[test]
fn graphs_read_and_write_without_loss() {
    let graph = sample();
    let again: Graph = serde_json::from_str(&serde_json::to_string(&graph).unwrap()).unwrap();
    assert_eq!(again, graph);
    let operator = graph.operator("conv2d_add").unwrap();
    assert_eq!(operator.attrs.other["axis"], 1);
    assert_eq!(operator.kind.to_string(), "conv2d");
    assert!(graph.operator("conv2d").is_none());
}

#[test]
fn totals_weigh_operators_by_their_count() {
    let totals = sample().totals();
    assert_eq!(
        (
            totals.calls,
            totals.flops,
            totals.flops_epilogue,
            totals.bytes_read,
            totals.bytes_written
        ),
        (2, 256, 32, 256, 128)
    );
    assert_eq!(totals.weight_elements, 16);
    assert_eq!(
        sample().operators[0].arithmetic_intensity(),
        Some(144.0 / 192.0)
    );
}

#[test]
fn roles_select_arguments_blocks_and_inputs() {
    let graph = sample();
    let operator = &graph.operators[0];
    assert_eq!(operator.args_of(ArgumentRole::Weight).count(), 1);
    assert_eq!(operator.blocks_of(BlockRole::Epilogue).count(), 0);
    assert_eq!((graph.fed().count(), graph.weights().count()), (1, 1));
}

#[test]
fn workload_hashes_follow_the_computation_and_not_its_names() {
    let original = sample().operators.remove(0);
    let mut renamed = original.clone();
    renamed.symbol = "conv2d_add_7".into();
    renamed.count = 5;
    renamed.blocks[0].reads[0].buffer = "lv3".into();
    assert_eq!(renamed.workload_hash(), original.workload_hash());
    let mut strided = original.clone();
    strided.attrs.stride = Some(vec![2, 2]);
    let mut grown = original.clone();
    grown.args[0].shape[0] = 2;
    assert_ne!(strided.workload_hash(), original.workload_hash());
    assert_ne!(grown.workload_hash(), original.workload_hash());
    assert_eq!(original.workload_hash().len(), 16);
}

#[test]
fn every_kind_serialises_as_its_name() {
    for kind in [
        OperatorKind::DepthwiseConv2d,
        OperatorKind::Conv1d,
        OperatorKind::GlobalAvgPool,
        OperatorKind::Lrn,
    ] {
        assert_eq!(serde_json::to_value(kind).unwrap(), kind.name());
    }
}
