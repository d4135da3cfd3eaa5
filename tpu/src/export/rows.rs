//! Rows of the dataset, with times over all executions. There is one for each operator by shape, kernel and layer of a
//! dump, and one for the whole.
//!
//! Rates are sums over sums: all operations or bytes over all the time. A quotient of a mean and a median would be a rate
//! that never was, where executions differ.
//!
//! Values without a source stay missing: FLOPs without whole commands, DDR bytes without directions. PMU totals go to
//! `counters` as counts of one execution on average.

use std::path::{Path, PathBuf};

use opdata::{
    CacheState, DeviceKind, Essentials, JsonText, PointKey, Quality, Row, RunManifest, RunState,
    RunWriter, Shapes, Status, finite, point_id, stable_hash,
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

/// The rows of a dump: operators by shape, then kernels, layers, and the whole.
pub fn rows(profile: &Profile, run_id: &str, filter: &Filter) -> Vec<Row> {
    let mut rows = Vec::new();
    for grouping in [
        Grouping::Shape,
        Grouping::Kernel,
        Grouping::Layer,
        Grouping::Whole,
    ] {
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
    let workload = workload(grouping, group);
    let point = point_id(&PointKey {
        workload: &workload,
        schedule: profile.mode.name(),
        target: &target.to_string(),
        threads: profile.cores.len() as u64,
        cache: CacheState::Hot,
        seed: 0,
    });
    let mut row = Row::new(Essentials {
        run_id,
        ordinal,
        point_id: &point,
        op_name: &group.name,
        op_kind: &group.kind.to_lowercase(),
        device_kind: DeviceKind::TPU,
        status: Status::Measured,
    });
    let net = profile.layers.as_ref().and_then(|l| l.net.clone());
    row.model_source = Some("tpu".to_string());
    row.model_name = Some(net.unwrap_or_else(|| profile.name()));
    row.op_pattern = Some("opaque".to_string());
    row.workload_hash = Some(workload);
    row.engine = engine(group);
    row.target = Some(JsonText::from(&target));
    row.schedule_space = Some(format!("tpu_{}", grouping.name()));
    if let Some(tensors) = &group.tensors {
        let shapes = |list: &[Vec<u64>]| list.iter().map(|s| s.as_slice()).collect::<Shapes>();
        row.input_shapes = (!tensors.inputs.is_empty()).then(|| shapes(&tensors.inputs));
        row.output_shapes = Some(shapes(&tensors.outputs));
        row.dtypes = (!tensors.dtypes.is_empty()).then(|| tensors.dtypes.join(";"));
    }
    if !profile.report.is_whole() {
        // Something of the dump is lost or guessed: measure again before relying on it.
        row.quality = Some(Quality::D);
    }
    row.tool_version = Some(format!("tpuprofile {}", env!("CARGO_PKG_VERSION")));
    measured(group, &mut row);
    row
}

fn engine(group: &Group) -> Option<String> {
    let engine = group.engine?;
    Some(engine.name().to_ascii_lowercase())
}

/// Hash of a group's computation.
fn workload(grouping: Grouping, group: &Group) -> String {
    let tensors = group
        .tensors
        .as_ref()
        .map_or(String::new(), |t| t.to_string());
    let order = match grouping {
        Grouping::Layer => group.order.to_string(),
        _ => String::new(),
    };
    stable_hash(&[
        ("grouping", grouping.name()),
        ("name", &group.name),
        ("kind", &group.kind),
        ("engine", engine(group).as_deref().unwrap_or("")),
        ("tensors", &tensors),
        ("order", &order),
    ])
}

/// Times, work and rates.
fn measured(group: &Group, row: &mut Row) {
    let count = group.count.max(1) as f64;
    row.op_count = Some(group.count);
    row.samples = Some(group.count);
    let times = &group.durations;
    let ns = |place: u64| times.at(place).map(|ns| ns as f64);
    row.time_median_ns = times.median_ns();
    row.time_mean_ns = finite(times.total_ns() as f64 / count);
    row.time_std_ns = times.std_ns();
    row.time_min_ns = ns(0);
    row.time_p95_ns = ns((group.count * 95).div_ceil(100).saturating_sub(1));
    row.in_model_time_ns = times.median_ns();
    row.flops = group.alg_ops.map(|ops| (ops / count).max(0.0) as u64);
    // Traffic of the memories that cores share, DDR and L2. The bandwidth of a core's own memory limits nothing.
    let read = group.ddr_read_bytes + group.l2_read_bytes;
    let written = group.ddr_write_bytes + group.l2_write_bytes;
    if !group.direction_unknown && read + written > 0 {
        row.bytes_read = Some((read as f64 / count) as u64);
        row.bytes_written = Some((written as f64 / count) as u64);
    }
    row.counters = Some(JsonText::from(&json!({
        "tpu_pmu:tiu_cycles": group.tiu_cycles as f64 / count,
        "tpu_pmu:dma_cycles": group.dma_cycles as f64 / count,
        "tpu_pmu:dma_bytes": group.bytes as f64 / count,
    })));
    row.counter_sources = Some("tpu_pmu".to_string());
    row.fill_derived();
    let rate = |sum: f64| finite(sum / group.total_ns as f64).filter(|_| group.total_ns > 0);
    row.gflops_per_s = group.alg_ops.and_then(rate);
    if row.bytes_read.is_some() {
        row.gbytes_per_s = rate((read + written) as f64);
    }
}
