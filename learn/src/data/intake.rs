//! Rows → samples.
//!
//! Only measured rows with shapes or traffic become samples. Rows that measured the same point on the same machine
//! become one sample with the median of their times; apart, they could stand on both sides of a split. Rows without
//! interference are preferred.

use std::collections::{BTreeMap, HashMap};

use opdata::import::machine_of_target;
use opdata::{CacheState, Quality, Row};
use opmodels::Source;

use super::dataset::{Dataset, Intake, Sample, Workload};
use super::disturbed::Disturbed;
use super::end_to_end::{Disturbances, RunOperators};
use super::query_key::QueryKey;
use super::source::RowSet;
use super::times::{Times, settle_times};
use crate::error::{Error, Result};
use crate::features::machine::MachineFacts;
use crate::features::{point_of, workload_name};

/// The machines whose rows are used.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Machines {
    /// The rows of the only machine; several machines are an error.
    #[default]
    Single,
    /// The rows of the named machine.
    Named(String),
    /// All machines together: the machine is a feature.
    Mixed,
}

/// The name of the machine that a row was measured on.
fn machine_of(row: &Row) -> String {
    if let Some(simulator) = &row.simulator {
        // The machine that ran the simulator does not matter.
        let profile = row.simulator_profile.as_deref().unwrap_or("unknown");
        return format!("{simulator} {profile}");
    }
    let target = || {
        row.target
            .as_ref()
            .map(|t| machine_of_target(t.as_str().trim_matches('"')))
    };
    row.env_hash
        .clone()
        .or_else(target)
        .unwrap_or_else(|| "unknown".to_owned())
}

/// Weight of a row.
fn weight(quality: Option<Quality>) -> f32 {
    match quality {
        None | Some(Quality::A) => 1.0,
        Some(Quality::B) => 0.8,
        Some(Quality::C) => 0.5,
        Some(Quality::D) => 0.2,
    }
}

fn usable(row: &Row) -> bool {
    let work = row.flops.unwrap_or(0) > 0
        || row.bytes_read.unwrap_or(0) + row.bytes_written.unwrap_or(0) > 0;
    work && row.output_shapes.is_some() || row.bytes_read.is_some()
}

/// The model that a row's operator belongs to. `None` for operators measured alone.
fn model_of(row: &Row) -> Option<&String> {
    let is_single = row.model_source.as_deref() == Some(Source::SIMPLE.name());
    row.model_name.as_ref().filter(|_| !is_single)
}

fn workload_label(row: &Row) -> String {
    let shapes = |s: &Option<opdata::Shapes>| s.as_ref().map(ToString::to_string);
    [
        Some(row.op_name.clone()),
        shapes(&row.input_shapes),
        shapes(&row.weight_shapes),
    ]
    .into_iter()
    .flatten()
    .collect::<Vec<_>>()
    .join(" ")
}

impl Dataset {
    /// Makes samples of rows.
    ///
    /// # Errors
    /// Fails if no row can be used, if the rows are of several machines and none was chosen, or if all times are equal.
    pub fn new(rows: &RowSet, machines: &Machines) -> Result<Self> {
        dataset(rows, machines)
    }
}

fn dataset(set: &RowSet, machines: &Machines) -> Result<Dataset> {
    let mut intake = Intake {
        rows: set.rows.len(),
        left_out: set.left_out.clone(),
        ..Intake::default()
    };
    let measured = select(set, machines, &mut intake)?;
    let usual_cache = usual_cache(&measured);
    let mut collected = Collected {
        models_disturbed: Disturbances::of(&set.timed),
        ..Collected::default()
    };
    let mut disturbed = Disturbed::default();
    for row in measured {
        let time_ns = row.time_median_ns.filter(|t| *t > 0.0);
        let Some(time_ns) = time_ns.filter(|_| usable(row)) else {
            intake.unusable += 1;
            continue;
        };
        disturbed.add(row);
        intake.duplicates += usize::from(collected.add(row, time_ns, set));
    }
    intake.disturbed = disturbed.share();
    intake.repeat_noise = settle_times(&mut collected.samples, collected.times);
    if collected.samples.is_empty() {
        return Err(Error::NoSamples {
            rows: intake.rows,
            measured: intake.ended.get("measured").copied().unwrap_or(0),
            unusable: intake.unusable,
            left_out: intake.left_out.into_keys().collect(),
        });
    }
    let dataset = Dataset {
        samples: collected.samples,
        workloads: collected.workloads,
        machines: collected.machines,
        model_runs: collected.parts.model_runs(&set.timed),
        usual_cache,
        intake,
    };
    refuse_constant(&dataset)?;
    Ok(dataset)
}

