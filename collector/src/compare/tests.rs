//! Comparisons of made-up runs: verdicts, noise, what is refused.

use opdata::{Row, Status};
use rand::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;

use super::point::Point;
use super::testing::{failed, row, write_run};
use super::*;

const OPTIONS: Options = Options {
    threshold: 0.05,
    allow_other_machine: false,
};

fn numbered(row: &Row, run: &str, ordinal: usize) -> Point {
    let mut point = Point::of(row);
    point.row_id = format!("{run}.{ordinal:06}");
    point
}

/// Rows of `count` operators, each at 1 and 2 threads.
fn rows(count: usize) -> Vec<Row> {
    let at = |i: usize, threads| row(&format!("op_{i}"), threads, 1e5 * (i + 1) as f64);
    (0..count).flat_map(|i| [at(i, 1), at(i, 2)]).collect()
}

fn scale(row: &mut Row, factor: f64) {
    for time in [
        &mut row.time_median_ns,
        &mut row.time_ci_low_ns,
        &mut row.time_ci_high_ns,
        &mut row.time_min_ns,
    ] {
        *time = time.map(|t| t * factor);
    }
}

fn compared(a: &[Row], b: &[Row]) -> Result<Comparison, CompareError> {
    let side = |name: &str, rows: &[Row]| Side {
        paths: vec![name.into()],
        points: rows
            .iter()
            .enumerate()
            .map(|(ordinal, row)| numbered(row, name, ordinal))
            .collect(),
        machines: Vec::new(),
    };
    between(side("a", a), side("b", b), OPTIONS)
}

#[test]
fn a_slower_operator_is_found_and_the_others_are_left_alone() {
    let a = rows(10);
    let mut b = a.clone();
    scale(&mut b[7], 1.3);
    scale(&mut b[3], 0.8);
    scale(&mut b[5], 1.04);
    let found = compared(&a, &b).unwrap();
    let named = |verdict| -> Vec<(String, Option<u64>)> {
        let changes = found.with(verdict);
        changes.map(|c| (c.operator.clone(), c.threads)).collect()
    };
    assert_eq!(named(Verdict::Regression), [("op_3".to_owned(), Some(2))]);
    assert_eq!(named(Verdict::Improvement), [("op_1".to_owned(), Some(2))]);
    assert_eq!(found.count(Verdict::Unchanged), 18);
    let worst = &found.changes[0];
    assert!((worst.ratio.value - 1.3).abs() < 1e-9, "{worst:?}");
    assert!(worst.ratio.low.unwrap() > 1.2 && worst.ratio.high.unwrap() < 1.4);
    assert_eq!(worst.slowest.row_b, "b.000007");
    assert!(found.overall.unwrap().value < 1.01);
}

#[test]
fn a_run_against_itself_has_no_change() {
    let a = rows(4);
    let found = compared(&a, &a).unwrap();
    assert_eq!(found.count(Verdict::Unchanged), 8);
    assert_eq!(found.overall.unwrap().value, 1.0);
    assert!(found.changes.iter().all(|c| c.p_adjusted == Some(1.0)));
}

#[test]
fn a_busy_machine_is_no_regression() {
    let a = rows(4);
    let verdict = |change: &dyn Fn(&mut Row)| {
        let mut b = a.clone();
        change(&mut b[5]);
        let found = compared(&a, &b).unwrap();
        let changed = found
            .changes
            .iter()
            .find(|c| c.operator == "op_2" && c.threads == Some(2));
        changed.unwrap().verdict
    };
    assert_eq!(verdict(&|row| scale(row, 1.3)), Verdict::Regression);
    // The reference kernel was as much slower around this point: it says nothing of the kernel.
    let disturbed = |row: &mut Row, factor| {
        scale(row, factor);
        row.drift_ratio = Some(1.3);
    };
    assert_eq!(verdict(&|row| disturbed(row, 1.3)), Verdict::Unclear);
    assert_eq!(verdict(&|row| disturbed(row, 1.6)), Verdict::Regression);
    assert_eq!(verdict(&|row| disturbed(row, 0.7)), Verdict::Improvement);
    // The shortest sample is as short as ever: others were in the way.
    let busy = |row: &mut Row| {
        let shortest = row.time_min_ns;
        scale(row, 1.3);
        row.time_min_ns = shortest;
    };
    assert_eq!(verdict(&busy), Verdict::Unclear);
    // Other processes had half of the CPU while the slower one was measured.
    let beside_others = |row: &mut Row, factor| {
        scale(row, factor);
        row.other_cpu_share = Some(0.5);
    };
    assert_eq!(verdict(&|row| beside_others(row, 1.6)), Verdict::Unclear);
    assert_eq!(
        verdict(&|row| beside_others(row, 0.7)),
        Verdict::Improvement
    );
}

