//! From a sweep and an operator's space to the schedule specs of its kernels.

use std::collections::HashSet;

use opdata::random::SplitMix64;
use opengine::device::DeviceRef;
use opengine::schedule::{Choice, Dimension, FactorValue, ScheduleSpec, Space, as_is};

use super::{Draw, SpaceKind, Sweep, Values, draw};

/// Combinations tried for each schedule wanted, before an operator's space is taken for exhausted.
const ATTEMPTS: usize = 64;
/// Maximum number of strata of a Latin hypercube; for more points, several follow each other.
const MOST_STRATA: usize = 1 << 18;

/// The draws for an operator.
#[derive(Debug, Clone, PartialEq)]
pub struct Drawn {
    /// The default schedule, then distinct others.
    pub schedule_specs: Vec<ScheduleSpec>,
    /// Number of combinations of the varying factors, including impossible ones. `None` if it cannot be computed.
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
        SpaceKind::AsIs => drawn
            .schedule_specs
            .push(ScheduleSpec::Trace { trace: as_is() }),
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
            let combine = |settings: &[Setting<'_>]| device.combine(space, settings).ok();
            draw_template(
                sweep,
                Settled::new(sweep, space),
                schedules,
                seed,
                &combine,
                &mut drawn,
            );
        }
    }
    drawn
}

/// A dimension of a space with one of its values.
type Setting<'a> = (&'a Dimension, &'a FactorValue);

/// The factors of an operator's space that a sweep settles: fixed ones and varied ones.
struct Settled<'a> {
    fixed: Vec<Setting<'a>>,
    varied: Vec<(&'a Dimension, Vec<&'a FactorValue>)>,
    /// Settings that the space does not offer.
    unoffered: Vec<String>,
}

impl<'a> Settled<'a> {
    fn new(sweep: &'a Sweep, space: &'a Space) -> Settled<'a> {
        let mut settled = Settled {
            fixed: Vec::new(),
            varied: Vec::new(),
            unoffered: Vec::new(),
        };
        for dimension in &space.dimensions {
            if let Some(setting) = sweep.fix.get(&dimension.factor) {
                if dimension.values.contains(setting) {
                    settled.fixed.push((dimension, setting));
                } else {
                    settled.unoffered.push(assignment(dimension, setting));
                }
            } else if let Some(values) = sweep.vary.get(&dimension.factor) {
                let offered = offered(dimension, values, &mut settled.unoffered);
                if !offered.is_empty() {
                    settled.varied.push((dimension, offered));
                }
            }
        }
        settled
    }

    /// Number of values of each varied factor.
    fn lengths(&self) -> Vec<usize> {
        self.varied.iter().map(|(_, values)| values.len()).collect()
    }

    fn combinations(&self) -> f64 {
        self.lengths().iter().map(|&n| n as f64).product()
    }

    /// The settings at a point of the grid.
    fn at(&self, point: &[usize]) -> Vec<Setting<'a>> {
        let varied = self.varied.iter().zip(point);
        let picked = varied.map(|((dimension, values), &value)| (*dimension, values[value]));
        self.fixed.iter().copied().chain(picked).collect()
    }
}

/// Maximum number of schedule specs that [`schedule_specs`] can draw for an operator besides the default one.
pub fn most_schedule_specs(sweep: &Sweep, space: &Space, schedules: usize) -> f64 {
    match sweep.space {
        SpaceKind::Default | SpaceKind::Points => 0.0,
        SpaceKind::AsIs => 1.0,
        SpaceKind::Metaschedule => schedules as f64,
        SpaceKind::Traces => schedules.min(sweep.traces.len()) as f64,
        SpaceKind::Template => {
            let combinations = Settled::new(sweep, space).combinations();
            combinations.min(schedules as f64)
        }
    }
}

fn draw_template(
    sweep: &Sweep,
    mut settled: Settled<'_>,
    schedules: usize,
    seed: u64,
    combine: &dyn Fn(&[Setting<'_>]) -> Option<Choice>,
    drawn: &mut Drawn,
) {
    drawn.unoffered = std::mem::take(&mut settled.unoffered);
    drawn.dimensions = settled.varied.len();
    drawn.combinations = Some(settled.combinations());
    if settled.varied.is_empty() && settled.fixed.is_empty() {
        return;
    }
    let mut known: HashSet<String> = HashSet::new();
    if let Some(base) = combine(&[]) {
        known.insert(ScheduleSpec::Template { choice: base }.key());
    }
    let attempts = match sweep.draw {
        // A grid ends by itself; this only bounds how long an impossible one is searched.
        Draw::Grid => schedules.saturating_mul(ATTEMPTS * 16),
        _ => schedules.saturating_mul(ATTEMPTS),
    };
    let lengths = settled.lengths();
    let mut untried = Untried::new(&lengths, attempts);
    let points = draw::points(sweep.draw, &lengths, seed, schedules.min(MOST_STRATA));
    for point in points.take(attempts) {
        if drawn.schedule_specs.len() > schedules || untried.is_empty() {
            break;
        }
        untried.remove(&point);
        let Some(choice) = combine(&settled.at(&point)) else {
            continue;
        };
        let schedule_spec = ScheduleSpec::Template { choice };
        if known.insert(schedule_spec.key()) {
            drawn.schedule_specs.push(schedule_spec);
        }
    }
}

/// The points of a grid that were not tried yet. Random designs never end by themselves, and a small grid is exhausted
/// long before its attempts are.
struct Untried {
    lengths: Vec<usize>,
    tried: HashSet<u128>,
    /// Number of points of the grid. `None` for a grid that cannot be exhausted.
    size: Option<u128>,
}

impl Untried {
    fn new(lengths: &[usize], attempts: usize) -> Untried {
        let size = lengths
            .iter()
            .try_fold(1u128, |size, &n| size.checked_mul(n as u128));
        Untried {
            lengths: lengths.to_vec(),
            tried: HashSet::new(),
            size: size.filter(|&size| size <= attempts as u128),
        }
    }

    fn is_empty(&self) -> bool {
        self.size == Some(self.tried.len() as u128)
    }

    fn remove(&mut self, point: &[usize]) {
        if self.size.is_some() {
            let digits = self.lengths.iter().zip(point);
            let place = digits.fold(0, |place, (&n, &digit)| place * n as u128 + digit as u128);
            self.tried.insert(place);
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
            // The steps of 15 of the 24 combinations divide 48, and one of them is the base.
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
    fn a_small_space_is_exhausted_at_once_however_many_schedules_are_wanted() {
        let start = std::time::Instant::now();
        for draw in [Draw::Grid, Draw::Random, Draw::LatinHypercube, Draw::Sobol] {
            let sweep = sweep(SpaceKind::Template, draw);
            assert_eq!(most_schedule_specs(&sweep, &space(), 1_000_000), 24.0);
            let drawn = schedule_specs(cpu(), &sweep, &space(), 1_000_000, 7);
            assert_eq!(drawn.schedule_specs.len(), 1 + 14, "{draw:?}");
        }
        assert!(start.elapsed() < std::time::Duration::from_secs(20));
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
