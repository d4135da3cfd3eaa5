//! What stays in a store, what is refused, and many writers at once.

use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};
use std::sync::Barrier;

use super::testing::{Throwaway, by, entry};
use super::*;
use rusqlite::Connection;
use serde_json::json;

fn target() -> Value {
    json!({"kind": "llvm"})
}

/// A store in a file, and one on a server where PostgreSQL is installed.
fn everywhere(check: impl Fn(&Path)) {
    let folder = tempfile::tempdir().unwrap();
    check(&folder.path().join("deep/store.sqlite"));
    match Throwaway::start() {
        Some(server) => check(&server.url()),
        None => optestkit::skip("a store on a server", "PostgreSQL is not installed"),
    }
}

#[test]
fn of_a_program_the_fastest_time_stays_and_of_a_workload_the_fastest_programs() {
    everywhere(|path| {
        let mut store = Store::open(path).unwrap();
        let times = [entry("w", 1, 9.0), entry("w", 1, 5.0), entry("w", 1, 7.0)];
        assert_eq!(store.add(&times).unwrap(), 2);
        let programs: Vec<Entry> = (2..20).map(|p| entry("w", p, 100.0 - p as f64)).collect();
        store.add(&programs).unwrap();
        let best = store.best("w", &target(), "m", Some(1), 100).unwrap();
        assert_eq!(best.len(), KEEP);
        assert_eq!(best[0], entry("w", 1, 5.0));
        let times: Vec<f64> = best.iter().map(|entry| entry.time_ns).collect();
        assert!(times.is_sorted(), "{times:?}");
        let other = store.best("w", &target(), "other", None, 9).unwrap();
        assert!(other.is_empty());
        assert_eq!(store.list(Some("mlp")).unwrap(), [entry("w", 1, 5.0)]);
        assert!(store.list(Some("resnet")).unwrap().is_empty());
        let all = Contents {
            schedules: KEEP as u64,
            workloads: 1,
            machines: 1,
        };
        assert_eq!(store.verify().unwrap(), all);
        // Another that opens it finds the same.
        assert_eq!(Store::open(path).unwrap().list(None).unwrap().len(), 1);
    });
}

#[test]
fn schedules_of_the_own_program_stay_beside_faster_ones_of_another_algorithm() {
    everywhere(|path| {
        let mut store = Store::open(path).unwrap();
        // Pixels in the place of channels are a schedule of the operator's own program.
        let pixels = std::iter::once(by("pixels", entry("w", 0, 100.0)));
        let own = pixels.chain((1..20).map(|p| entry("w", p, 100.0 + p as f64)));
        let faster = (20..40).map(|p| by("winograd4", entry("w", p, p as f64)));
        let all: Vec<Entry> = own.chain(faster).collect();
        for part in [&all[10..30], &all] {
            store.add(part).unwrap();
        }
        let best = store.best("w", &target(), "m", Some(1), 100).unwrap();
        let kept = |of: std::ops::Range<usize>| all[of].iter();
        let expected: Vec<&Entry> = kept(20..20 + KEEP).chain(kept(0..KEEP)).collect();
        assert_eq!(best.iter().collect::<Vec<_>>(), expected);
        assert!(best[0].choice.rewrites_program() && !best[KEEP].choice.rewrites_program());
    });
}

#[test]
fn the_nearest_workload_is_that_of_similar_shapes() {
    everywhere(|path| {
        let mut store = Store::open(path).unwrap();
        let of = |workload: &str, shapes: &str| Entry {
            shapes: shapes.to_owned(),
            ..entry(workload, 1, 5.0)
        };
        let all = [of("a", "1x64x7"), of("b", "1x32x14"), of("c", "1x64")];
        store.add(&all).unwrap();
        let near = store.nearest("dense", "1x64x14", &target(), "m").unwrap();
        let order: Vec<&str> = near.iter().map(|e| e.key.workload.as_str()).collect();
        assert!(
            order == ["a", "b", "c"] || order == ["b", "a", "c"],
            "{order:?}"
        );
        let near = store.nearest("dense", "1x33x14", &target(), "m").unwrap();
        assert_eq!(near[0].key.workload, "b");
        assert!(
            store
                .nearest("conv2d", "1x64", &target(), "m")
                .unwrap()
                .is_empty()
        );
    });
}

