//! Software events of `perf` and `papi` against the program `perf`, which counts the same process meanwhile.

use std::io::Read as _;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use super::perf::tests::touch_pages;
use super::request::CounterRequest;
use super::*;

/// `perf stat` on the calling thread, once it has attached itself.
fn perf_stat() -> Option<Child> {
    // SAFETY: a plain system call without arguments.
    let thread = unsafe { libc::gettid() };
    let child = Command::new("perf")
        .args(["stat", "-x,", "-e", "page-faults", "-t"])
        .arg(thread.to_string())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .ok()?;
    // It says nothing when it has begun; its open files tell.
    let begun = Instant::now();
    while !counts(&child) && begun.elapsed() < Duration::from_secs(20) {
        std::thread::sleep(Duration::from_millis(20));
    }
    // It opens its counter a moment before it starts it.
    std::thread::sleep(Duration::from_millis(300));
    Some(child)
}

/// Whether a process has a counter of the kernel open.
fn counts(child: &Child) -> bool {
    let files = std::fs::read_dir(format!("/proc/{}/fd", child.id()));
    let targets = files.into_iter().flatten().flatten();
    targets
        .filter_map(|file| std::fs::read_link(file.path()).ok())
        .any(|target| target.to_string_lossy().contains("perf_event"))
}

/// Ends it as Ctrl-C would; the page faults that it counted.
fn faults_of(mut child: Child) -> Option<f64> {
    // SAFETY: the signal goes to a child that was not waited for yet.
    unsafe { libc::kill(child.id() as libc::pid_t, libc::SIGINT) };
    let mut text = String::new();
    child.stderr.take()?.read_to_string(&mut text).ok()?;
    child.wait().ok()?;
    let line = text.lines().find(|line| line.contains("page-faults"))?;
    line.split(',').next()?.parse().ok()
}

#[test]
fn software_events_are_those_of_perf_stat() {
    const PAGES: usize = 20_000;
    for (counters, reason) in [
        ("perf:page-faults", "perf_event_open"),
        ("perf::PAGE-FAULTS", "libpapi"),
    ] {
        let request = CounterRequest::parse(&[counters]).unwrap();
        if let Err(error) = request.check() {
            eprintln!("skipped: {reason}: {error}");
            continue;
        }
        let mut opened = open(&request);
        let Some(stat) = perf_stat() else {
            eprintln!("skipped: perf is not installed");
            return;
        };
        let source = &mut opened.meters[0];
        source.start().unwrap();
        touch_pages(PAGES);
        let readings = source.stop().unwrap();
        let Some(theirs) = faults_of(stat) else {
            eprintln!("skipped: perf stat does not count here");
            return;
        };
        let Reading::Counted { value: ours, .. } = readings[0] else {
            panic!("{counters}: {readings:?}");
        };
        let pages = PAGES as f64;
        assert!((pages..pages * 1.01).contains(&ours), "{counters}: {ours}");
        assert!(
            (ours / theirs - 1.0).abs() < 0.01,
            "{counters}: {ours} {theirs}"
        );
    }
}
