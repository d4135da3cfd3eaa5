//! The guide, and tables as they are printed.

use std::collections::BTreeMap;

use oplearn::crossval::metrics::Metrics;
use oplearn::models::ModelKind;
use opreport::Style;

use crate::correlate::KindReport;
use crate::correlate::partial::Dependence;
use crate::correlate::report::FactorReport;
use crate::eval::apart::ByDisturbance;
use crate::eval::report::{Ordering, Report, WorkloadReport};
use crate::eval::whole::WholeModel;
use crate::eval::within::within_10;
use crate::model::neighbours::{Measured, Neighbour};
use crate::query::Answer;
use crate::query::answer::{Driver, Knowledge, Outside};
use crate::query::network::{NetworkAnswer, OperatorAnswer};
use crate::query::whatif::Line;
use crate::turning::Analysis;
use crate::turning::analysis::{ChosenValue, SweepReport};
use crate::turning::segment::Turn;

fn answer(time_ns: f64) -> Answer {
    Answer {
        time_ns,
        low_ns: Some(0.9 * time_ns),
        high_ns: Some(1.2 * time_ns),
        level: 0.9,
        knowledge: Knowledge::Known,
        extrapolates: Vec::new(),
        nearest: vec![Neighbour {
            measured: Measured {
                row_id: "20261121T225705Z-mobilenetv3_small_100-llvm.000031".to_owned(),
                label: "depthwise_conv2d 1x64x56x56 64x1x3x3 stride 2x2 padding 1x1x1x1".to_owned(),
                threads: Some(2),
                time_ns: 1.87e6,
            },
            distance: 0.27,
        }],
        drivers: vec![
            Driver {
                feature: "parallel",
                value: Some(9.61),
                factor: 0.8,
            },
            Driver {
                feature: "counted_cache_misses",
                value: None,
                factor: 1.1,
            },
        ],
    }
}

/// An answer beyond what was trained on.
fn doubtful(time_ns: f64) -> Answer {
    Answer {
        low_ns: None,
        high_ns: None,
        extrapolates: vec![Outside {
            feature: "parallel",
            value: 12.0,
            low: 0.0,
            high: 10.0,
        }],
        ..answer(time_ns)
    }
}

#[test]
fn a_query() {
    let lines = [
        Line {
            batch: 1,
            threads: Some(1),
            answer: answer(1.98e6),
        },
        Line {
            batch: 16,
            threads: None,
            answer: doubtful(31.2e6),
        },
    ];
    let shown = |explain_all| super::query::query("conv2d", &lines, explain_all, Style::PLAIN);
    insta::assert_snapshot!(shown(false));
    assert_eq!(shown(true).matches("nearest rows:").count(), 2);
}

#[test]
fn whole_models() {
    let operator = |name: &str, layers: &[&str], share: f64, answer: Answer| OperatorAnswer {
        name: name.to_owned(),
        kind: "conv2d".to_owned(),
        shapes: "1x64x56x56;64x64x3x3".to_owned(),
        layers: layers.iter().map(|layer| (*layer).to_owned()).collect(),
        count: 2,
        total_ns: 2.0 * answer.time_ns,
        share,
        answer,
    };
    let network = NetworkAnswer {
        model: "resnet-18".to_owned(),
        batch: 1,
        threads: 1,
        time_ns: 27.5e6,
        low_ns: Some(26e6),
        high_ns: Some(29e6),
        level: 0.9,
        between_ns: 0.0,
        factor: 1.01,
        factor_models: 8,
        coverage: 1.0,
        measured: 0.25,
        operators: vec![
            operator(
                "conv2d_add_relu",
                &["layer1.0.conv1", "layer1.0.conv2"],
                0.75,
                answer(1.2e6),
            ),
            operator("dense", &["fc"], 0.25, doubtful(0.4e6)),
            operator("softmax", &["fc"], 0.01, answer(900.0)),
        ],
    };
    let shown = super::query::networks(&[network], 2, false, Style::PLAIN);
    insta::assert_snapshot!(shown);
}

