//! Refusals, scaling and overflow on made-up numbers; page faults of several threads on the real thing.

use super::events::Origin;
use super::*;
use crate::measure::counters::Count;

#[test]
fn a_refusal_names_the_setting_and_the_least_that_mends_it() {
    let text = |name: &str, errno, paranoid| {
        let error = event(name).unwrap().refusal(Some(errno), paranoid);
        format!("{error}")
    };
    assert_eq!(
        text("cycles", libc::EACCES, Some(4)),
        "perf:cycles: the system refuses it (kernel.perf_event_paranoid is 4); sudo sysctl kernel.perf_event_paranoid=2"
    );
    assert_eq!(
        text("context-switches", libc::EACCES, Some(2)),
        "perf:context-switches: the system refuses it (kernel.perf_event_paranoid is 2); sudo sysctl kernel.perf_event_paranoid=1"
    );
    assert!(text("cycles", libc::EPERM, Some(1)).contains("--cap-add PERFMON"));
    assert!(text("cycles", libc::ENOENT, Some(1)).contains("callgrind"));
    assert!(text("cycles", libc::EMFILE, None).contains("ulimit"));
}

#[test]
fn unknown_events_come_with_those_near_and_raw_ones_are_numbers() {
    let error = event("page-fault").unwrap_err().to_string();
    assert!(error.contains("did you mean page-faults?"), "{error}");
    assert_eq!(event("r01c0").unwrap().origin, Origin::Raw(0x1c0));
    assert!(event("rabbit").is_err());
}

#[test]
fn shared_registers_scale_the_count_and_overflow_is_no_count() {
    let seen = |count, running| {
        Some(Seen {
            count,
            enabled: 1.0,
            running,
        })
    };
    assert_eq!(
        reading(&[seen(100, 0.5), seen(100, 1.0)]),
        Reading::Counted {
            value: 300.0,
            running_share: 0.75
        }
    );
    // A thread that slept adds nothing.
    let asleep = Some(Seen::default());
    assert_eq!(reading(&[seen(7, 1.0), asleep]), Reading::whole(7.0));
    let starved = [seen(100, 0.0)];
    assert!(matches!(reading(&starved), Reading::NotCounted(r) if r.contains("fewer")));
    let wrapped = seen(5, 1.0).unwrap().since(seen(9, 0.5).unwrap());
    assert!(matches!(reading(&[wrapped]), Reading::NotCounted(r) if r.contains("overflowed")));
}

fn faults_of(opened: Opened, work: impl FnOnce()) -> f64 {
    assert_eq!(opened.refused, Vec::<Count>::new());
    let mut source = opened.meters.into_iter().next().unwrap();
    source.start().unwrap();
    work();
    match source.stop().unwrap()[0] {
        Reading::Counted { value, .. } => value,
        Reading::NotCounted(ref reason) => panic!("{reason}"),
    }
}

#[test]
fn threads_that_were_there_before_are_counted_with_the_calling_one() {
    let (go, wait) = std::sync::mpsc::channel();
    let (done, end) = std::sync::mpsc::channel();
    let other = std::thread::spawn(move || {
        wait.recv().unwrap();
        touch_pages(300);
        done.send(()).unwrap();
    });
    if let Err(error) = Perf.check("page-faults") {
        optestkit::skip("perf events of threads", &error.to_string());
        return;
    }
    let events = Selection::Listed(vec!["page-faults".to_owned()]);
    let faults = faults_of(Perf.open(&events), || {
        touch_pages(200);
        go.send(()).unwrap();
        end.recv().unwrap();
    });
    other.join().unwrap();
    // Counted twice, either thread's would be 200 more, and the runtime makes some of its own.
    assert!((500.0..690.0).contains(&faults), "{faults}");
}

/// Touches this many pages for the first time.
pub(in crate::measure::counters) fn touch_pages(pages: usize) {
    const PAGE: usize = 4096;
    // SAFETY: a mapping of our own, written to inside its bounds and given back.
    unsafe {
        let bytes = pages * PAGE;
        let (rw, flags) = (
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
        );
        let memory = libc::mmap(std::ptr::null_mut(), bytes, rw, flags, -1, 0);
        assert_ne!(memory, libc::MAP_FAILED);
        libc::madvise(memory, bytes, libc::MADV_NOHUGEPAGE);
        for page in 0..pages {
            memory.cast::<u8>().add(page * PAGE).write_volatile(1);
        }
        libc::munmap(memory, bytes);
    }
}
