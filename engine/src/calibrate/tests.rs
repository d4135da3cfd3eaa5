//! Which probes are made and what becomes of their times, with a meter that knows the answers.

use opreport::progress::Recorded;

use super::*;
use crate::stats::{Nanos, Samples};

const CACHES: &str = r#"[
    {"level": 1, "kind": "data", "size_bytes": 32768, "line_bytes": 64, "ways": 8, "shared_by": 1},
    {"level": 2, "kind": "unified", "size_bytes": 1048576, "line_bytes": 64, "ways": 8, "shared_by": 1}
]"#;

/// Says that 1000 units of work took 100, 110, 120 ns…, and asks to stop after some probes.
struct Made {
    probes: Vec<Probe>,
    interrupt: Interrupt,
    stop_after: usize,
}

impl Meter for Made {
    fn step_bytes(&self) -> u64 {
        512
    }

    fn read(&mut self, probe: Probe, policy: TimingPolicy) -> Result<ProbeTimes, CalibrateError> {
        assert_eq!(policy, timing(1_000_000));
        self.probes.push(probe);
        if self.probes.len() == self.stop_after {
            self.interrupt.request();
        }
        let samples: Samples = (0..7u32)
            .map(|i| Nanos::new(100.0 + 10.0 * f64::from(i)).unwrap())
            .collect();
        Ok(ProbeTimes {
            time: samples.summary()?,
            work: 1000.0 * f64::from(probe.threads),
        })
    }
}

fn measured(
    threads: &[u32],
    stop_after: usize,
) -> (
    Result<Vec<ThreadRates>, CalibrateError>,
    Vec<Probe>,
    Recorded,
) {
    let caches: Vec<opdata::contract::Cache> = serde_json::from_str(CACHES).unwrap();
    let mut meter = Made {
        probes: Vec::new(),
        interrupt: Interrupt::default(),
        stop_after,
    };
    let interrupt = meter.interrupt.clone();
    let mut progress = Recorded::default();
    let hierarchy = Hierarchy {
        caches: &caches,
        cores: 4,
        available_bytes: Some(8 << 30),
    };
    let result = measure(
        threads,
        hierarchy,
        timing(1_000_000),
        &mut meter,
        &interrupt,
        &mut progress,
    );
    (result, meter.probes, progress)
}

#[test]
fn every_level_is_measured_at_every_number_of_threads() {
    let (rates, probes, progress) = measured(&[2, 1, 2], 99);
    let rates = rates.unwrap();
    assert_eq!(rates.iter().map(|r| r.threads).collect::<Vec<_>>(), [1, 2]);
    assert_eq!(probes.len(), 8);
    let two = &rates[1];
    assert_eq!(two.peak_gflops_per_s.best, 20.0);
    assert_eq!(two.peak_gflops_per_s.median, 2000.0 / 130.0);
    assert_eq!(two.peak_gflops_per_s.samples, 7);
    assert_eq!(two.read_gbytes_per_s[&Level::L1].set_bytes, 16384);
    assert!(!two.read_gbytes_per_s.contains_key(&Level::L3));
    assert_eq!(two.read_gbytes_per_s[&Level::Memory].set_bytes, 8 << 20);
    insta::assert_snapshot!(progress.0[..6].join("\n"), @r"
    note calibrating: 8 rates, about 0.0 s
    begin calibrate 8
    working peak (1 thread)
    point peak (1 thread): 10.0 GFLOP/s, median 7.69 ±23.1 %
    working L1 (1 thread, 16.0 KiB each)
    point L1 (1 thread, 16.0 KiB each): 10.0 GB/s, median 7.69 ±23.1 %
    ");
}

#[test]
fn a_wish_to_stop_ends_it_without_a_result() {
    let (rates, probes, progress) = measured(&[1, 2], 3);
    assert!(matches!(rates, Err(CalibrateError::Interrupted)));
    assert_eq!(probes.len(), 3);
    assert_eq!(progress.0.last().unwrap(), "end");
}

#[test]
fn no_threads_are_no_calibration() {
    for threads in [&[][..], &[0]] {
        let (rates, probes, _) = measured(threads, 99);
        assert!(matches!(rates, Err(CalibrateError::NoThreads)));
        assert!(probes.is_empty());
    }
}

#[test]
fn powers_of_two_and_all_cores() {
    assert_eq!(usual_threads(0), [1]);
    assert_eq!(usual_threads(1), [1]);
    assert_eq!(usual_threads(2), [1, 2]);
    assert_eq!(usual_threads(6), [1, 2, 4, 6]);
    assert_eq!(usual_threads(16), [1, 2, 4, 8, 16]);
}

/// The real meter, on whatever machine the tests run: what it says is checked by the kernels' own results.
#[test]
fn the_kernels_run_and_count_every_addition() {
    let target = serde_json::json!({
        "kind": "llvm",
        "mcpu": tvm_bridge::target::host_cpu().unwrap(),
        "num-cores": 2
    });
    let interrupt = Interrupt::default();
    let mut meter = TvmMeter::new(&target, 2, interrupt.clone()).unwrap();
    let set_bytes = 8 * meter.step_bytes();
    let policy = TimingPolicy {
        warmup: 1,
        ..timing(1)
    };
    let level = Level::L1;
    for threads in [1, 2] {
        for work in [Work::Peak, Work::Read { level, set_bytes }] {
            let reading = meter.read(Probe { threads, work }, policy).unwrap();
            assert!(reading.work > 1e6 * f64::from(threads), "{reading:?}");
        }
    }
    interrupt.request();
    let probe = Probe {
        threads: 1,
        work: Work::Peak,
    };
    let stopped = meter.read(probe, policy);
    assert!(matches!(stopped, Err(CalibrateError::Interrupted)));
}