/// Rows as samples, one after the other.
#[derive(Default)]
struct Collected<'a> {
    samples: Vec<Sample>,
    workloads: Vec<Workload>,
    machines: Vec<MachineFacts>,
    parts: RunOperators,
    /// Measured times by sample.
    times: Vec<Times>,
    models_disturbed: Disturbances<'a>,
    machine_numbers: Numbering,
    workload_numbers: Numbering,
    /// Samples by machine and point.
    places: HashMap<(usize, &'a str), usize>,
}

impl<'a> Collected<'a> {
    /// Adds a measured row, and says whether it repeats a point.
    fn add(&mut self, row: &'a Row, time_ns: f64, set: &RowSet) -> bool {
        let machine = self.machine(row, set);
        let point = (machine, row.point_id.as_str());
        if let Some(&place) = self.places.get(&point) {
            self.repeat(place, row, time_ns);
            return true;
        }
        let workload = self.workload(row);
        let place = self.samples.len();
        self.places.insert(point, place);
        self.parts.add(row, place);
        let mut times = Times::default();
        times.add(row, time_ns, self.models_disturbed.of_row(row));
        self.times.push(times);
        self.samples.push(Sample {
            point: point_of(row, &self.machines[machine]),
            log2_time: 0.0,
            log2_in_model: None,
            log2_interval: None,
            disturbed: None,
            query_key: QueryKey::of_row(row),
            weight: weight(row.quality),
            workload,
            machine,
            kind: row.op_kind.clone(),
            models: model_of(row).cloned().into_iter().collect(),
            threads: row.threads,
            measured_ms: row.measured_at_utc.map(opdata::Timestamp::unix_ms),
            row_id: row.row_id.clone(),
            counts: counts(row),
        });
        false
    }

    fn repeat(&mut self, place: usize, row: &Row, time_ns: f64) {
        let model_disturbed = self.models_disturbed.of_row(row);
        self.times[place].add(row, time_ns, model_disturbed);
        self.parts.add(row, place);
        let sample = &mut self.samples[place];
        // A later measurement of the point may have counts where the first has none.
        if sample.counts.is_none() && row.counters.is_some() {
            sample.counts = counts(row);
            sample.point = point_of(row, &self.machines[sample.machine]);
        }
        sample.weight = sample.weight.max(weight(row.quality));
        let new = |model: &&String| !sample.models.contains(model);
        if let Some(model) = model_of(row).filter(new) {
            sample.models.push(model.clone());
        }
    }

    /// Position of a row's machine.
    fn machine(&mut self, row: &Row, set: &RowSet) -> usize {
        let name = machine_of(row);
        let machine = self.machine_numbers.number(&name);
        if machine == self.machines.len() {
            let known = set.facts.get(&name).cloned();
            let mut facts = known.unwrap_or_else(|| MachineFacts::named(&name));
            if let Some(units) = set.units {
                facts = facts.with_units(units);
            }
            facts.number = u32::try_from(machine).ok();
            self.machines.push(facts);
        }
        machine
    }

    /// Position of a row's workload.
    fn workload(&mut self, row: &Row) -> usize {
        let hash = workload_name(row).into_owned();
        let workload = self.workload_numbers.number(&hash);
        if workload == self.workloads.len() {
            let label = workload_label(row);
            self.workloads.push(Workload { hash, label });
        }
        workload
    }
}

/// The cache state that most rows have.
fn usual_cache(rows: &[&Row]) -> Option<CacheState> {
    let mut counts: BTreeMap<CacheState, usize> = BTreeMap::new();
    for state in rows.iter().filter_map(|row| row.cache_state) {
        *counts.entry(state).or_default() += 1;
    }
    counts
        .into_iter()
        .max_by_key(|(_, count)| *count)
        .map(|(state, _)| state)
}

/// The measured rows of the machines wanted.
fn select<'a>(set: &'a RowSet, machines: &Machines, intake: &mut Intake) -> Result<Vec<&'a Row>> {
    let mut measured = Vec::new();
    let mut names: Vec<String> = Vec::new();
    for row in &set.rows {
        *intake
            .ended
            .entry(row.status.as_str().to_owned())
            .or_default() += 1;
        if row.status.has_time() {
            let name = machine_of(row);
            if !names.contains(&name) {
                names.push(name);
            }
            measured.push(row);
        }
    }
    match machines {
        Machines::Mixed => {}
        Machines::Single if names.len() < 2 => {}
        Machines::Single => return Err(Error::MixedMachines { machines: names }),
        Machines::Named(wanted) => {
            if !names.contains(wanted) {
                return Err(Error::UnknownMachine {
                    name: wanted.clone(),
                    machines: names,
                });
            }
            let before = measured.len();
            measured.retain(|row| machine_of(row) == *wanted);
            intake.other_machines = before - measured.len();
        }
    }
    Ok(measured)
}

/// Numbers for names, in the order of their first use.
#[derive(Debug, Default)]
struct Numbering(HashMap<String, usize>);

