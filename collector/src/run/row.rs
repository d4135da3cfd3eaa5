//! Makes a row from a point and its outcome.

use std::borrow::Cow;
use std::collections::HashMap;

use opdata::contract::Environment;
use opdata::contract::device_kernel::DeviceKernel;
use opdata::lint;
use opdata::{Essentials, JsonText, PointKey, Quality, Row, Status, Timestamp, finite, point_id};
use opengine::device::{Conditions, SimulatedRun};
use opengine::protocol::{Built, Measured};
use opengine::runner::Failure;
use opengine::schedule::ScheduleSpec;
use opmodels::graph::Operator;
use opmodels::{Imported, describe};
use tvm_bridge::libs::TVM_VERSION;

use super::TOOL_VERSION;
use super::counts;
use super::grades::{quality, quality_under_load, worse};
use super::ledger::PointName;
use super::warnings;
use crate::plan::Plan;

/// Facts that all rows of a run share.
pub(crate) struct RunFacts<'a> {
    plan: &'a Plan,
    imported: &'a Imported,
    environment: &'a Environment,
    target: &'a serde_json::Value,
    import_key: String,
    /// The target as text, and the operators' workload hashes by function: every point is named by them.
    target_text: String,
    workloads: HashMap<&'a str, String>,
}

/// Facts about a row's point.
pub(crate) struct PointFacts<'a> {
    pub operator: &'a Operator,
    pub schedule_spec: &'a ScheduleSpec,
    /// Threads and cache state.
    pub conditions: &'a Conditions,
    pub built: Option<&'a Built>,
    pub in_model_ns: Option<f64>,
    /// Whether the whole model was disturbed at this number of threads.
    pub doubtful: bool,
}

/// The outcome of a point that did not fail.
pub(crate) enum Ended {
    /// Its kernel was compiled, and nothing else was requested.
    Compiled,
    /// It was checked and, if its output was right, timed.
    Measured(Box<Measured>),
}

