//! What stays in a store, what is refused, and many writers at once.

use super::*;
use serde_json::json;

fn entry(workload: &str, program: u64, time_ns: f64) -> Entry {
    Entry {
        key: Key {
            workload: workload.to_owned(),
            target: json!({"kind": "llvm"}),
            machine: "m".to_owned(),
            threads: 1,
            cache: "hot".to_owned(),
        },
        program_hash: program.to_string(),
        operator: "dense".to_owned(),
        kind: "dense".to_owned(),
        shapes: "1x64".to_owned(),
        choice: Choice::unscheduled(),
        trace: Some(json!([[], []])),
        time_ns,
        half_width_ns: None,
        quality: Some("A".to_owned()),
        model: Some("mlp".to_owned()),
        source: "test".to_owned(),
        tool: None,
        tvm: None,
        measured_at: None,
    }
}

fn target() -> Value {
    json!({"kind": "llvm"})
}

#[test]
fn of_a_program_the_fastest_time_stays_and_of_a_workload_the_fastest_programs() {
    let folder = tempfile::tempdir().unwrap();
    let mut store = Store::open(&folder.path().join("deep/store.sqlite")).unwrap();
    assert_eq!(
        store
            .add(&[entry("w", 1, 9.0), entry("w", 1, 5.0), entry("w", 1, 7.0)])
            .unwrap(),
        2
    );
    let programs: Vec<Entry> = (2..20).map(|p| entry("w", p, 100.0 - p as f64)).collect();
    store.add(&programs).unwrap();
    let best = store.best("w", &target(), "m", Some(1), 100).unwrap();
    assert_eq!(best.len(), KEEP);
    assert_eq!(best[0], entry("w", 1, 5.0));
    assert!(
        best.windows(2)
            .all(|pair| pair[0].time_ns <= pair[1].time_ns)
    );
    assert!(
        store
            .best("w", &target(), "other", None, 9)
            .unwrap()
            .is_empty()
    );
    assert_eq!(store.list(Some("mlp")).unwrap(), [entry("w", 1, 5.0)]);
    assert!(store.list(Some("resnet")).unwrap().is_empty());
    let all = Contents {
        schedules: KEEP as u64,
        workloads: 1,
        machines: 1,
    };
    assert_eq!(store.verify().unwrap(), all);
}

#[test]
fn a_damaged_file_and_another_programs_are_refused_and_left_as_they_are() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("store.sqlite");
    Store::open(&file)
        .unwrap()
        .add(&[entry("w", 1, 5.0)])
        .unwrap();
    let mut bytes = std::fs::read(&file).unwrap();
    bytes[..16].fill(b'x');
    std::fs::write(&file, &bytes).unwrap();
    let error = Store::open(&file).unwrap_err().to_string();
    assert!(error.contains("damaged or no store"), "{error}");
    assert_eq!(std::fs::read(&file).unwrap(), bytes);
    let other = folder.path().join("other.sqlite");
    Connection::open(&other)
        .unwrap()
        .execute_batch("create table t (x)")
        .unwrap();
    let error = Store::open(&other).unwrap_err().to_string();
    assert!(error.contains("tables of another program"), "{error}");
}

#[test]
fn sixteen_writers_lose_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("store.sqlite");
    let write = |writer: u64| {
        let mut store = Store::open(&file).unwrap();
        for turn in 0..200 {
            let own = entry(&format!("{writer}"), 1, 1000.0 - turn as f64);
            let shared = entry("shared", 1, 1000.0 - (turn * 16 + writer) as f64 / 16.0);
            store.add(&[own, shared]).unwrap();
        }
    };
    std::thread::scope(|scope| {
        for writer in 0..16 {
            scope.spawn(move || write(writer));
        }
    });
    let store = Store::open(&file).unwrap();
    for writer in 0..16 {
        let best = store
            .best(&writer.to_string(), &target(), "m", None, 9)
            .unwrap();
        assert_eq!(best[0].time_ns, 801.0);
    }
    let best = store.best("shared", &target(), "m", None, 9).unwrap();
    assert_eq!(best[0].time_ns, 1000.0 - (199.0 * 16.0 + 15.0) / 16.0);
}