impl Numbering {
    fn number(&mut self, name: &str) -> usize {
        let next = self.0.len();
        match self.0.get(name) {
            Some(number) => *number,
            None => {
                self.0.insert(name.to_owned(), next);
                next
            }
        }
    }
}

fn refuse_constant(dataset: &Dataset) -> Result<()> {
    let first = dataset.samples[0].log2_time;
    let constant = dataset.samples.len() > 1
        && dataset
            .samples
            .iter()
            .all(|s| (s.log2_time - first).abs() < 1e-12);
    if constant {
        return Err(Error::ConstantTarget {
            samples: dataset.samples.len(),
            time_ns: first.exp2().round(),
        });
    }
    Ok(())
}

/// The counts of a row that has any.
fn counts(row: &Row) -> Option<BTreeMap<String, f64>> {
    let counters = row.counters.as_ref()?;
    serde_json::from_str(counters.as_str()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::features::Scope;
    use crate::testing::dense_row;

    fn row(point: &str, time_ns: f64, machine: &str) -> Row {
        let knobs = r#"{"tile_y":[-1,1],"tile_x":[-1,8],"tile_k":[-1,64]}"#;
        Row {
            point_id: point.to_owned(),
            time_median_ns: Some(time_ns),
            env_hash: Some(machine.to_owned()),
            ..dense_row(1, 1000, 2048, knobs)
        }
    }

    fn made(rows: Vec<Row>, machines: &Machines) -> Result<Dataset> {
        let set = RowSet {
            rows,
            ..RowSet::default()
        };
        Dataset::new(&set, machines)
    }

    #[test]
    fn repeats_become_one_sample() {
        let rows = vec![
            row("a", 100.0, "m"),
            row("a", 110.0, "m"),
            row("b", 400.0, "m"),
        ];
        let dataset = made(rows, &Machines::Single).unwrap();
        assert_eq!(dataset.samples.len(), 2);
        assert_eq!(dataset.samples[0].log2_time, 105f64.log2());
        assert_eq!(dataset.intake.duplicates, 1);
        assert!((dataset.intake.repeat_noise.unwrap() - 0.1).abs() < 1e-12);
    }

    #[test]
    fn counts_of_a_later_measurement_are_taken() {
        let counted = Row {
            counters: Some(r#"{"callgrind:instructions":5.0}"#.parse().unwrap()),
            simulated_instructions: Some(5.0),
            ..row("a", 110.0, "m")
        };
        let rows = vec![row("a", 100.0, "m"), counted, row("b", 400.0, "m")];
        let dataset = made(rows, &Machines::Single).unwrap();
        assert_eq!(dataset.samples[0].point.known, [Scope::Counted]);
        assert_eq!(dataset.samples[0].row_id, row("a", 100.0, "m").row_id);
        let counts = dataset.samples[0].counts.as_ref().unwrap();
        assert_eq!(counts["callgrind:instructions"], 5.0);
        assert!(dataset.samples[1].point.known.is_empty());
    }

    #[test]
    fn a_sample_knows_whether_its_time_was_disturbed() {
        let graded = |point, drift| Row {
            drift_ratio: Some(drift),
            ..row(point, 100.0, "m")
        };
        let rows = vec![
            graded("once", 1.3),
            graded("mostly quiet", 1.0),
            graded("mostly quiet", 1.3),
            graded("mostly quiet", 1.0),
            row("silent", 200.0, "m"),
        ];
        let dataset = made(rows, &Machines::Single).unwrap();
        let disturbed: Vec<_> = dataset.samples.iter().map(|s| s.disturbed).collect();
        assert_eq!(disturbed, [Some(true), Some(false), None]);
        assert_eq!(dataset.intake.disturbed, Some(0.5));
    }

    #[test]
    fn machines_are_mixed_only_on_request() {
        let rows = || {
            vec![
                row("a", 100.0, "m"),
                row("a", 200.0, "n"),
                row("b", 50.0, "n"),
            ]
        };
        let error = made(rows(), &Machines::Single).unwrap_err().to_string();
        assert!(
            error.starts_with("the rows are of 2 machines (m, n)"),
            "{error}"
        );
        let mixed = made(rows(), &Machines::Mixed).unwrap();
        assert_eq!((mixed.samples.len(), mixed.machines.len()), (3, 2));
        let one = made(rows(), &Machines::Named("n".to_owned())).unwrap();
        assert_eq!((one.samples.len(), one.intake.other_machines), (2, 1));
        assert!(made(rows(), &Machines::Named("x".to_owned())).is_err());
    }

    #[test]
    fn nothing_and_constants_are_refused() {
        let error = made(Vec::new(), &Machines::Single).unwrap_err();
        assert!(matches!(error, Error::NoSamples { rows: 0, .. }));
        let same = vec![row("a", 100.0, "m"), row("b", 100.0, "m")];
        let error = made(same, &Machines::Single).unwrap_err().to_string();
        assert!(error.starts_with("all 2 samples took 100 ns"), "{error}");
    }
}
