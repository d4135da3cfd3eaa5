//! Runs that end early, and going on with them.

use proptest::prelude::*;

use super::*;

/// A runner that counts what it measures, and has the user stop the run at the measurement number `stop`, from 1.
fn stopping(bench: &Bench, stop: usize) -> (FakeRunner, Seen<u64>) {
    let (list, script) = seen();
    let interrupt = bench.interrupt.clone();
    let fake = FakeRunner::new(move |step| {
        if let Some(id) = measured(step) {
            let mut list = script.lock().unwrap();
            list.push(id);
            if list.len() == stop {
                interrupt.request();
            }
        }
        Act::takes(time_of_step(step))
    });
    (fake, list)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]
    #[test]
    fn a_run_that_was_stopped_anywhere_ends_with_the_rows_of_one_that_was_not(stop in 1usize..80) {
        let whole = Bench::new();
        whole.run(whole.sweep(40), &works()).unwrap();
        let mut bench = Bench::new();
        let (fake, list) = stopping(&bench, stop);
        let report = bench.run(bench.sweep(40), &fake).unwrap();
        prop_assert_eq!(report.state, RunState::Interrupted);
        prop_assert_eq!(report.left, 82 - stop as u64);
        prop_assert_eq!(bench.rows().len(), stop);

        bench.interrupt = Interrupt::default();
        let Resumed::Report { report, .. } = bench.resume(&fake).unwrap() else {
            panic!("the run was not finished");
        };
        prop_assert_eq!((report.state, report.left), (RunState::Finished, 0));
        prop_assert_eq!(list.lock().unwrap().len(), 82, "no point was measured twice");
        let (resumed, whole) = (bench.rows(), whole.rows());
        prop_assert_eq!(points(&resumed), points(&whole));
        let times = |rows: &[Row]| rows.iter().map(|r| r.time_median_ns).collect::<Vec<_>>();
        prop_assert_eq!(times(&resumed), times(&whole));
    }
}

#[test]
fn a_run_ends_when_its_time_is_spent() {
    let bench = Bench::new();
    let clock = bench.clock.clone();
    let fake = FakeRunner::new(move |step| {
        if measured(step).is_some() {
            clock.pass(10);
        }
        Act::takes(1e3)
    });
    let plan = Plan {
        time_budget_ns: Some(25_000_000_000),
        ..bench.sweep(3)
    };
    let report = bench.run(plan, &fake).unwrap();
    assert_eq!((report.state, report.left), (RunState::Interrupted, 5));
    assert_eq!(bench.rows().len(), 3, "the point under way ends");
    assert_eq!(report.wall_ns, 30_000_000_000);
}

#[test]
fn a_finished_run_is_not_taken_up() {
    let bench = Bench::new();
    bench.run(bench.plan(), &works()).unwrap();
    assert!(matches!(
        bench.resume(&works()).unwrap(),
        Resumed::Nothing { rows: 2, .. }
    ));
}

#[test]
fn failed_points_are_measured_again_where_that_is_asked_for() {
    let bench = Bench::new();
    let fails = FakeRunner::new(|step| match measured(step) {
        Some(id) if id % 2 == 1 => Act::Miscompute,
        _ => Act::takes(time_of_step(step)),
    });
    bench.run(bench.sweep(5), &fails).unwrap();
    let failed: Vec<Row> = bench
        .rows()
        .into_iter()
        .filter(|r| r.status == opdata::Status::WrongResult)
        .collect();
    assert!(!failed.is_empty());
    assert!(matches!(
        bench.resume(&works()).unwrap(),
        Resumed::Nothing { .. }
    ));

    let Resumed::Report { report, .. } = bench.resume_and_retry(&works(), true).unwrap() else {
        panic!("there are failed points");
    };
    assert_eq!((report.left, report.counts().failed), (0, 0));
    let rows = bench.rows();
    assert!(
        rows.iter()
            .all(|row| row.status == opdata::Status::Measured)
    );
    let ids: std::collections::HashSet<&str> = rows.iter().map(|r| r.row_id.as_str()).collect();
    assert!(
        failed.iter().all(|row| !ids.contains(row.row_id.as_str())),
        "no name is used twice"
    );
    let aside = bench.folder.path().join("run").join(opdata::ROWS_SET_ASIDE);
    assert_eq!(opdata::read_rows(&aside).unwrap(), failed);
}

#[test]
fn a_run_whose_plan_was_edited_is_not_taken_up() {
    for (from, to) in [
        ("\"schedules\": 5", "\"schedules\": 50"),
        ("\"seed\": 0", "\"seed\": 1"),
        ("\"max_failed_share\": 0.0", "\"max_failed_share\": 1.0"),
    ] {
        let mut bench = Bench::new();
        let (fake, _) = stopping(&bench, 1);
        bench.run(bench.sweep(5), &fake).unwrap();
        let path = bench.folder.path().join("run").join(opdata::RUN_JSON);
        let text = std::fs::read_to_string(&path).unwrap();
        assert!(text.contains(from), "{from} in {text}");
        std::fs::write(&path, text.replacen(from, to, 1)).unwrap();
        bench.interrupt = Interrupt::default();
        let resumed = bench.resume(&fake);
        if from.contains("share") {
            // It decides how the run ends, not what is measured.
            assert!(resumed.is_ok());
            continue;
        }
        let refused = resumed.unwrap_err().to_string();
        assert!(
            refused.contains("was changed since the run began"),
            "{refused}"
        );
        assert_eq!(bench.rows().len(), 1);
    }
}
