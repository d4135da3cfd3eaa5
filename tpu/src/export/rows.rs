//! Rows of the dataset: one for each operator, kernel or layer of a dump, with its times over all executions.
//!
//! What no record tells stays missing: FLOPs without whole commands, DDR bytes without directions. PMU totals go to
//! `counters` as counts of one execution on average.

use std::path::{Path, PathBuf};

use opdata::stats::median_of_sorted;
use opdata::{
    CacheState, DeviceKind, Essentials, JsonText, PointKey, Quality, Row, RunManifest, RunState,
    RunWriter, Status, finite, point_id, stable_hash,
};
use serde_json::json;

use crate::analysis::rollup::{Filter, Group, Grouping, roll_up};
use crate::error::{Error, Result};
use crate::profile::Profile;

fn boxed(error: opdata::Error) -> Error {
    Error::Dataset(Box::new(error))
}

/// Writes a run (`rows.csv`, `rows.parquet`, `run.json`) into a folder, which must not hold one.
pub fn write(
    profile: &Profile,
    run_id: &str,
    folder: &Path,
    filter: &Filter,
) -> Result<Vec<PathBuf>> {
    let mut writer = RunWriter::create(folder).map_err(boxed)?;
    let mut manifest = RunManifest::new(run_id);
    manifest.command_line = std::env::args().collect();
    manifest.plan =
        json!({"dump": profile.path.display().to_string(), "mode": profile.mode.name()});
    manifest.environment = json!({"chip": profile.chip.spec().name, "cores": profile.cores.len()});
    manifest.versions.insert(
        "tpuprofile".to_string(),
        env!("CARGO_PKG_VERSION").to_string(),
    );
    let rows = rows(profile, run_id, filter);
    manifest.counts.planned = rows.len() as u64;
    for row in &rows {
        writer.append(row).map_err(boxed)?;
        manifest.counts.add(row);
    }
    let csv = writer.csv_path().to_path_buf();
    let parquet = writer.finish().map_err(boxed)?;
    manifest.end(RunState::Finished);
    manifest.save(folder).map_err(boxed)?;
    Ok(vec![csv, parquet, folder.join("run.json")])
}

/// The rows of a dump, operators first, then kernels, then layers.
pub fn rows(profile: &Profile, run_id: &str, filter: &Filter) -> Vec<Row> {
    let mut rows = Vec::new();
    for grouping in Grouping::ALL {
        for group in roll_up(profile, grouping, filter) {
            rows.push(row(profile, run_id, rows.len() as u64, grouping, &group));
        }
    }
    rows
}

fn row(profile: &Profile, run_id: &str, ordinal: u64, grouping: Grouping, group: &Group) -> Row {
    let target = json!({
        "kind": "sophgo",
        "chip": profile.chip.spec().name,
        "cores": profile.cores.len(),
        "tiu_mhz": profile.tiu_mhz,
        "dma_mhz": profile.dma_mhz,
    });
    let engine = group
        .engine
        .map(|engine| engine.name().to_ascii_lowercase());
    let target_text = JsonText::from(&target);
    let workload = stable_hash(&[
        ("grouping", grouping.name()),
        ("name", &group.name),
        ("kind", &group.kind),
        ("engine", engine.as_deref().unwrap_or("")),
        (
            "order",
            &if grouping == Grouping::Layer {
                group.order.to_string()
            } else {
                String::new()
            },
        ),
    ]);
    let point = point_id(&PointKey {
        workload: &workload,
        schedule: profile.mode.name(),
        target: &target.to_string(),
        threads: profile.cores.len() as u64,
        cache: CacheState::Hot,
        seed: 0,
    });
    let times = Times::of(&group.durations_ns);
    let count = group.count.max(1) as f64;
    let mut row = Row::new(Essentials {
        run_id,
        ordinal,
        point_id: &point,
        op_name: &group.name,
        op_kind: &group.kind.to_lowercase(),
        device_kind: DeviceKind::Tpu,
        status: Status::Measured,
    });
    row.model_source = Some("tpu".to_string());
    row.model_name = Some(
        profile
            .layers
            .as_ref()
            .and_then(|l| l.net.clone())
            .unwrap_or_else(|| profile.name()),
    );
    row.op_count = Some(group.count);
    row.op_pattern = Some("opaque".to_string());
    row.workload_hash = Some(workload);
    row.engine = engine;
    row.target = Some(target_text);
    row.schedule_space = Some(format!("tpu_{}", grouping.name()));
    row.samples = Some(group.count);
    row.time_median_ns = finite(times.median);
    row.time_mean_ns = finite(times.mean);
    row.time_std_ns = times.std;
    row.time_min_ns = finite(times.min);
    row.time_p95_ns = finite(times.p95);
    row.in_model_time_ns = finite(times.median);
    row.flops = group.alg_ops.map(|ops| (ops / count).max(0.0) as u64);
    if !group.direction_unknown && group.dma_cycles > 0 {
        row.bytes_read = Some((group.ddr_read_bytes as f64 / count) as u64);
        row.bytes_written = Some((group.ddr_write_bytes as f64 / count) as u64);
    }
    row.counters = Some(JsonText::from(&json!({
        "tpu_pmu:tiu_cycles": group.tiu_cycles as f64 / count,
        "tpu_pmu:dma_cycles": group.dma_cycles as f64 / count,
        "tpu_pmu:dma_bytes": group.bytes as f64 / count,
    })));
    row.counter_sources = Some("tpu_pmu".to_string());
    if !profile.report.is_whole() {
        // Something of the dump is lost or guessed: measure again before relying on it.
        row.quality = Some(Quality::D);
    }
    row.tool_version = Some(format!("tpuprofile {}", env!("CARGO_PKG_VERSION")));
    row.fill_derived();
    row
}

struct Times {
    median: f64,
    mean: f64,
    std: Option<f64>,
    min: f64,
    p95: f64,
}

impl Times {
    /// Of sorted durations.
    fn of(sorted: &[i64]) -> Times {
        let n = sorted.len();
        if n == 0 {
            return Times {
                median: 0.0,
                mean: 0.0,
                std: None,
                min: 0.0,
                p95: 0.0,
            };
        }
        let durations: Vec<f64> = sorted.iter().map(|&d| d as f64).collect();
        let at = |i: usize| durations[i.min(n - 1)];
        let mean = sorted.iter().map(|&d| d as f64).sum::<f64>() / n as f64;
        let squares = sorted
            .iter()
            .map(|&d| (d as f64 - mean).powi(2))
            .sum::<f64>();
        Times {
            median: median_of_sorted(&durations).unwrap_or(0.0),
            mean,
            std: (n > 1).then(|| (squares / (n - 1) as f64).sqrt()),
            min: at(0),
            p95: at((n * 95).div_ceil(100).saturating_sub(1)),
        }
    }
}
