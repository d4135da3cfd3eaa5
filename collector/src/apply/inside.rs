//! Which of an operator's schedules is the fastest inside the model.
//!
//! Alone an operator finds more in the caches than inside the model, whatever state they are brought into. So another
//! schedule may be the fastest there. The model is therefore built with the operators' best schedules, then with their
//! second ones, and so on, and with the default ones. Each operator keeps the schedule that it was the fastest with, if
//! the model as a whole is faster with them. Under interference single comparisons go wrong.

use super::Applied;
use crate::store::Entry;

/// Schedules of each state of the caches that are tried inside the model.
const OF_EACH_STATE: usize = 3;
/// A schedule takes the place of another if it takes at most this share of its time: less is noise.
const FASTER: f64 = 0.97;
/// Times that the model is measured with the first schedules and with those chosen, in turn; the least of each counts.
const TURNS: usize = 2;

/// What an operator tries in place of its schedule, one after the other; none stands for the default schedule.
pub(super) type Others = Vec<Option<Entry>>;

/// The schedules to try of those that the store knows, the fastest first: a few measured in each state of the caches.
pub(super) fn finalists(known: Vec<Entry>) -> Vec<Entry> {
    let mut finalists: Vec<Entry> = Vec::new();
    for entry in known {
        let of_state = finalists.iter().filter(|f| f.key.cache == entry.key.cache);
        let is_new = !finalists
            .iter()
            .any(|f| f.program_hash == entry.program_hash);
        if is_new && of_state.count() < OF_EACH_STATE {
            finalists.push(entry);
        }
    }
    finalists
}

/// Tries the operators' `others` in place of their schedules. `measure` returns the model's latency, and fills in the
/// operators' times inside it, both in nanoseconds.
///
/// # Errors
/// The model cannot be built or measured with the schedules it has.
pub(super) fn choose(
    operators: &mut [Applied],
    others: &[Others],
    measure: &mut dyn FnMut(&mut [Applied]) -> anyhow::Result<f64>,
) -> anyhow::Result<()> {
    let rounds = others.iter().map(Vec::len).max().unwrap_or(0);
    if rounds == 0 {
        return Ok(());
    }
    measure(operators)?;
    let mut first = operators.to_vec();
    for round in 0..rounds {
        let mut trial = operators.to_vec();
        for (operator, others) in trial.iter_mut().zip(others) {
            match others.get(round) {
                Some(Some(other)) => {
                    // An operator without a schedule tries those of other workloads.
                    operator.is_nearest |= operator.entry.is_none();
                    operator.entry = Some(other.clone());
                    operator.takes_default = false;
                }
                Some(None) => operator.takes_default = true,
                None => {}
            }
        }
        // What cannot be built or computes something else inside the model is passed over.
        if measure(&mut trial).is_err() {
            continue;
        }
        for (operator, trial) in operators.iter_mut().zip(trial) {
            let times = trial.in_model_ns.zip(operator.in_model_ns);
            if !is_same(operator, &trial) && times.is_some_and(|(other, own)| other <= own * FASTER)
            {
                *operator = trial;
            }
        }
    }
    if operators.iter().zip(&first).all(|(a, b)| is_same(a, b)) {
        return Ok(());
    }
    let (mut before, mut after) = (f64::INFINITY, f64::INFINITY);
    for _ in 0..TURNS {
        before = before.min(measure(&mut first)?);
        after = after.min(measure(operators)?);
    }
    if before <= after {
        operators.clone_from_slice(&first);
    }
    Ok(())
}

