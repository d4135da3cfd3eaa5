//! Predictions of whole models, their intervals, and what is left out of them.

use super::*;
use oplearn::data::{Intake, Sample};
use oplearn::features::Point;
use oplearn::features::base::Bases;

/// `models` models of one operator each, called `calls` times for 1000 ns, with 100 ns between calls.
fn dataset(calls: &[u64]) -> Dataset {
    let sample = |number: usize| Sample {
        point: Point {
            known: Vec::new(),
            machine: 0,
            features: Vec::new(),
            bases: Bases::default(),
            flops: 1.0,
            bytes: 1.0,
            workload: 0,
        },
        log2_time: 900f64.log2(),
        log2_in_model: Some(1000f64.log2()),
        log2_interval: None,
        disturbed: None,
        query_key: None,
        weight: 1.0,
        workload: number,
        machine: 0,
        kind: "dense".to_owned(),
        models: vec![format!("m{number}")],
        threads: Some(1),
        measured_ms: None,
        row_id: String::new(),
        counts: None,
    };
    let run = |(number, &calls): (usize, &u64)| ModelRun {
        run_id: format!("r{number}"),
        model: format!("m{number}"),
        import_key: None,
        threads: 1,
        end_to_end_ns: 1100.0 * calls as f64,
        drift: None,
        parts: vec![Part {
            sample: number,
            calls,
            in_model_ns: Some(1000.0),
        }],
    };
    Dataset {
        samples: (0..calls.len()).map(sample).collect(),
        workloads: Vec::new(),
        machines: Vec::new(),
        model_runs: calls.iter().enumerate().map(run).collect(),
        usual_cache: None,
        intake: Intake::default(),
    }
}

#[test]
fn time_between_calls_is_distinguished_from_prediction_errors() {
    // Predictions are half of what is measured.
    let factor = WholeFactor::fit(
        &dataset(&[10, 40, 80]),
        None,
        |_, _| Some(500f64.log2()),
        |_, _| None,
    );
    assert!((factor.between(1, 20.0) - 2000.0).abs() < 1e-6);
    assert!((factor.at(Some(1)) - 2.0).abs() < 1e-9);
    assert!(factor.in_common(0.9).unwrap() < 1e-9);
    assert_eq!(factor.models, 3);
}

/// Twenty models with errors of 1/20 to 1, log2, whose operators err by `own`.
fn of_twenty(own: f64) -> WholeFactor {
    let error = |number: u32| WholeError {
        error: f64::from(number) / 20.0,
        own,
        weight: 1.0,
    };
    WholeFactor {
        errors: (1..=20).map(error).collect(),
        ..WholeFactor::default()
    }
}

#[test]
fn a_model_of_one_operator_errs_no_less_than_the_operator() {
    let factor = of_twenty(0.2);
    let part = |share| PartSpread {
        share,
        ends: [0.4, 1.1],
    };
    let [low, high] = factor.ends(0.9, 0.0, &[part(1.0)]).unwrap();
    assert!(low > 0.4 && high > 1.1, "{low} {high}");
    let [_, of_many] = factor.ends(0.9, 0.0, &[part(0.01); 100]).unwrap();
    let [_, in_common] = factor.ends(0.9, 0.0, &[]).unwrap();
    assert!(
        in_common < of_many && of_many < high,
        "{in_common} {of_many} {high}"
    );
    assert_eq!(WholeFactor::default().ends(0.9, 0.0, &[]), None);
}

#[test]
fn what_operators_do_not_know_themselves_is_not_counted_twice() {
    // 19 of 20 models are what 0.9 of 21 needs.
    assert!((of_twenty(0.0).in_common(0.9).unwrap() - 0.95).abs() < 1e-9);
    let beyond = of_twenty(0.57).in_common(0.9).unwrap();
    assert!((beyond.hypot(0.57) - 0.95).abs() < 1e-9, "{beyond}");
    assert_eq!(of_twenty(2.0).in_common(0.9), Some(0.0));
}

#[test]
fn the_model_that_is_asked_about_is_left_out() {
    let data = dataset(&[10, 40]);
    let predicted = |run: usize, _| Some(if run == 0 { 10.0 } else { 11.0 });
    let factor = WholeFactor::fit(&data, Some("m0"), predicted, |_, _| None);
    assert!((factor.at(None) - 1000.0 / 2048.0).abs() < 1e-9);
    let nothing = WholeFactor::fit(&dataset(&[]), None, predicted, |_, _| None);
    assert_eq!((nothing.at(Some(1)), nothing.between(1, 9.0)), (1.0, 0.0));
}

#[test]
fn a_quiet_run_is_not_mixed_with_disturbed_ones() {
    let run = |drift| Run {
        measured_ns: 1.0,
        predicted_ns: 1.0,
        ends: None,
        drift,
    };
    let (quiet, slowed, silent) = (run(Some(1.0)), run(Some(1.3)), run(None));
    let of_use = |runs: Vec<Run>| of_use(runs, |run| run.drift);
    assert_eq!(of_use(vec![slowed, quiet, silent, quiet]), [quiet, quiet]);
    assert_eq!(of_use(vec![slowed, silent]), [slowed, silent]);
}

#[test]
fn a_models_factor_is_of_its_quiet_runs() {
    let mut data = dataset(&[10, 40, 80]);
    let factor = |data: &Dataset| {
        let factor = WholeFactor::fit(data, None, |_, _| Some(1000f64.log2()), |_, _| None);
        factor.at(Some(1))
    };
    for run in &mut data.model_runs {
        run.drift = Some(1.0);
    }
    let quiet = factor(&data);
    let slowed = |run: &ModelRun| ModelRun {
        end_to_end_ns: 2.0 * run.end_to_end_ns,
        drift: Some(1.3),
        parts: vec![Part {
            in_model_ns: Some(2000.0),
            ..run.parts[0]
        }],
        ..run.clone()
    };
    let slowed: Vec<ModelRun> = data.model_runs.iter().map(slowed).collect();
    data.model_runs.extend(slowed);
    assert!((factor(&data) / quiet - 1.0).abs() < 0.1);
}

#[test]
fn half_of_the_weight_decides() {
    assert_eq!(
        weighted_median(vec![(5.0, 1.0), (1.0, 1.0), (2.0, 10.0)]),
        Some(2.0)
    );
    assert_eq!(weighted_median(Vec::new()), None);
}
