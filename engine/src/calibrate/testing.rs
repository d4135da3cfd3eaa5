//! A made-up calibration, for tests of code that stores or shows one.

use std::collections::BTreeMap;

use opdata::contract::{CALIBRATION_FORMAT, Calibration, Level, Rate, ReadRate, ThreadRates};

/// A calibration of a machine of this name, for 1 and 2 threads.
pub fn calibration(env_hash: &str) -> Calibration {
    let rate = |best: f64| Rate {
        best,
        median: best * 0.98,
        spread: 0.004,
        samples: 50,
    };
    let of = |threads: u32| {
        let scale = f64::from(threads);
        let read = |(level, best): (Level, f64)| {
            let set_bytes = 24 << 10;
            let rate = rate(best * scale);
            (level, ReadRate { rate, set_bytes })
        };
        ThreadRates {
            threads,
            peak_gflops_per_s: rate(100.0 * scale),
            read_gbytes_per_s: [
                (Level::L1, 400.0),
                (Level::L2, 150.0),
                (Level::Memory, 12.0),
            ]
            .map(read)
            .into_iter()
            .collect(),
        }
    };
    Calibration {
        format: CALIBRATION_FORMAT,
        env_hash: env_hash.to_owned(),
        measured_at_utc: "2026-01-02T03:04:05.000Z".parse().expect("a timestamp"),
        versions: BTreeMap::from([("opcollect".to_owned(), "0.1.0".to_owned())]),
        target: serde_json::json!({"kind": "llvm", "mcpu": "haswell", "num-cores": 2}),
        cores_usable: 2,
        load_1min: Some(0.1),
        other_cpu_share: None,
        clock_ghz: Some(3.1),
        rates: vec![of(1), of(2)],
    }
}
