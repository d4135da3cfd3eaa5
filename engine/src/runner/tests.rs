//! The supervisor with real child processes, which do what a test says.

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Mutex;

use opdata::Status;

use super::testing::{Act, FakeRunner, WorkerStep, kernel, order, point};
use super::*;
use crate::protocol::{Built, KernelSpec, Reply};
use crate::schedule::Choice;

/// A stand-in for a worker: builds what is called `good`, and does what the test says with anything else.
fn runner(folder: &Path, otherwise: &str) -> Supervisor {
    supervisor(folder, otherwise, Interrupt::default())
}

fn supervisor(folder: &Path, otherwise: &str, interrupt: Interrupt) -> Supervisor {
    let built = serde_json::to_string(&Reply::Built(Built {
        id: 1,
        choice: Choice::unscheduled(),
        trace: serde_json::Value::Null,
        program_hash: 0,
        schedule_ns: 0,
        lower_ns: 0,
        codegen_ns: 0,
        jit_ns: 0,
        device_kernels: Vec::new(),
    }))
    .unwrap();
    let script = format!(
        r#"#!/bin/sh
read setup
echo '{{"reply":"ready"}}'
while read line; do
  case "$line" in
    *bad*) echo '{{"reply":"started","id":0}}'; echo '{{"reply":"started","id":1}}'; {otherwise};;
    *good*) echo '{{"reply":"started","id":1}}'; echo '{built}'; echo '{{"reply":"all_built"}}';;
    *measure*) {otherwise};;
  esac
done
"#
    );
    let program = folder.join("worker.sh");
    std::fs::write(&program, script).unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    let launch = ChildLauncher {
        program,
        log: folder.join("worker.log"),
        contents: folder.to_owned(),
    };
    let order = RunnerOrder {
        jobs: 2,
        interrupt,
        ..order()
    };
    Supervisor::new(Arc::new(launch), order)
}

fn build(runner: &mut Supervisor, kernels: &[KernelSpec]) -> BTreeMap<u64, Result<(), Failure>> {
    let mut results = BTreeMap::new();
    runner.build(kernels, &mut |id, result| {
        assert!(
            results.insert(id, result.map(drop)).is_none(),
            "{id} was reported twice"
        );
    });
    results
}

#[test]
fn a_crash_is_blamed_on_the_kernel_that_crashes_alone() {
    let folder = tempfile::tempdir().unwrap();
    let mut runner = runner(folder.path(), "kill -SEGV $$");
    let results = build(&mut runner, &[kernel(0, "bad"), kernel(1, "good")]);
    assert_eq!(results[&1], Ok(()));
    let failure = results[&0].clone().unwrap_err();
    assert_eq!(failure.status, Status::Crashed);
    assert!(failure.reason.contains("SIGSEGV"), "{}", failure.reason);
}

#[test]
fn a_build_that_hangs_times_out_and_the_rest_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let mut runner = runner(folder.path(), "sleep 60");
    let results = build(&mut runner, &[kernel(0, "bad"), kernel(1, "good")]);
    assert_eq!(results[&1], Ok(()));
    assert_eq!(results[&0].clone().unwrap_err().status, Status::TimedOut);
}

#[test]
fn a_kernel_that_kills_its_worker_while_measured_costs_its_own_point() {
    let folder = tempfile::tempdir().unwrap();
    let mut runner = runner(folder.path(), "echo out of luck >&2; kill -ABRT $$");
    assert_eq!(build(&mut runner, &[kernel(1, "good")])[&1], Ok(()));
    for _ in 0..2 {
        // The second time, the kernel is built again in a new worker first.
        let failure = runner.measure(&point(1)).unwrap_err();
        assert_eq!(failure.status, Status::Crashed);
        assert!(
            failure.reason.contains("SIGABRT") && failure.reason.contains("out of luck"),
            "{}",
            failure.reason
        );
    }
}

