//! Every tuner on a small grid: no point twice, the same by seed, the best found.

use opengine::schedule::Space;
use rand::SeedableRng as _;
use rand_pcg::Pcg64Mcg;

use super::learned::Learned;
use super::tuner::{History, Trial};
use super::*;

/// An element-wise operator of 96 elements on rows of 48: 15 of 24 combinations are possible.
fn grid() -> Grid {
    let space: Space = serde_json::from_value(serde_json::json!({
        "base": {"template": "spatial", "vector_length": 16, "unroll": 1, "parallel_extent": null},
        "dimensions": [
            {"factor": "vector-length", "axis": null, "values": [1, 2, 4, 8, 16, 48]},
            {"factor": "unroll", "axis": null, "values": [1, 2, 4, 8]},
        ],
        "shape": {"shape": "spatial", "inner": 48, "total": 96},
    }))
    .unwrap();
    Grid::new(opengine::device::named("llvm").unwrap(), space)
}

/// The origin of an operator in an import that does not exist.
fn origin() -> Origin {
    Origin {
        import: "import".into(),
        symbol: "add".to_owned(),
        target: serde_json::json!({"kind": "llvm"}),
        trials: 16,
        threads: 1,
    }
}

/// The cost of a point: the best is the vector length 8 without unrolling.
fn cost(point: &[usize]) -> f64 {
    0.1 * (point[0] as f64 - 3.0).abs() + 0.05 * point[1] as f64
}

/// The points that a tuner proposes until it ends, in batches of four, and how it ends.
fn tried(name: &str, seed: u64, start: &[usize]) -> Vec<Point> {
    let mut history = History::new(grid());
    let mut tuner = make(name, &origin(), seed).unwrap();
    let mut random = Pcg64Mcg::seed_from_u64(seed);
    let learned = Learned::new(MachineFacts::named("m"));
    let mut all = Vec::new();
    let mut take = |history: &mut History, point: Point| {
        let spec = history.grid.spec(&point).expect("a possible point");
        assert!(history.note(&spec), "{}: {point:?} is proposed twice", name);
        let cost = Some(cost(&point));
        let key = spec.key();
        all.push(point.clone());
        history.trials.push(Trial { point, key, cost });
    };
    take(&mut history, start.to_vec());
    for _ in 0..40 {
        let mut search = SearchState {
            history: &history,
            learned: &learned,
            base: None,
            known: &[],
            random: &mut random,
        };
        let points = tuner.propose(&mut search, 4).unwrap();
        assert!(points.len() <= 4, "{}", name);
        if points.is_empty() {
            break;
        }
        for point in points {
            take(&mut history, point);
        }
    }
    all
}

#[test]
fn no_tuner_proposes_a_schedule_twice_and_seeds_repeat_them() {
    // MetaSchedule's schedules are no points; TVM's own tests are beside its search.
    for kind in tuners::TUNERS
        .iter()
        .filter(|kind| kind.name != "metaschedule")
    {
        let name = kind.name;
        if kind.learns && oplearn::xgboost::version().is_err() {
            optestkit::skip("tuners that learn", "XGBoost's library is not installed");
            continue;
        }
        let all = tried(name, 7, &[4, 0]);
        assert_eq!(all, tried(name, 7, &[4, 0]), "{}", name);
        let keys: std::collections::HashSet<String> = all
            .iter()
            .map(|point| grid().spec(point).unwrap().key())
            .collect();
        assert_eq!(keys.len(), all.len(), "{}", name);
        let best = all
            .iter()
            .map(|point| cost(point))
            .fold(f64::INFINITY, f64::min);
        assert_eq!(best, 0.0, "{}: {all:?}", name);
    }
}

#[test]
fn a_small_space_is_exhausted_by_a_search_in_order_and_at_random() {
    for name in ["gridsearch", "grid", "random", "ga"] {
        let all = tried(tuners::named(name).unwrap().name, 1, &[4, 0]);
        assert_eq!(all.len(), 15, "{name}");
    }
}

#[test]
fn coordinate_descent_ends_at_a_point_without_better_neighbours() {
    let all = tried("droplet", 1, &[4, 0]);
    assert!(all.len() < 15, "it looked at every point: {all:?}");
    assert!(all.contains(&vec![3, 0]));
}

#[test]
fn a_schedule_of_the_space_has_its_point() {
    let grid = grid();
    for point in [[0, 0], [3, 1], [5, 0]] {
        let choice = grid.choice(&point).unwrap();
        let found = grid.point_of(&choice).unwrap();
        assert_eq!(grid.choice(&found), Some(choice));
    }
    assert_eq!(grid.point_of(&Choice::unscheduled()), None);
}

#[test]
fn names_of_tuners_are_unique_and_each_has_a_tuner() {
    let all: Vec<&str> = tuners::TUNERS
        .iter()
        .flat_map(|tuner| std::iter::once(&tuner.name).chain(tuner.aliases))
        .copied()
        .collect();
    let unique: std::collections::BTreeSet<&str> = all.iter().copied().collect();
    assert_eq!(unique.len(), all.len());
    assert!(
        tuners::names()
            .iter()
            .all(|name| make(name, &origin(), 0).is_some())
    );
    assert!(make("xgboost", &origin(), 0).is_none());
}