impl<'a> RunFacts<'a> {
    pub fn new(
        plan: &'a Plan,
        imported: &'a Imported,
        environment: &'a Environment,
        target: &'a serde_json::Value,
    ) -> RunFacts<'a> {
        RunFacts {
            plan,
            imported,
            environment,
            target,
            import_key: import_key(imported),
            target_text: target.to_string(),
            workloads: imported
                .graph
                .operators
                .iter()
                .map(|o| (o.symbol.as_str(), o.workload_hash()))
                .collect(),
        }
    }

    fn workload(&self, operator: &Operator) -> String {
        let known = self.workloads.get(operator.symbol.as_str());
        known.cloned().unwrap_or_else(|| operator.workload_hash())
    }

    /// Whether a row of the run is of this import and target.
    pub fn includes(&self, row: &Row) -> bool {
        row.import_key.as_deref() == Some(&self.import_key)
            && Conditions::dictionary_of_row(row).as_ref() == Some(&self.target_text)
    }

    /// Key of the import that the rows are about.
    pub fn import_key(&self) -> &str {
        &self.import_key
    }

    /// The name of a point before anything is compiled.
    pub fn point_name(
        &self,
        operator: &Operator,
        schedule_spec: &ScheduleSpec,
        at: &Conditions,
    ) -> PointName {
        let target = match at.device.is_empty() {
            true => Cow::Borrowed(&self.target_text),
            false => Cow::Owned(at.in_target(self.target).to_string()),
        };
        let point_id = point_id(&PointKey {
            workload: &self.workload(operator),
            schedule: &schedule_spec.key(),
            target: &target,
            threads: u64::from(at.threads),
            cache: at.cache,
            seed: self.plan.seed,
        });
        PointName {
            import_key: self.import_key.clone(),
            target: self.target_text.clone(),
            symbol: operator.symbol.clone(),
            point_id,
        }
    }

    /// The row number `ordinal`.
    pub fn row(&self, ordinal: u64, point: &PointFacts<'_>, result: Result<Ended, Failure>) -> Row {
        let (status, reason) = verdict(&result);
        let operator = point.operator;
        let plan = self.plan;
        let Conditions { threads, cache, .. } = *point.conditions;
        let id = self
            .point_name(operator, point.schedule_spec, point.conditions)
            .point_id;
        // The actual choice; for a kernel that was not built, the intended one.
        let choice = match (point.built, point.schedule_spec) {
            (Some(built), _) => Some(&built.choice),
            (None, ScheduleSpec::Template { choice }) => Some(choice),
            (None, _) => None,
        };
        let knobs = choice.and_then(|choice| serde_json::to_value(choice).ok());
        let device = plan.target.device;
        let mut row = Row {
            measured_at_utc: Some(Timestamp::now()),
            model_source: Some(self.imported.graph.source.clone()),
            model_name: Some(self.imported.graph.model.clone()),
            import_key: Some(self.import_key.clone()),
            import_check: Some(self.imported.graph.check.to_string()),
            batch: Some(self.imported.graph.batch),
            seqlen: self.imported.resolved.seqlen,
            target: Some(JsonText::from(&point.conditions.in_target(self.target))),
            threads: Some(u64::from(threads)),
            schedule_space: Some(point.schedule_spec.space().to_owned()),
            schedule_knobs: knobs.as_ref().map(JsonText::from),
            seed: Some(plan.seed),
            cache_state: Some(cache),
            repeat: Some(u64::from(plan.timing.stop.max_samples)),
            in_model_time_ns: point.in_model_ns.and_then(finite),
            reason,
            workload_hash: Some(self.workload(operator)),
            env_hash: Some(self.environment.env_hash.clone()),
            tvm_version: Some(TVM_VERSION.to_owned()),
            git_revision: self.environment.software.git_revision.clone(),
            tool_version: Some(TOOL_VERSION.to_owned()),
            ..Row::new(Essentials {
                run_id: &plan.run_id,
                ordinal,
                point_id: &id,
                op_name: &operator.name,
                op_kind: operator.kind.name(),
                device_kind: device.kind(),
                status,
            })
        };
        describe(operator, &mut row);
        device.fill_target(&mut row, self.target);
        if let Some(choice) = choice {
            device.fill_schedule(&mut row, choice);
        }
        if let Some(built) = point.built {
            describe_build(&mut row, built);
        }
        if let Ok(Ended::Measured(measured)) = &result {
            describe_measurement(&mut row, measured);
            // Kernels timed on another device do not wait for the cores of this machine.
            if device.has_host_threads() {
                let others = measured.other_cpu_share.unwrap_or(0.0);
                row.quality = row.quality.map(|own| quality_under_load(own, others));
            }
        }
        if let Some(quality) = row.quality
            && (point.doubtful || warnings::contradicts_model(&row))
        {
            row.quality = Some(worse(quality, Quality::C));
        }
        if self.environment.machine.emulated {
            row.emulated = Some("emulated".to_owned());
            row.quality = row.quality.map(|_| Quality::D);
        }
        row.fill_derived();
        let calibration = self.environment.calibration.as_ref();
        if let Some(calibration) = calibration.filter(|_| device.has_host_threads()) {
            row.fill_roofline(calibration);
        }
        if row.quality.is_some() && !lint::findings(&row, calibration).is_empty() {
            row.quality = Some(Quality::D);
        }
        row
    }
}

/// Key of an import: the name of its folder in the cache.
pub(crate) fn import_key(imported: &Imported) -> String {
    let name = imported.folder.file_name().unwrap_or_default();
    name.to_string_lossy().into_owned()
}

fn verdict(result: &Result<Ended, Failure>) -> (Status, Option<String>) {
    match result {
        Ok(Ended::Compiled) => (Status::Compiled, None),
        Ok(Ended::Measured(measured)) => match measured.comparison.complaint() {
            Some(complaint) => (Status::WrongResult, Some(complaint)),
            None if measured.simulated.is_some() => (Status::Simulated, None),
            None if measured.taken.is_some() => (Status::Measured, None),
            None => (Status::Crashed, Some("no sample was taken".to_owned())),
        },
        Err(failure) => (failure.status, Some(failure.reason.clone())),
    }
}