#[test]
fn an_evaluation() {
    let metrics = |samples| Metrics {
        samples,
        mape: 12.34,
        median_ape: 8.1,
        within_5: 31.0,
        within_10: 60.0,
        within_20: 88.8,
        r2_log2: Some(0.9871),
        ..Metrics::default()
    };
    let model = |name: &str, threads, predicted_ms: f64, drift| WholeModel {
        interval_ms: Some([0.9 * predicted_ms, 1.1 * predicted_ms]),
        model: name.to_owned(),
        import_key: None,
        threads,
        measured_ms: 14.3,
        predicted_ms,
        error: 100.0 * (predicted_ms / 14.3 - 1.0),
        drift,
    };
    let sized = |key: &str, predicted_ms| WholeModel {
        import_key: Some(key.to_owned()),
        ..model("vgg-16", 1, predicted_ms, None)
    };
    let models = vec![
        sized("vgg-16-0123456789abcdef", 14.0),
        sized("vgg-16-fedcba9876543210", 15.0),
        model("resnet-18", 1, 13.9, Some(1.002)),
        model("resnet-18", 2, 13.9, Some(1.0)),
        model("mobilenet", 2, 7.15, Some(1.913)),
        model("rnn", 2, 14.3, None),
    ];
    let report = Report {
        split: "5-fold".to_owned(),
        model: ModelKind::Ensemble,
        data: oplearn::data::dataset::Intake {
            rows: 130,
            ..Default::default()
        },
        workloads: 12,
        folds: 5,
        overall: metrics(120),
        mape_workloads: 13.0,
        ordering: Ordering::default(),
        ranker: None,
        coverage: None,
        by_disturbance: Some(ByDisturbance {
            quiet: metrics(70),
            disturbed: metrics(40),
        }),
        by_kind: BTreeMap::from([
            ("conv2d".to_owned(), metrics(100)),
            ("dense".to_owned(), metrics(20)),
        ]),
        by_workload: vec![WorkloadReport {
            workload: "conv2d 1x64x56x56".to_owned(),
            samples: 60,
            mape: 9.96,
            bias_log2: -0.031,
            pairwise: None,
        }],
        models_inside: Some(100.0),
        models_within_10: within_10(&models),
        models,
        curve: Vec::new(),
        points: Vec::new(),
    };
    insta::assert_snapshot!(super::eval::report(&report, 1, Style::PLAIN));
}

#[test]
fn turning_points() {
    let sweep = SweepReport {
        name: "conv2d 1x64x56x56".to_owned(),
        device: "cpu".to_owned(),
        axis: "threads".to_owned(),
        points: 8,
        best: 16.0,
        enough: 12.0,
        turn: Some(Turn {
            x: 10.6,
            low: 8.0,
            high: 13.1,
            slope_before: -0.9,
            slope_after: 0.1,
            residual_ratio: 0.2,
        }),
        knee: None,
        chosen: Some(ChosenValue {
            x: 12.0,
            ratio: 1.021,
            measurements: 3,
        }),
        chosen_with_more: None,
    };
    let analysis = Analysis {
        sweeps: vec![sweep],
        mean_ratio: Some(1.021),
        mean_ratio_with_more: None,
        more: 4,
    };
    insta::assert_snapshot!(super::turning::turning(&analysis, Style::PLAIN));
}

#[test]
fn correlated_factors() {
    let factor = |factor: &str, partial| FactorReport {
        factor: factor.to_owned(),
        samples: 100,
        pearson: Some(0.98),
        spearman: Some(0.971),
        kendall: None,
        distance: Some(0.95),
        mutual_bits: 2.125,
        p_spearman: 0.001,
        p_mutual: 0.002,
        partial,
    };
    let at = |value, factor| Dependence { value, factor };
    let kind = KindReport {
        kind: "conv2d".to_owned(),
        samples: 100,
        factors: vec![
            factor("flops", vec![at(20.0, 0.5), at(30.0, 2.0)]),
            factor("bytes_read", Vec::new()),
        ],
        matrix_factors: Vec::new(),
        matrix: Vec::new(),
    };
    insta::assert_snapshot!(super::correlations::correlations(&[kind], 2, Style::PLAIN));
}