/// Whether an operator has the same schedule.
fn is_same(a: &Applied, b: &Applied) -> bool {
    a.entry == b.entry && a.takes_default == b.takes_default
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::testing::entry;

    fn operator(entry: Option<Entry>) -> Applied {
        Applied {
            name: "dense".to_owned(),
            workload: "w".to_owned(),
            count: 1,
            flops: 1,
            in_model_ns: None,
            entry,
            is_nearest: false,
            takes_default: false,
        }
    }

    #[test]
    fn each_operator_keeps_what_it_is_fastest_with_inside_the_model() {
        let mut operators = [
            operator(Some(entry("a", 1, 5.0))),
            operator(Some(entry("b", 1, 5.0))),
            operator(None),
            operator(None),
        ];
        let others = [
            vec![Some(entry("a", 1, 6.0)), Some(entry("a", 1, 7.0)), None],
            vec![Some(entry("b", 1, 6.0))],
            vec![Some(entry("near", 1, 6.0))],
            Vec::new(),
        ];
        // Inside the model the first operator is the fastest with its third schedule, the second with its first; the
        // third gains nothing from another workload's.
        let inside = |place: usize, entry: &Option<Entry>| match (place, entry) {
            (0, Some(entry)) => 100.0 - 10.0 * (entry.time_ns - 5.0),
            (2, Some(_)) => 99.0,
            (_, Some(entry)) => 10.0 * entry.time_ns,
            (_, None) => 100.0,
        };
        let mut builds = 0;
        choose(&mut operators, &others, &mut |trial| {
            builds += 1;
            for (place, operator) in trial.iter_mut().enumerate() {
                operator.in_model_ns = Some(inside(place, &operator.entry));
            }
            Ok(trial.iter().filter_map(|o| o.in_model_ns).sum())
        })
        .unwrap();
        let times = operators
            .each_ref()
            .map(|o| o.entry.as_ref().map(|e| e.time_ns));
        assert_eq!(times, [Some(7.0), Some(5.0), None, None]);
        assert_eq!(operators.map(|o| o.is_nearest), [false; 4]);
        assert_eq!(builds, 4 + 2 * TURNS);
    }

    #[test]
    fn another_workloads_schedule_is_taken_if_it_is_faster_and_one_that_fails_is_not() {
        let mut operators = [operator(None)];
        let others = [vec![
            Some(entry("near", 1, 6.0)),
            Some(entry("broken", 1, 1.0)),
        ]];
        choose(&mut operators, &others, &mut |trial| {
            let entry = trial[0].entry.as_ref();
            anyhow::ensure!(entry.is_none_or(|e| e.time_ns > 1.0), "does not build");
            trial[0].in_model_ns = Some(entry.map_or(100.0, |e| 10.0 * e.time_ns));
            Ok(trial[0].in_model_ns.unwrap_or_default())
        })
        .unwrap();
        assert!(operators[0].is_nearest);
        assert_eq!(operators[0].in_model_ns, Some(60.0));
    }

    #[test]
    fn finalists_are_of_each_state_of_the_caches() {
        let of = |cache: &str, time_ns: f64| {
            let mut entry = entry("w", time_ns as u64, time_ns);
            entry.key.cache = cache.to_owned();
            entry
        };
        let model = (1..=6).map(|n| of("model", f64::from(n)));
        let flushed = (7..=8).map(|n| of("flushed", f64::from(n)));
        let times: Vec<f64> = finalists(model.chain(flushed).collect())
            .iter()
            .map(|entry| entry.time_ns)
            .collect();
        assert_eq!(times, [1.0, 2.0, 3.0, 7.0, 8.0]);
    }

    #[test]
    fn what_makes_the_model_slower_as_a_whole_is_not_taken() {
        let mut operators = [operator(Some(entry("a", 1, 5.0)))];
        choose(
            &mut operators,
            &[vec![Some(entry("a", 2, 6.0))]],
            &mut |trial| {
                let is_first = trial[0].entry.as_ref().is_some_and(|e| e.time_ns < 6.0);
                // Interference slowed the operator in the first measurement.
                trial[0].in_model_ns = Some(if is_first { 90.0 } else { 50.0 });
                Ok(if is_first { 100.0 } else { 101.0 })
            },
        )
        .unwrap();
        assert_eq!(operators[0].entry, Some(entry("a", 1, 5.0)));
    }

    #[test]
    fn the_default_schedule_is_taken_where_it_is_faster_and_the_stores_is_kept_beside_it() {
        let mut operators = [operator(Some(entry("a", 1, 5.0)))];
        choose(&mut operators, &[vec![None]], &mut |trial| {
            let ns = if trial[0].takes_default { 50.0 } else { 100.0 };
            trial[0].in_model_ns = Some(ns);
            Ok(ns)
        })
        .unwrap();
        assert!(operators[0].takes_default && operators[0].entry.is_some());
    }
}
