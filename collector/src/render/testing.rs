//! Made-up reports for the snapshot tests of this folder.

use std::collections::BTreeMap;

use opdata::{CacheState, Quality, RunState, Status};
use opengine::device::Conditions;
use opmodels::{ImportRequest, Source};

use crate::report::*;

fn time(median_ns: f64, quality: Quality) -> TimeReport {
    TimeReport {
        median_ns,
        ci_low_ns: median_ns * 0.99,
        ci_high_ns: median_ns * 1.015,
        samples: 24,
        quality: Some(quality),
    }
}

fn measured(threads: u32, median_ns: f64) -> PointReport {
    PointReport {
        conditions: Conditions::new(threads, CacheState::Hot),
        outcome: PointOutcome::Measured {
            time: time(median_ns, Quality::A),
            in_model_ns: Some(median_ns * 1.02),
        },
        counts: BTreeMap::from([("perf:page-faults".to_owned(), 12.0)]),
    }
}

fn failed(threads: u32, status: Status, reason: &str) -> PointReport {
    PointReport {
        conditions: Conditions::new(threads, CacheState::Hot),
        outcome: PointOutcome::NotMeasured {
            status,
            reason: reason.to_owned(),
        },
        counts: BTreeMap::new(),
    }
}

fn operator(name: &str, kind: &str, shapes: &str, count: u64, flops: u64) -> OperatorReport {
    OperatorReport {
        name: name.to_owned(),
        symbol: format!("fused_{name}"),
        kind: kind.to_owned(),
        shapes: shapes.to_owned(),
        architecture: None,
        count,
        flops,
        bytes_read: 950_272,
        bytes_written: 802_816,
        points: Vec::new(),
        swept: Vec::new(),
    }
}

/// Two operators at two thread counts, all measured, with the whole model.
pub(super) fn finished() -> RunReport {
    let whole = |threads, median_ns| WholeModelReport {
        conditions: Conditions::new(threads, CacheState::Model),
        outcome: ModelOutcome::Measured(ModelTiming {
            time: time(median_ns, Quality::A),
            checked_against: "the unscheduled model".to_owned(),
            instrumented_sum_ns: Some(median_ns * 0.992),
            latency: Latency {
                p95_ns: median_ns * 1.1,
                p99_ns: median_ns * 1.2,
                mean_ns: median_ns * 1.01,
            },
        }),
    };
    RunReport {
        out: "runs/20260131T120000Z-resnet-18-llvm".into(),
        run_id: "20260131T120000Z-resnet-18-llvm".to_owned(),
        state: RunState::Finished,
        model: ImportRequest::new(Source::LOCAL, "resnet-18"),
        batch: 1,
        target: "llvm -mcpu=znver5".to_owned(),
        cpu: "AMD EPYC 9755".to_owned(),
        timed: Status::Measured,
        operators: vec![
            OperatorReport {
                points: vec![measured(1, 61_000.0), measured(2, 40_000.0)],
                ..operator("max_pool2d", "max_pool", "1x64x112x112", 1, 1_605_632)
            },
            OperatorReport {
                points: vec![measured(1, 1_234_500.0), measured(2, 640_400.0)],
                ..operator(
                    "conv2d_add_relu",
                    "conv2d",
                    "1x64x56x56;4x64x3x3x16;1x64x1x1",
                    4,
                    231_612_416,
                )
            },
        ],
        whole_model: vec![whole(1, 5_100_000.0), whole(2, 2_700_000.0)],
        counters: Vec::new(),
        import_checks: vec!["checked against ONNX Runtime 1.31.1".to_owned()],
        tuned: Vec::new(),
        left: 0,
        warnings: Vec::new(),
        wall_ns: 41_300_000_000,
    }
}

/// The same, stopped by the user, with a crash, a wrong result and warnings.
pub(super) fn interrupted() -> RunReport {
    let mut report = finished();
    report.state = RunState::Interrupted;
    report.left = 2;
    report.wall_ns = 9_300_000_000;
    report.operators[0].points = vec![
        failed(1, Status::Crashed, "the worker ended by signal 11"),
        failed(2, Status::Skipped, "interrupted"),
    ];
    report.whole_model = vec![WholeModelReport {
        conditions: Conditions::new(1, CacheState::Model),
        outcome: ModelOutcome::NotMeasured {
            status: Status::WrongResult,
            reason: "output 0 is off by 0.3 at [0, 17]".to_owned(),
        },
    }];
    report.warnings = vec!["the governor is powersave".to_owned()];
    report
}

/// A registry of one sequence model.
pub(super) fn registry() -> opmodels::Registry {
    let text = r#"
        format = 1
        [[model]]
        name = "bert-tiny"
        aliases = ["bert"]
        title = "BERT tiny"
        task = "encoding"
        file = "zoo/bert-tiny.onnx"
        origin = { library = "transformers", version = "5.0", constructor = "BertModel" }
        params = 4385920
        inputs = [{ name = "ids", shape = ["batch", "seq"], dtype = "int64" }]
        defaults = { batch = 1, seq = 16 }
    "#;
    opmodels::Registry::parse(text, "registry.toml".as_ref()).expect("valid by construction")
}

/// A graph of two operators.
pub(crate) fn graph() -> opmodels::Graph {
    let operator = |name: &str, kind: &str, count: u64, flops: u64, args: serde_json::Value| {
        serde_json::json!({
            "symbol": format!("fused_{name}"), "name": name, "kind": kind,
            "pattern": "out_ewise_fusable", "count": count, "args": args, "attrs": {},
            "flops": flops, "flops_epilogue": 1000, "bytes_read": 950_272, "bytes_written": 802_816,
            "loops": [], "blocks": [],
        })
    };
    let arg = |role: &str, shape: &[u64]| {
        serde_json::json!({
            "name": role, "shape": shape, "dtype": "float32", "role": role,
            "fill": {"kind": "normal", "std": 1.0},
        })
    };
    let graph = serde_json::json!({
        "format": 1, "source": "local", "model": "resnet-18", "versions": {}, "batch": 1,
        "entry": "main", "inputs": [], "outputs": [], "reference": null,
        "operators": [
            operator("max_pool2d", "max_pool", 1, 1_605_632, serde_json::json!([
                arg("input", &[1, 64, 112, 112]), arg("output", &[1, 64, 56, 56]),
            ])),
            operator("conv2d_relu", "conv2d", 4, 231_211_008, serde_json::json!([
                arg("input", &[1, 64, 56, 56]), arg("weight", &[4, 64, 3, 3, 16]),
                arg("output", &[1, 64, 56, 56]),
            ])),
        ],
        "calls": [],
    });
    serde_json::from_value(graph).expect("valid by construction")
}
