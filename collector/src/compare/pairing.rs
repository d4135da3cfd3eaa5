//! Pairs the points of one side with those of the other.
//!
//! First by `point_id`. It covers the whole target and the seed, so the remaining points are paired by workload,
//! operator, threads, cache state and schedule. Those with the same target come first, then those with the same kind of
//! target. Several points with the same key are paired in the order of their rows. The time is linear in the number of
//! points.

use std::collections::{HashMap, VecDeque};

use super::point::Point;

/// Points of both sides.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Pairing {
    /// Places in the first and the second side, in the second's order.
    pub pairs: Vec<(usize, usize)>,
    /// Points that only the first side has.
    pub only_in_a: u64,
    /// Points that only the second side has.
    pub only_in_b: u64,
}

/// Ways to tell that two points are the same, the surest first. Two operators of a model can be the same computation,
/// so the function's name goes before the identifier alone.
const KEYS: [fn(&Point) -> String; 4] = [
    |p| format!("{}\n{}\n{}", p.model, p.point_id, p.symbol),
    |p| format!("{}\n{}", p.model, p.point_id),
    |p| format!("{}\n{}", p.identity(), p.target),
    |p| format!("{}\n{}", p.identity(), p.target_kind),
];

/// Pairs the points of two sides.
pub(super) fn pair(a: &[Point], b: &[Point]) -> Pairing {
    let (mut left, mut right): (Vec<usize>, Vec<usize>) =
        ((0..a.len()).collect(), (0..b.len()).collect());
    let mut pairs = Vec::new();
    for key in KEYS {
        if left.is_empty() || right.is_empty() {
            break;
        }
        let mut waiting: HashMap<String, VecDeque<usize>> = HashMap::new();
        for &place in &left {
            waiting.entry(key(&a[place])).or_default().push_back(place);
        }
        right.retain(|&in_b| {
            let found = waiting
                .get_mut(&key(&b[in_b]))
                .and_then(VecDeque::pop_front);
            pairs.extend(found.map(|in_a| (in_a, in_b)));
            found.is_none()
        });
        left = waiting.into_values().flatten().collect();
        left.sort_unstable();
    }
    pairs.sort_unstable_by_key(|(_, in_b)| *in_b);
    Pairing {
        pairs,
        only_in_a: left.len() as u64,
        only_in_b: right.len() as u64,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::testing::row;
    use opdata::Row;

    fn points(rows: &[Row]) -> Vec<Point> {
        rows.iter().map(Point::of).collect()
    }

    fn pairs(a: &[Row], b: &[Row]) -> Pairing {
        pair(&points(a), &points(b))
    }

    /// Whether one point is found to be the other.
    fn same(a: &Row, b: &Row) -> bool {
        pair(&[Point::of(a)], &[Point::of(b)]).pairs == [(0, 0)]
    }

    #[test]
    fn by_identifier_whatever_the_order() {
        let (x, y, z) = (row("x", 1, 1.0), row("y", 1, 1.0), row("z", 1, 1.0));
        let found = pairs(&[x.clone(), y.clone(), z], &[y, x]);
        assert_eq!(
            found,
            Pairing {
                pairs: vec![(1, 0), (0, 1)],
                only_in_a: 1,
                only_in_b: 0
            }
        );
    }

    #[test]
    fn another_seed_or_processor_is_the_same_operator() {
        let old = row("x", 1, 1.0);
        let mut new = old.clone();
        new.point_id = "another".to_owned();
        assert!(same(&old, &new));
        new.target = r#"{"kind":"llvm","mcpu":"haswell"}"#.parse().ok();
        assert!(same(&old, &new));
        // A better default schedule is still the default schedule; one of a sweep is another point.
        new.schedule_knobs = r#"{"tile":9}"#.parse().ok();
        assert!(same(&old, &new));
        let (mut swept, mut other) = (old.clone(), new.clone());
        (swept.schedule_space, other.schedule_space) =
            (Some("template".into()), Some("template".into()));
        assert!(!same(&swept, &other));
        new.target = r#"{"kind":"cuda"}"#.parse().ok();
        assert!(!same(&old, &new));
    }

    #[test]
    fn another_model_threads_or_cache_is_not() {
        let base = row("x", 1, 1.0);
        for change in [
            (|r: &mut Row| r.model_name = Some("other".into())) as fn(&mut Row),
            |r| r.batch = Some(8),
            |r| (r.threads, r.point_id) = (Some(4), "p4".into()),
            |r| (r.cache_state, r.point_id) = (Some(opdata::CacheState::Hot), "ph".into()),
            |r| (r.workload_hash, r.point_id) = (Some("w2".into()), "pw".into()),
        ] {
            let mut other = base.clone();
            change(&mut other);
            assert!(!same(&base, &other));
        }
    }

    #[test]
    fn equal_points_are_paired_one_to_one() {
        let x = row("x", 1, 1.0);
        let found = pairs(&[x.clone(), x.clone()], &[x.clone(), x.clone(), x]);
        assert_eq!((found.pairs.len(), found.only_in_b), (2, 1));
    }
}