#[test]
fn a_sweep_counts_as_one_operator() {
    let swept = |factor: f64| -> Vec<Row> {
        (0..40)
            .map(|tile| {
                let mut point = row("op", 1, 1e5 * f64::from(tile + 1) * factor);
                point.point_id = format!("p{tile}");
                point.schedule_space = Some("template".to_owned());
                point
            })
            .collect()
    };
    let found = compared(&swept(1.0), &swept(1.2)).unwrap();
    assert_eq!(found.changes.len(), 1);
    let change = &found.changes[0];
    assert_eq!((change.points, change.verdict), (40, Verdict::Regression));
    assert!((change.best_b_ns - 1.2e5).abs() < 1e-6);
}

#[test]
fn points_without_a_time_are_listed_the_newly_failed_first() {
    let a = rows(3);
    let mut b = a.clone();
    b.truncate(5);
    let crash = |row: &Row| failed(row.clone(), Status::Crashed, "signal 11");
    let mut old = a.clone();
    old[0] = crash(&a[0]);
    b[0] = crash(&a[0]);
    b[2] = crash(&a[2]);
    let found = compared(&old, &b).unwrap();
    assert_eq!(
        (found.shared_points, found.only_in_a, found.only_in_b),
        (5, 1, 0)
    );
    let failed: Vec<(&str, bool)> = found
        .failed
        .iter()
        .map(|f| (f.operator.as_str(), f.is_new()))
        .collect();
    assert_eq!(failed, [("op_1", true), ("op_0", false)]);
    assert_eq!((found.b.failed(), found.b.measured), (2, 3));
}

#[test]
fn unlike_machines_need_a_word() {
    let folder = tempfile::tempdir().unwrap();
    let mut other = rows(2);
    other
        .iter_mut()
        .for_each(|r| r.env_hash = Some("fedcba9876543210".to_owned()));
    let a = [write_run(&folder.path().join("a"), "a", &rows(2), |m| {
        m.environment = serde_json::json!({"machine": {"cpu": {"name": "Old CPU"}}});
    })];
    let b = [write_run(&folder.path().join("b"), "b", &other, |_| ())];
    let error = compare(&a, &b, OPTIONS).unwrap_err();
    let message = error.to_string();
    for part in [
        "0123456789abcdef (Old CPU)",
        "fedcba9876543210",
        "--allow-other-machine",
    ] {
        assert!(message.contains(part), "{message}");
    }
    let any = Options {
        allow_other_machine: true,
        ..OPTIONS
    };
    assert_eq!(compare(&a, &b, any).unwrap().changes.len(), 4);
}

#[test]
fn what_cannot_be_compared_is_reported() {
    let message = |a: &[Row], b: &[Row]| compared(a, b).unwrap_err().to_string();
    assert!(message(&rows(1), &[]).contains("holds no row"));
    let mut other = rows(1);
    other
        .iter_mut()
        .for_each(|r| r.model_name = Some("other".to_owned()));
    let nothing = message(&rows(1), &other);
    assert!(nothing.contains("net, batch 1") && nothing.contains("other, batch 1"));
    let crashed = failed(row("op_0", 1, 1.0), Status::Crashed, "signal 11");
    let measured = message(&rows(1)[..1], &[crashed]);
    for part in ["a has 1 of 1 measured, b has 0 of 1", "signal 11"] {
        assert!(measured.contains(part), "{measured}");
    }
    let empty = tempfile::tempdir().unwrap();
    let side = [empty.path().to_owned()];
    let error = compare(&side, &side, OPTIONS).unwrap_err();
    assert!(error.to_string().contains("holds no run"), "{error}");
    std::fs::write(empty.path().join("run.json"), "{}").unwrap();
    let error = compare(&side, &side, OPTIONS).unwrap_err();
    assert!(error.to_string().contains("rows.csv does not exist"));
}