#[test]
fn kernels_lost_with_a_build_that_hangs_are_built_again_before_the_first_is_measured() {
    let steps = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&steps);
    let fake = FakeRunner::new(move |step| {
        let (word, id) = match step {
            WorkerStep::Build(kernel) => ("build", kernel.id),
            WorkerStep::Measure { point, .. } => ("measure", point.id),
            _ => ("whole model", 0),
        };
        seen.lock().unwrap().push((word, id));
        match (word, id) {
            ("build", 2) => Act::Hang,
            _ => Act::takes(1.0),
        }
    });
    let mut runner = Supervisor::new(Arc::new(fake), order());
    let kernels = [kernel(0, "a"), kernel(1, "b"), kernel(2, "c")];
    let results = build(&mut runner, &kernels);
    assert_eq!(results[&2].clone().unwrap_err().status, Status::TimedOut);
    for id in [0, 1] {
        runner.measure(&point(id)).unwrap();
    }
    let built = [0, 1, 2, 0, 1].map(|id| ("build", id));
    let measured = [0, 1].map(|id| ("measure", id));
    assert_eq!(*steps.lock().unwrap(), [&built[..], &measured[..]].concat());
}

/// A supervisor of a scripted worker on another machine.
fn elsewhere(script: impl Fn(u32) -> Act + Send + Sync + 'static) -> Supervisor {
    let count = std::sync::atomic::AtomicU32::new(0);
    let fake = FakeRunner::new(move |step| match step {
        WorkerStep::Measure { .. } => {
            script(count.fetch_add(1, std::sync::atomic::Ordering::Relaxed))
        }
        _ => Act::takes(1.0),
    });
    let mut order = order();
    order.setup.remote = Some(opdata::contract::RemoteAddress {
        host: "board".to_owned(),
        port: 9190,
        key: "rpi4".to_owned(),
    });
    Supervisor::new(Arc::new(fake), order)
}

#[test]
fn a_connection_that_is_lost_costs_no_point_until_it_is_lost_each_time() {
    let mut twice = elsewhere(|count| match count {
        0 | 1 => Act::Crash,
        _ => Act::takes(5.0),
    });
    assert_eq!(build(&mut twice, &[kernel(1, "good")])[&1], Ok(()));
    assert_eq!(
        twice.measure(&point(1)).unwrap().server.as_deref(),
        Some("board")
    );
    let mut always = elsewhere(|_| Act::Crash);
    assert_eq!(build(&mut always, &[kernel(1, "good")])[&1], Ok(()));
    assert_eq!(
        always.measure(&point(1)).unwrap_err().status,
        Status::Crashed
    );
}

#[test]
fn a_server_that_is_wrong_three_times_in_a_row_is_set_aside() {
    let mut runner = elsewhere(|count| match count {
        0 | 1 | 3 | 4 | 5 => Act::Miscompute,
        _ => Act::takes(5.0),
    });
    assert_eq!(build(&mut runner, &[kernel(1, "good")])[&1], Ok(()));
    let servers: Vec<String> = (0..7)
        .map(|_| runner.measure(&point(1)).unwrap().server.unwrap())
        .collect();
    assert_eq!(
        servers[..6],
        ["board"; 6],
        "two wrong ones, a right one, three wrong ones"
    );
    assert_eq!(servers[6], "board-2");
}

#[test]
fn an_interrupted_build_leaves_no_kernel_without_a_word() {
    let folder = tempfile::tempdir().unwrap();
    let interrupt = Interrupt::default();
    let mut runner = supervisor(folder.path(), "sleep 60", interrupt.clone());
    interrupt.request();
    let results = build(&mut runner, &[kernel(0, "bad"), kernel(1, "good")]);
    assert!(
        results
            .values()
            .all(|r| r.as_ref().unwrap_err().status == Status::Skipped),
        "{results:?}"
    );
    assert_eq!(results.len(), 2);
}

#[test]
fn a_program_that_is_not_there_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let launch = ChildLauncher {
        program: folder.path().join("missing"),
        log: folder.path().join("worker.log"),
        contents: folder.path().to_owned(),
    };
    let mut runner = Supervisor::new(Arc::new(launch), order());
    let results = build(&mut runner, &[kernel(1, "good")]);
    assert!(results[&1].clone().unwrap_err().reason.contains("missing"));
}
