//! What goes wrong while kernels are built and measured costs the points concerned and no others.

use opdata::Status;
use opengine::protocol::QuietMoment;

use super::*;

/// How every point ended when one step goes wrong.
fn statuses(script: impl Fn(WorkerStep<'_>) -> Act + Send + Sync + 'static) -> Vec<Status> {
    let bench = Bench::new();
    let report = bench.run(bench.sweep(2), &FakeRunner::new(script)).unwrap();
    assert_eq!(report.state, RunState::Finished);
    bench.rows().iter().map(|r| r.status).collect()
}

#[test]
fn a_kernel_that_crashes_its_worker_in_the_build_is_blamed_alone() {
    let found = statuses(|step| match built(step) {
        Some(2) => Act::Crash,
        _ => Act::takes(1e3),
    });
    // The row of a kernel that was not built comes before the batch is measured.
    let mut expected = vec![Status::Measured; 6];
    expected[0] = Status::Crashed;
    assert_eq!(found, expected);
}

#[test]
fn a_build_that_hangs_times_out() {
    let found = statuses(|step| match built(step) {
        Some(5) => Act::Hang,
        _ => Act::takes(1e3),
    });
    assert_eq!(found.iter().filter(|s| **s == Status::TimedOut).count(), 1);
    assert_eq!(found.iter().filter(|s| **s == Status::Measured).count(), 5);
}

#[test]
fn points_that_crash_hang_or_compute_something_wrong_cost_themselves_alone() {
    let found = statuses(|step| match measured(step) {
        Some(0) => Act::Crash,
        Some(1) => Act::Miscompute,
        Some(2) => Act::Hang,
        Some(3) => Act::Refuse(Status::Unsupported, "not here".to_owned()),
        _ => Act::takes(1e3),
    });
    let expected = [
        Status::Crashed,
        Status::WrongResult,
        Status::TimedOut,
        Status::Unsupported,
        Status::Measured,
        Status::Measured,
    ];
    assert_eq!(found, expected);
}

#[test]
fn a_disturbed_point_is_measured_again_behind_the_others_and_its_quietest_result_counts() {
    let bench = Bench::new();
    let (list, script) = seen();
    let fake = FakeRunner::new(move |step| {
        let Some(id) = measured(step) else {
            return Act::takes(1e3);
        };
        let mut list = script.lock().unwrap();
        list.push(id);
        let again = list.iter().filter(|&&i| i == id).count() > 1;
        let slowdown = if id == 0 && !again { 2.0 } else { 1.02 };
        Act::Works { ns: 1e3, slowdown }
    });
    bench.run(bench.sweep(1), &fake).unwrap();
    assert_eq!(*list.lock().unwrap(), [0, 1, 2, 3, 0]);
    let rows = bench.rows();
    assert_eq!(rows.len(), 4);
    assert!(rows.iter().all(|r| r.drift_ratio == Some(1.02)));
}

#[test]
fn a_point_that_is_not_measured_again_keeps_its_first_result_and_costs_a_wait() {
    let bench = Bench::new();
    let clock = bench.clock.clone();
    let fake = FakeRunner::new(move |step| {
        let WorkerStep::Measure { point, .. } = step else {
            return Act::takes(1e3);
        };
        clock.pass(1);
        match point.quiet {
            QuietMoment::Required => Act::Refuse(Status::Crashed, "not quiet".to_owned()),
            _ => Act::Works {
                ns: 1e3,
                slowdown: 2.0,
            },
        }
    });
    let plan = Plan {
        remeasure_budget: 10.0,
        ..bench.sweep(1)
    };
    bench.run(plan, &fake).unwrap();
    let rows = bench.rows();
    assert_eq!(rows.len(), 4);
    let kept = |row: &Row| row.status == Status::Measured && row.drift_ratio == Some(2.0);
    assert!(rows.iter().all(kept));
    let manifest = RunManifest::load(&bench.folder.path().join("run")).unwrap();
    assert_eq!(manifest.stages_ns["wait"], 4_000_000_000);
}

#[test]
fn when_the_budget_is_spent_points_keep_what_they_have() {
    let bench = Bench::new();
    let (list, script) = seen();
    let fake = FakeRunner::new(move |step| {
        script.lock().unwrap().extend(measured(step));
        Act::Works {
            ns: 1e3,
            slowdown: 2.0,
        }
    });
    bench.run(bench.sweep(1), &fake).unwrap();
    assert_eq!(*list.lock().unwrap(), [0, 1, 2, 3, 0]);
    assert!(bench.rows().iter().all(|r| r.status == Status::Measured));
}

#[test]
fn where_time_is_short_what_has_no_result_comes_before_disturbed_points() {
    // Batches have 64 kernels; each point takes a second.
    let rows_within = |seconds: u64| {
        let bench = Bench::new();
        let clock = bench.clock.clone();
        let fake = FakeRunner::new(move |step| {
            if measured(step).is_some() {
                clock.pass(1);
            }
            Act::Works {
                ns: 1e3,
                slowdown: 2.0,
            }
        });
        let plan = Plan {
            remeasure_budget: 10.0,
            time_budget_ns: Some(seconds * 1_000_000_000),
            ..bench.sweep(39)
        };
        let report = bench.run(plan, &fake).unwrap();
        (bench.rows().len(), report.wall_ns / 1_000_000_000)
    };
    assert_eq!(rows_within(81), (80, 81));
    assert_eq!(rows_within(60), (60, 60));
    assert_eq!(rows_within(100), (80, 100), "the rest is for these");
}

#[test]
fn a_whole_model_that_cannot_be_run_costs_no_operator() {
    for act in [
        Act::Crash,
        Act::Miscompute,
        Act::Refuse(Status::Crashed, "no memory".to_owned()),
    ] {
        let bench = Bench::new();
        let plan = Plan {
            whole_model: WholeModel::Measure,
            ..bench.plan()
        };
        let fake = FakeRunner::new(move |step| match step {
            WorkerStep::BuildWholeModel(_) => act.clone(),
            _ => Act::takes(1e3),
        });
        let report = bench.run(plan, &fake).unwrap();
        assert!(matches!(
            report.whole_model[0].outcome,
            crate::report::ModelOutcome::NotMeasured { .. }
        ));
        assert!(bench.rows().iter().all(|r| r.status == Status::Measured));
    }
}