#[test]
fn servers_that_are_not_there_and_passwords_in_urls_are_refused() {
    let error = Store::open(Path::new("postgres://u@127.0.0.1:1/db")).unwrap_err();
    let text = error.to_string();
    assert!(
        text.starts_with("the store postgres://u@127.0.0.1:1/db: error connecting"),
        "{text}"
    );
    let error = Store::open(Path::new("postgres://u:secret@h/db")).unwrap_err();
    let text = error.to_string();
    assert!(
        text.contains("set PGPASSWORD") && !text.contains("secret"),
        "{text}"
    );
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
fn sixteen_that_open_a_new_store_at_one_moment_all_have_it() {
    let folder = tempfile::tempdir().unwrap();
    for turn in 0..100 {
        let path = folder.path().join(format!("{turn}.sqlite"));
        let start = Barrier::new(16);
        std::thread::scope(|scope| {
            for writer in 0..16 {
                let (path, start) = (&path, &start);
                scope.spawn(move || {
                    start.wait();
                    let mut store = Store::open(path).unwrap();
                    store.add(&[entry(&format!("{writer}"), 1, 5.0)]).unwrap();
                });
            }
        });
        let all = Store::open(&path).unwrap().list(None).unwrap();
        assert_eq!(all.len(), 16);
    }
}

#[test]
fn sixteen_writers_lose_nothing_while_another_is_killed() {
    everywhere(|path| {
        let write = |writer: u64| {
            let mut store = Store::open(path).unwrap();
            for turn in 0..200 {
                let own = entry(&format!("{writer}"), 1, 1000.0 - turn as f64);
                let shared = entry("shared", 1, 1000.0 - (turn * 16 + writer) as f64 / 16.0);
                store.add(&[own, shared]).unwrap();
            }
        };
        let acknowledged = std::thread::scope(|scope| {
            for writer in 0..16 {
                scope.spawn(move || write(writer));
            }
            killed_writer(path)
        });
        let mut store = Store::open(path).unwrap();
        let mut best = |workload: &str| -> f64 {
            let best = store.best(workload, &target(), "m", None, 9).unwrap();
            best[0].time_ns
        };
        for writer in 0..16 {
            assert_eq!(best(&writer.to_string()), 801.0);
        }
        assert_eq!(best("shared"), 1000.0 - (199.0 * 16.0 + 15.0) / 16.0);
        // It was killed at some moment after its last message.
        assert!(best("killed") <= acknowledged);
    });
}

/// The store that [`writes_until_it_is_killed`] is to write to.
const STORE_TO_WRITE: &str = "OPBENCH_STORE_TO_WRITE";

/// A writer that is killed in the middle of its work: the last time that it said it had stored.
fn killed_writer(path: &Path) -> f64 {
    const TIMES: usize = 30;
    let mut writer = Command::new(std::env::current_exe().unwrap())
        .args([
            "--exact",
            "store::tests::writes_until_it_is_killed",
            "--nocapture",
        ])
        .env(STORE_TO_WRITE, path)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let said = BufReader::new(writer.stdout.take().unwrap()).lines();
    let mut times = said.filter_map(|line| line.unwrap().strip_prefix("stored ")?.parse().ok());
    let last = times.by_ref().take(TIMES).last().unwrap();
    writer.kill().unwrap();
    writer.wait().unwrap();
    last
}

/// The other process of the test above; on its own it has nothing to do.
#[test]
fn writes_until_it_is_killed() {
    let Some(path) = std::env::var_os(STORE_TO_WRITE) else {
        return;
    };
    let mut store = Store::open(Path::new(&path)).unwrap();
    for turn in 0_u32.. {
        let time = 1e9 - f64::from(turn);
        store.add(&[entry("killed", 1, time)]).unwrap();
        println!("\nstored {time}");
    }
}