fn describe_build(row: &mut Row, built: &Built) {
    row.schedule_trace = Some(JsonText::from(&built.trace));
    row.program_hash = Some(format!("{:016x}", built.program_hash));
    row.schedule_ns = Some(built.schedule_ns);
    row.lower_ns = Some(built.lower_ns);
    row.codegen_ns = Some(built.codegen_ns);
    row.jit_ns = Some(built.jit_ns);
    describe_kernels(row, &built.device_kernels);
}

/// The kernels' resources of the device: those of the longest code in columns of their own, and all of them.
fn describe_kernels(row: &mut Row, kernels: &[DeviceKernel]) {
    let Some(largest) = kernels.iter().max_by_key(|k| k.code_bytes) else {
        return;
    };
    row.device_launches = Some(kernels.len() as u64);
    row.threads_per_block = Some(largest.threads_per_block);
    row.blocks = Some(largest.blocks);
    row.registers_per_thread = largest.registers_per_thread;
    row.shared_bytes_per_block = largest.shared_bytes_per_block;
    row.local_bytes_per_thread = largest.local_bytes_per_thread;
    row.spill_bytes_per_thread = largest.spill_bytes();
    row.occupancy = largest.occupancy.and_then(finite);
    row.occupancy_limiter = largest.occupancy_limiter.clone();
    let json = |value: serde_json::Result<serde_json::Value>| Some(JsonText::from(&value.ok()?));
    if !largest.instructions.is_empty() {
        row.instruction_mix = json(serde_json::to_value(&largest.instructions));
    }
    row.device_kernels = json(serde_json::to_value(kernels));
}

fn describe_simulation(row: &mut Row, run: &SimulatedRun) {
    row.simulated_device_cycles = finite(run.cycles);
    row.simulated_host_ns = finite(run.host_ns);
    row.simulated_bytes_read = Some(run.bytes_read);
    row.simulated_bytes_written = Some(run.bytes_written);
    row.simulated_limit = Some(run.limit.clone());
    row.cpu_side = (!run.cpu_side.is_empty()).then(|| run.cpu_side.join(";"));
    row.quantisation = run.quantisation.as_ref().map(JsonText::from);
}

fn describe_measurement(row: &mut Row, measured: &Measured) {
    let comparison = &measured.comparison;
    row.max_abs_error = finite(comparison.max_abs_error);
    row.max_rel_error = finite(comparison.max_rel_error);
    row.tolerance_abs = finite(comparison.tolerance_abs);
    row.tolerance_rel = finite(comparison.tolerance_rel);
    row.drift_ratio = finite(measured.slowdown);
    row.other_cpu_share = measured.other_cpu_share.and_then(finite);
    row.server = measured.server.clone();
    if let Some(state) = &measured.state {
        row.device_clock_mhz = state.clock_mhz.map(u64::from);
        row.device_temperature_c = state.temperature_c.map(u64::from);
        row.device_held_back_by = state.held_back_by.clone();
        row.device_late_samples = state.late_samples;
    }
    if let Some(run) = &measured.simulated {
        describe_simulation(row, run);
    }
    let Some(taken) = &measured.taken else { return };
    row.warmup = Some(u64::from(taken.warmup));
    row.number = Some(u64::from(taken.number));
    let Ok(summary) = taken.samples.summary() else {
        return;
    };
    row.samples = Some(summary.samples);
    if let Some(counted) = &measured.counted {
        counts::describe(row, counted);
    }
    row.time_median_ns = Some(summary.median.get());
    row.time_ci_low_ns = Some(summary.ci_low.get());
    row.time_ci_high_ns = Some(summary.ci_high.get());
    row.ci_level = Some(summary.ci_level);
    row.time_mean_ns = Some(summary.mean.get());
    row.time_std_ns = summary.std.map(|s| s.get());
    row.time_min_ns = Some(summary.min.get());
    row.time_p95_ns = Some(summary.p95.get());
    // A grade says how far a measurement can be trusted.
    let is_measured = measured.simulated.is_none();
    row.quality = is_measured.then(|| quality(&summary, measured.slowdown));
}
