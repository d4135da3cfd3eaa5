//! Rows and runs for the tests of what reads finished runs.

use std::path::{Path, PathBuf};

use opdata::{
    CacheState, DeviceKind, Essentials, Row, RunManifest, RunState, RunWriter, Status, point_id,
};

/// The machine of all rows here.
pub(crate) const MACHINE: &str = "0123456789abcdef";

/// A measured row of an operator, with an interval of ±2 % from 10 samples.
pub(crate) fn row(symbol: &str, threads: u64, median_ns: f64) -> Row {
    let target = r#"{"kind":"llvm","mcpu":"znver5"}"#;
    let workload = format!("workload of {symbol}");
    let id = point_id(&opdata::PointKey {
        workload: &workload,
        schedule: "{}",
        target,
        threads,
        cache: CacheState::Model,
        seed: 0,
    });
    Row {
        model_source: Some("local".to_owned()),
        model_name: Some("net".to_owned()),
        batch: Some(1),
        op_symbol: Some(symbol.to_owned()),
        workload_hash: Some(workload),
        input_shapes: "1x64".parse().ok(),
        weight_shapes: "64x64".parse().ok(),
        target: target.parse().ok(),
        target_cpu: Some("znver5".to_owned()),
        threads: Some(threads),
        cache_state: Some(CacheState::Model),
        schedule_space: Some("default".to_owned()),
        schedule_knobs: "{}".parse().ok(),
        seed: Some(0),
        flops: Some(1_000_000),
        bytes_read: Some(4_000),
        bytes_written: Some(256),
        samples: Some(10),
        time_median_ns: Some(median_ns),
        time_ci_low_ns: Some(median_ns * 0.98),
        time_ci_high_ns: Some(median_ns * 1.02),
        ci_level: Some(0.978_515_625),
        time_min_ns: Some(median_ns * 0.97),
        drift_ratio: Some(1.0),
        env_hash: Some(MACHINE.to_owned()),
        ..Row::new(Essentials {
            run_id: "run",
            ordinal: 0,
            point_id: &id,
            op_name: "dense_relu",
            op_kind: "dense",
            device_kind: DeviceKind::CPU,
            status: Status::Measured,
        })
    }
}

/// The same point, failed.
pub(crate) fn failed(mut row: Row, status: Status, reason: &str) -> Row {
    row.status = status;
    row.reason = Some(reason.to_owned());
    row.time_median_ns = None;
    (row.time_ci_low_ns, row.time_ci_high_ns, row.ci_level) = (None, None, None);
    row
}

/// Writes a finished run of these rows, numbered in their order; `change` sees its manifest.
pub(crate) fn write_run(
    folder: &Path,
    run_id: &str,
    rows: &[Row],
    change: impl FnOnce(&mut RunManifest),
) -> PathBuf {
    let mut writer = RunWriter::create(folder).unwrap();
    let mut manifest = RunManifest::new(run_id);
    manifest.counts.planned = rows.len() as u64;
    for (ordinal, row) in rows.iter().enumerate() {
        let mut row = row.clone();
        row.run_id = run_id.to_owned();
        row.row_id = format!("{run_id}.{ordinal:06}");
        row.fill_derived();
        writer.append(&row).unwrap();
        manifest.counts.add(&row);
    }
    writer.finish().unwrap();
    manifest.end(RunState::Finished);
    change(&mut manifest);
    manifest.save(folder).unwrap();
    folder.to_owned()
}