#[test]
fn whole_models_are_compared_where_both_runs_have_them() {
    let folder = tempfile::tempdir().unwrap();
    let run = |name: &str, factor: f64| {
        let path = write_run(&folder.path().join(name), name, &rows(3), |_| ());
        let samples: Vec<f64> = (0..10).map(|i| factor * (1e6 + f64::from(i))).collect();
        let file = serde_json::json!({
            "ready": {}, "threads": [{"threads": 2, "drift": 1.0, "taken": {"samples": samples, "number": 1}}]
        });
        std::fs::write(path.join("whole_model.json"), file.to_string()).unwrap();
        path
    };
    let found = compare(&[run("a", 1.0)], &[run("b", 1.5)], OPTIONS).unwrap();
    let whole = &found.changes[0];
    assert_eq!(
        (whole.subject, whole.verdict, whole.threads),
        (Subject::WholeModel, Verdict::Regression, Some(2))
    );
    assert_eq!(found.overall.unwrap().value, 1.0, "of the operators alone");
    assert_eq!((found.a.points, found.count(Verdict::Unchanged)), (6, 6));
}

#[test]
fn each_import_of_a_run_has_its_whole_model() {
    let folder = tempfile::tempdir().unwrap();
    let of = |batch: u64| -> Vec<Row> {
        let mut rows = rows(2);
        for row in &mut rows {
            row.batch = Some(batch);
            row.import_key = Some(format!("key{batch}"));
        }
        rows
    };
    let run = |name: &str, first: f64, second: f64| {
        let both = [of(1), of(4)].concat();
        let path = write_run(&folder.path().join(name), name, &both, |_| ());
        for (file, time) in [
            ("whole_model.json", first),
            ("whole_model.key4.json", second),
        ] {
            let contents = serde_json::json!({"threads": [{"threads": 1, "taken": {"samples": vec![time; 8]}}]});
            std::fs::write(path.join(file), contents.to_string()).unwrap();
        }
        path
    };
    let found = compare(&[run("a", 1e6, 4e6)], &[run("b", 1e6, 6e6)], OPTIONS).unwrap();
    let whole: Vec<(&str, Verdict)> = found
        .changes
        .iter()
        .filter(|c| c.subject == Subject::WholeModel)
        .map(|c| (c.model.as_str(), c.verdict))
        .collect();
    let wanted = [
        ("net, batch 4", Verdict::Regression),
        ("net, batch 1", Verdict::Unchanged),
    ];
    assert_eq!(whole, wanted);
}

#[test]
fn a_folder_of_runs_is_read_whole() {
    let folder = tempfile::tempdir().unwrap();
    let nest = |night: &str, model: &str| {
        let mut rows = rows(2);
        rows.iter_mut()
            .for_each(|r| r.model_name = Some(model.to_owned()));
        let path = folder.path().join(night).join(model);
        write_run(&path, &format!("{night}-{model}"), &rows, |_| ())
    };
    for night in ["1", "2"] {
        nest(night, "x");
        nest(night, "y");
    }
    let side = |night| [folder.path().join(night)];
    let found = compare(&side("1"), &side("2"), OPTIONS).unwrap();
    assert_eq!((found.changes.len(), found.a.models.len()), (8, 2));
}

/// Roughly normal with this standard deviation: a sum of uniform numbers.
fn normal(random: &mut Pcg64Mcg, std: f64) -> f64 {
    let sum: f64 = (0..12).map(|_| random.random::<f64>()).sum();
    std * (sum - 6.0)
}

/// Two runs of one program, between which every operator wanders by `noise`.
fn same_program_twice(seed: u64, noise: f64) -> (Vec<Row>, Vec<Row>) {
    let mut random = Pcg64Mcg::seed_from_u64(seed);
    let a = rows(20);
    let mut b = a.clone();
    for row in &mut b {
        // The interval's half width of 2 % is 2.3 standard errors on each side.
        let own = normal(&mut random, 0.0087 * 2f64.sqrt());
        scale(row, (own + normal(&mut random, noise)).exp());
    }
    (a, b)
}

#[test]
fn false_alarms_are_rare() {
    for noise in [0.0, 0.03] {
        let alarms = (0..200)
            .filter(|seed| {
                let (a, b) = same_program_twice(*seed, noise);
                let found = compared(&a, &b).unwrap();
                let significant = |c: &Change| c.p_adjusted.is_some_and(|p| p < FAMILY_ERROR);
                found.changes.iter().any(significant)
            })
            .count();
        // 5 % of 200, and two standard deviations more.
        assert!(alarms <= 16, "{alarms} of 200 at noise {noise}");
    }
}

#[test]
fn real_changes_are_seen() {
    let seen = (0..50)
        .filter(|seed| {
            let (a, mut b) = same_program_twice(*seed, 0.01);
            scale(&mut b[11], 1.15);
            let found = compared(&a, &b).unwrap();
            found
                .with(Verdict::Regression)
                .any(|c| c.operator == "op_5")
        })
        .count();
    assert!(seen >= 45, "{seen} of 50");
}
