//! Which points are measured, and in which order their rows stand.

use opdata::contract::whole_model::whole_model_file_name;
use opdata::{Shard, Status};

use super::*;

#[test]
fn every_point_has_one_row_in_the_order_of_the_plan() {
    let bench = Bench::new();
    let plan = Plan {
        threads: vec![2, 1],
        ..bench.plan()
    };
    let report = bench.run(plan, &works()).unwrap();
    assert_eq!((report.state, report.left), (RunState::Finished, 0));
    let rows = bench.rows();
    let places: Vec<(&str, Option<u64>)> = rows
        .iter()
        .map(|r| (r.op_name.as_str(), r.threads))
        .collect();
    let expected = ["max_pool2d", "conv2d_relu"].map(|o| [(o, Some(2)), (o, Some(1))]);
    assert_eq!(places, expected.concat());
    assert!(rows.iter().all(|r| r.status == Status::Measured));
    assert!(rows.iter().all(|r| r.time_median_ns == Some(1e3)));
    let manifest = RunManifest::load(&bench.folder.path().join("run")).unwrap();
    assert_eq!((manifest.counts.planned, manifest.counts.rows()), (4, 4));
}

#[test]
fn shards_share_the_points_and_an_empty_one_is_refused() {
    let whole = Bench::new();
    whole.run(whole.sweep(20), &works()).unwrap();
    let mut parts = Vec::new();
    for index in 1..=3 {
        let bench = Bench::new();
        let plan = Plan {
            shard: Some(Shard { index, count: 3 }),
            ..bench.sweep(20)
        };
        bench.run(plan, &works()).unwrap();
        parts.extend(points(&bench.rows()));
    }
    let mut all = points(&whole.rows());
    assert_eq!(all.len(), 42);
    all.sort();
    parts.sort();
    assert_eq!(parts, all);

    let bench = Bench::new();
    let plan = Plan {
        shard: Some(Shard {
            index: 5,
            count: 1_000_000,
        }),
        ..bench.plan()
    };
    let out = plan.out.clone();
    let refused = bench.run(plan, &works()).unwrap_err().to_string();
    assert_eq!(
        refused,
        "--shard 5/1000000 leaves nothing to measure: the plan has 2 kernels in all; take 2 shards at most"
    );
    assert!(!out.exists(), "a run that never began leaves nothing");
}

#[test]
fn more_kernels_than_a_run_can_hold_are_refused_before_they_are_drawn() {
    let bench = Bench::new();
    let refused = bench.run(bench.sweep(1_000_000), &works()).unwrap_err();
    assert_eq!(
        refused.to_string(),
        "sweep s: schedules = 1000000 makes up to 2000002 kernels of 2 operators, and a run has 200000 at most; lower `schedules`, set `max-points`, name fewer `operators`, or measure in several runs with other seeds"
    );
}

#[test]
fn duplicates_are_skipped_and_name_the_first() {
    let bench = Bench::new();
    // Samples 1 and 2 of each operator become one program, in one batch; the default schedule is another.
    let fake = FakeRunner::new(|step| match built(step) {
        Some(0 | 3) => Act::Program(1),
        Some(_) => Act::Program(2),
        None => Act::takes(1e3),
    });
    bench.run(bench.sweep(2), &fake).unwrap();
    let rows = bench.rows();
    let skipped: Vec<&str> = rows
        .iter()
        .filter(|r| r.status == Status::Skipped)
        .filter_map(|r| r.reason.as_deref())
        .collect();
    let number = |n| format!("the program is that of the candidate number {n} of its plan");
    assert_eq!(skipped, [number(1), number(4)]);
    assert_eq!(rows.len(), 6);
}

#[test]
fn samples_are_pruned_by_the_best_time_and_default_schedules_never() {
    let bench = Bench::new();
    let (list, script) = seen();
    let fake = FakeRunner::new(move |step| {
        if let WorkerStep::Measure { kernel, point } = step {
            let entry = (kernel.schedule_spec.space(), point.prune_beyond_ns);
            script.lock().unwrap().push(entry);
        }
        Act::takes(1e3)
    });
    bench.run(bench.sweep(1), &fake).unwrap();
    // Each operator's default takes 1 µs: what takes 20 times as long is not worth samples.
    let each = [("default", None), ("metaschedule", Some(20_000))];
    assert_eq!(*list.lock().unwrap(), each.repeat(2));
}

#[test]
fn the_whole_model_is_measured_first_and_every_row_knows_its_operators_time_inside() {
    let bench = Bench::new();
    let plan = Plan {
        whole_model: WholeModel::Measure,
        ..bench.plan()
    };
    let out = plan.out.clone();
    let fake = FakeRunner::new(|step| match step {
        WorkerStep::MeasureWholeModel { .. } => Act::takes(10e3),
        _ => Act::takes(1e3),
    });
    let report = bench.run(plan, &fake).unwrap();
    assert_eq!(report.whole_model.len(), 1);
    // Five calls share the model's 10 µs.
    assert!(bench.rows().iter().all(|r| r.in_model_time_ns == Some(2e3)));
    assert!(out.join(whole_model_file_name(None)).is_file());
}
