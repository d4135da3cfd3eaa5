//! From a sweep and an operator's space to the schedule specs of its kernels.

use std::collections::HashSet;

use opdata::random::SplitMix64;
use opengine::device::DeviceRef;
use opengine::schedule::{Choice, Dimension, FactorValue, ScheduleSpec, Space};

use super::{Draw, SpaceKind, Sweep, Values, draw};

/// Combinations tried for each schedule wanted, before an operator's space is taken for exhausted.
const ATTEMPTS: usize = 64;

/// What was drawn for an operator.
#[derive(Debug, Clone, PartialEq)]
pub struct Drawn {
    /// The default schedule, then distinct others.
    pub schedule_specs: Vec<ScheduleSpec>,
    /// Combinations of the factors that vary, the impossible ones included; none where they cannot be counted.
    pub combinations: Option<f64>,
    /// Settings of the sweep that the operator's space does not offer, as `factor = value`.
    pub unoffered: Vec<String>,
    /// Number of factors that vary.
    pub dimensions: usize,
}

/// Draws at most `schedules` schedule specs beside the default one for an operator. `seed` should depend on the operator, so
/// that operators do not all get the same corner of their spaces.
pub fn schedule_specs(
    device: DeviceRef,
    sweep: &Sweep,
    space: &Space,
    schedules: usize,
    seed: u64,
) -> Drawn {
    let mut drawn = Drawn {
        schedule_specs: vec![ScheduleSpec::Default],
        combinations: None,
        unoffered: Vec::new(),
        dimensions: 0,
    };
    match sweep.space {
        // Chosen points are not drawn.
        SpaceKind::Default | SpaceKind::Points => {}
        SpaceKind::Metaschedule => {
            let sample = |i: u64| ScheduleSpec::Metaschedule {
                seed: SplitMix64::at(seed, i),
            };
            drawn
                .schedule_specs
                .extend((0..schedules as u64).map(sample));
        }
        SpaceKind::Traces => {
            let recorded = |trace: &serde_json::Value| ScheduleSpec::Trace {
                trace: trace.clone(),
            };
            drawn
                .schedule_specs
                .extend(sweep.traces.iter().take(schedules).map(recorded));
        }
        SpaceKind::Template => {
            let combine = |settings: &[Setting<'_>]| device.combine(space, settings);
            draw_template(sweep, space, &combine, schedules, seed, &mut drawn);
        }
    }
    drawn
}

/// A dimension of a space with one of its values.
type Setting<'a> = (&'a Dimension, &'a FactorValue);

fn draw_template(
    sweep: &Sweep,
    space: &Space,
    combine: &dyn Fn(&[Setting<'_>]) -> Result<Choice, String>,
    schedules: usize,
    seed: u64,
    drawn: &mut Drawn,
) {
    let mut fixed: Vec<Setting<'_>> = Vec::new();
    let mut varied: Vec<(&Dimension, Vec<&FactorValue>)> = Vec::new();
    for dimension in &space.dimensions {
        if let Some(setting) = sweep.fix.get(&dimension.factor) {
            if dimension.values.contains(setting) {
                fixed.push((dimension, setting));
            } else {
                drawn.unoffered.push(assignment(dimension, setting));
            }
        } else if let Some(values) = sweep.vary.get(&dimension.factor) {
            let offered = offered(dimension, values, &mut drawn.unoffered);
            if !offered.is_empty() {
                varied.push((dimension, offered));
            }
        }
    }
    drawn.dimensions = varied.len();
    let lengths: Vec<usize> = varied.iter().map(|(_, values)| values.len()).collect();
    drawn.combinations = Some(lengths.iter().map(|&n| n as f64).product());
    if varied.is_empty() && fixed.is_empty() {
        return;
    }
    let mut known: HashSet<String> = HashSet::new();
    if let Ok(base) = combine(&[]) {
        known.insert(ScheduleSpec::Template { choice: base }.key());
    }
    let attempts = match sweep.draw {
        // A grid ends by itself; this only bounds how long an impossible one is searched.
        Draw::Grid => schedules.saturating_mul(ATTEMPTS * 16),
        _ => schedules.saturating_mul(ATTEMPTS),
    };
    for point in draw::points(sweep.draw, &lengths, seed, schedules).take(attempts) {
        if drawn.schedule_specs.len() > schedules {
            break;
        }
        let picked = varied
            .iter()
            .zip(&point)
            .map(|((dimension, values), &value)| (*dimension, values[value]));
        let settings: Vec<_> = fixed.iter().copied().chain(picked).collect();
        let Ok(choice) = combine(&settings) else {
            continue;
        };
        let schedule_spec = ScheduleSpec::Template { choice };
        if known.insert(schedule_spec.key()) {
            drawn.schedule_specs.push(schedule_spec);
        }
    }
}

fn offered<'a>(
    dimension: &'a Dimension,
    values: &Values,
    unoffered: &mut Vec<String>,
) -> Vec<&'a FactorValue> {
    match values {
        Values::All => dimension.values.iter().collect(),
        Values::Listed(listed) => {
            let missing = listed.iter().filter(|v| !dimension.values.contains(v));
            unoffered.extend(missing.map(|v| assignment(dimension, v)));
            dimension
                .values
                .iter()
                .filter(|v| listed.contains(v))
                .collect()
        }
    }
}

/// A setting in words.
fn assignment(dimension: &Dimension, setting: &FactorValue) -> String {
    format!("{} = {setting}", dimension.name())
}

#[cfg(test)]
mod tests {
    use super::*;
    use opengine::device::named;
    use opengine::schedule::Factor;
    use std::collections::BTreeMap;

    fn cpu() -> DeviceRef {
        named("llvm").unwrap()
    }

    fn sweep(space: SpaceKind, draw: Draw) -> Sweep {
        Sweep {
            name: "s".to_owned(),
            space,
            draw,
            schedules: 20,
            max_points: None,
            operators: Vec::new(),
            traces: Vec::new(),
            points: Vec::new(),
            machine: None,
            vary: BTreeMap::from([
                (Factor::named("vector-length"), Values::All),
                (Factor::named("unroll"), Values::All),
            ]),
            fix: BTreeMap::new(),
            batches: Vec::new(),
            input_sizes: Vec::new(),
        }
    }

    /// An element-wise operator of 96 elements on rows of 48.
    fn space() -> Space {
        serde_json::from_value(serde_json::json!({
            "base": {"template": "spatial", "vector_length": 16, "unroll": 1, "parallel_extent": null},
            "dimensions": [
                {"factor": "vector-length", "axis": null, "values": [1, 2, 4, 8, 16, 48]},
                {"factor": "unroll", "axis": null, "values": [1, 2, 4, 8]},
            ],
            "shape": {"shape": "spatial", "inner": 48, "total": 96},
        }))
        .unwrap()
    }

    #[test]
    fn the_default_comes_first_and_no_schedule_twice() {
        for draw in [Draw::Grid, Draw::Random, Draw::LatinHypercube, Draw::Sobol] {
            let drawn = schedule_specs(cpu(), &sweep(SpaceKind::Template, draw), &space(), 20, 7);
            assert_eq!(drawn.schedule_specs[0], ScheduleSpec::Default);
            assert_eq!(drawn.combinations, Some(24.0));
            // Of 24 combinations the steps of 15 divide 48, and one of those is the base.
            assert_eq!(drawn.schedule_specs.len(), 1 + 14, "{draw:?}");
            let keys: HashSet<String> =
                drawn.schedule_specs.iter().map(ScheduleSpec::key).collect();
            assert_eq!(keys.len(), drawn.schedule_specs.len(), "{draw:?}");
            assert_eq!(
                drawn,
                schedule_specs(cpu(), &sweep(SpaceKind::Template, draw), &space(), 20, 7)
            );
        }
    }

    #[test]
    fn settings_that_are_not_offered_are_listed() {
        let mut sweep = sweep(SpaceKind::Template, Draw::Grid);
        let unroll = Factor::named("unroll");
        sweep.fix.insert(unroll, FactorValue::Number(3));
        let drawn = schedule_specs(cpu(), &sweep, &space(), 20, 7);
        assert_eq!(drawn.unoffered, ["unroll = 3"]);
    }

    #[test]
    fn metaschedule_samples_have_seeds_of_their_own() {
        let drawn = schedule_specs(
            cpu(),
            &sweep(SpaceKind::Metaschedule, Draw::Random),
            &Space::fixed(Choice::unscheduled()),
            50,
            1,
        );
        let keys: HashSet<String> = drawn.schedule_specs.iter().map(ScheduleSpec::key).collect();
        assert_eq!(keys.len(), 51);
    }
}
