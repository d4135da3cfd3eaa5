//! Software events of `perf` and `papi` against the program `perf`, which counts the same process meanwhile.

use std::ffi::CString;
use std::fs::File;
use std::io::{Read as _, Write as _};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use super::perf::tests::touch_pages;
use super::request::CounterRequest;
use super::*;

/// A pipe with a name, open for reading and writing, so that nobody waits for its other end.
fn pipe(folder: &Path, name: &str) -> (PathBuf, File) {
    let path = folder.join(name);
    let text = CString::new(path.as_os_str().as_bytes()).unwrap();
    // SAFETY: a C string.
    assert_eq!(unsafe { libc::mkfifo(text.as_ptr(), 0o600) }, 0);
    let both = File::options().read(true).write(true).open(&path).unwrap();
    (path, both)
}

/// `perf stat` on the calling thread, returned once it counts. `None` if it is not installed, or ends early.
fn perf_stat() -> Option<Child> {
    // SAFETY: a plain system call without arguments.
    let thread = unsafe { libc::gettid() };
    let folder = tempfile::tempdir().unwrap();
    let (commands, mut to_perf) = pipe(folder.path(), "commands");
    let (answers, mut from_perf) = pipe(folder.path(), "answers");
    let control = format!("fifo:{},{}", commands.display(), answers.display());
    let mut child = Command::new("perf")
        .args([
            "stat",
            "-x,",
            "-e",
            "page-faults",
            "--delay=-1",
            "--control",
        ])
        .arg(control)
        .args(["-t", &thread.to_string()])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .ok()?;
    to_perf.write_all(b"enable\n").unwrap();
    let (send, answered) = std::sync::mpsc::channel();
    std::thread::spawn(move || send.send(from_perf.read_exact(&mut [0; 4])));
    loop {
        if answered.recv_timeout(Duration::from_millis(20)).is_ok() {
            return Some(child);
        }
        if child.try_wait().unwrap().is_some() {
            return None;
        }
    }
}

/// Ends it as Ctrl-C would, and returns the page faults that it counted.
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
            optestkit::skip(&format!("page faults by {reason}"), &error.to_string());
            continue;
        }
        let mut opened = open(&request, Side::Host);
        let Some(stat) = perf_stat() else {
            optestkit::skip(
                "page faults against perf stat",
                "perf is not installed, or does not count here",
            );
            return;
        };
        let source = &mut opened.meters[0];
        source.start().unwrap();
        touch_pages(PAGES);
        let readings = source.stop().unwrap();
        let Some(theirs) = faults_of(stat) else {
            optestkit::skip(
                "page faults against perf stat",
                "perf stat does not count here",
            );
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
