//! A made-up profile: an allocation and a convolution on two threads, in two runs.

use std::collections::BTreeMap;

use opengine::measure::counters::Counter;
use opengine::protocol::{
    CallCounts, Profiled, ProfiledArgument, ProfiledCall, ProfiledCycle, ProfiledStep,
    StepSchedule, TaskSpan,
};
use opmodels::graph::{Fill, Graph, Input, InputRole};

use crate::profile::ProfiledModel;

fn input(name: &str, role: InputRole) -> Input {
    Input {
        name: name.to_owned(),
        shape: vec![1, 100],
        dtype: "float32".to_owned(),
        role,
        fill: Fill::Normal { std: 1.0 },
        layout: None,
        data: None,
    }
}

fn argument(input: Option<usize>) -> ProfiledArgument {
    ProfiledArgument {
        shape: vec![1, 100],
        dtype: "float32".to_owned(),
        input,
    }
}

/// One run that begins at `begin` and takes 1 us: 100 ns for the allocation and 800 ns for the convolution.
fn step(begin: u64) -> ProfiledStep {
    let task = |thread, length| TaskSpan {
        thread,
        span: (begin + 200, begin + 200 + length),
    };
    ProfiledStep {
        span: (begin, begin + 1_000),
        calls: vec![(begin + 10, begin + 110), (begin + 150, begin + 950)],
        tasks: vec![task(0, 700), task(1, 500)],
    }
}

/// The profile.
pub(crate) fn model() -> ProfiledModel {
    let operator = serde_json::json!({
        "symbol": "fused_conv2d_relu", "name": "conv2d_relu", "kind": "conv2d",
        "pattern": "out_ewise_fusable", "count": 1,
        "args": [{ "name": "x", "shape": [1, 100], "dtype": "float32", "role": "input",
                   "fill": { "kind": "normal", "std": 1.0 } }],
        "attrs": {}, "flops": 30_000, "flops_epilogue": 2_000, "bytes_read": 800,
        "bytes_written": 400, "loops": [], "blocks": [],
    });
    ProfiledModel {
        graph: Graph {
            format: opmodels::graph::FORMAT,
            source: "simple".to_owned(),
            model: "made-up".to_owned(),
            versions: BTreeMap::new(),
            batch: 1,
            entry: "main".to_owned(),
            inputs: vec![
                input("data", InputRole::Input),
                input("layer1.conv1.weight", InputRole::Param),
            ],
            outputs: Vec::new(),
            reference: None,
            check: Default::default(),
            operators: vec![serde_json::from_value(operator).unwrap()],
            calls: Vec::new(),
        },
        target: serde_json::json!({ "kind": "llvm", "mcpu": "generic" }),
        described: "llvm -mcpu=generic".to_owned(),
        cpu: Some("A processor".to_owned()),
        simulation: None,
        threads: 2,
        schedule: StepSchedule {
            skip_first: 0,
            wait: 0,
            warmup: 1,
            active: 2,
            repeat: 1,
        },
        checked_against: "the model run in plain loops".to_owned(),
        calibration: None,
        profiled: Profiled {
            calls: vec![
                ProfiledCall {
                    symbol: "vm.builtin.alloc_storage".to_owned(),
                    parent: None,
                    arguments: Vec::new(),
                    allocated_bytes: 0,
                    freed_bytes: 0,
                    live_bytes: 0,
                },
                ProfiledCall {
                    symbol: "fused_conv2d_relu".to_owned(),
                    parent: None,
                    arguments: vec![argument(Some(0)), argument(Some(1)), argument(None)],
                    allocated_bytes: 400,
                    freed_bytes: 0,
                    live_bytes: 400,
                },
            ],
            cycles: vec![ProfiledCycle {
                first_step: 1,
                steps: vec![step(5_000), step(7_000)],
            }],
            pairs: (0..10)
                .map(|i| (990.0 + f64::from(i % 3), 1_000.0))
                .collect(),
            counts: vec![
                CallCounts {
                    source: "perf".to_owned(),
                    counter: Counter::new("page-faults", "events"),
                    of_calls: Ok(vec![1.5, 12_345.0]),
                },
                CallCounts {
                    source: "perf".to_owned(),
                    counter: Counter::new("cycles", "cycles"),
                    of_calls: Err("there is no PMU".to_owned()),
                },
            ],
            storage_bytes: 512,
            slowdown: 1.01,
        },
    }
}
