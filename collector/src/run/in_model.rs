//! Finds an operator's schedule that is the fastest inside the model.
//!
//! Alone an operator finds more in the caches than inside the model, in every cache state. So another schedule may be
//! the fastest there. The model is therefore built with the operators' best schedules, then with their second ones, and
//! so on, and with the default ones. Each operator keeps the schedule with which it was the fastest, if the model as a
//! whole is faster with them. Under interference single comparisons go wrong.

use std::collections::HashMap;

use anyhow::{anyhow, bail};
use opengine::device::Conditions;
use opengine::measure::TimingPolicy;
use opengine::protocol::{Counting, WholeModelReady, WholeModelSpec};
use opengine::runner::WorkerPool;

/// A schedule takes the place of another if it takes at most this share of its time: less is noise.
const FASTER: f64 = 0.97;
/// Times that the model is measured with the first schedules and with those chosen, in turn; the least of each counts.
const TURNS: usize = 2;

/// Times of the whole model and of its operators inside it, nanoseconds.
pub(crate) struct InModel {
    /// Median end-to-end time.
    pub latency_ns: f64,
    operators_ns: HashMap<String, f64>,
}

impl InModel {
    /// Median time of one call of each of these functions. `None` for functions that were not called.
    pub fn of<'a>(&self, symbols: impl Iterator<Item = &'a str>) -> Vec<Option<f64>> {
        symbols
            .map(|symbol| self.operators_ns.get(symbol).copied())
            .collect()
    }
}

/// Builds a model and checks its output.
///
/// # Errors
/// Fails if it cannot be built, or has a wrong output.
pub(crate) fn build(
    runner: &mut WorkerPool,
    spec: WholeModelSpec,
) -> anyhow::Result<WholeModelReady> {
    let ready = runner
        .first
        .build_whole_model(spec)
        .map_err(|failure| anyhow!(failure.reason))?;
    if let Some(complaint) = ready.complaint() {
        bail!("{complaint}");
    }
    Ok(ready)
}

/// Times the model that was built last.
///
/// # Errors
/// Fails if it fails, or has no time.
pub(crate) fn time(
    runner: &mut WorkerPool,
    at: &Conditions,
    policy: TimingPolicy,
) -> anyhow::Result<InModel> {
    let measured = runner
        .first
        .measure_whole_model(at, policy, Counting::Quiet { again: false })
        .map_err(|failure| anyhow!(failure.reason))?;
    let operators = measured.operators.into_iter();
    Ok(InModel {
        latency_ns: measured.taken.samples.summary()?.median.get(),
        operators_ns: operators.map(|o| (o.symbol, o.median_ns)).collect(),
    })
}

/// Builds and times the model with a schedule for each operator: its latency and the operators' times inside it.
type Measure<'a, S> = dyn FnMut(&[S]) -> anyhow::Result<(f64, Vec<Option<f64>>)> + 'a;

/// Tries the `others` of each operator in place of its `chosen` schedule, and keeps the fastest. Times are in
/// nanoseconds. Schedules that cannot be built together are left out, with a `note`.
///
/// # Errors
/// Fails if the model cannot be built or measured with the schedules it has.
pub(crate) fn choose<S: Clone + PartialEq>(
    chosen: &mut [S],
    others: &[Vec<S>],
    measure: &mut Measure<'_, S>,
    note: &mut dyn FnMut(&str),
) -> anyhow::Result<()> {
    let rounds = others.iter().map(Vec::len).max().unwrap_or(0);
    if rounds == 0 {
        return Ok(());
    }
    let (_, mut times) = measure(chosen)?;
    let first = chosen.to_vec();
    for round in 0..rounds {
        let tried: Vec<S> = chosen
            .iter()
            .zip(others)
            .map(|(own, others)| others.get(round).unwrap_or(own).clone())
            .collect();
        let tried_ns = match measure(&tried) {
            Ok((_, times)) => times,
            Err(error) => {
                let number = round + 2;
                note(&format!(
                    "schedules of rank {number} were not tried inside the model: {error:#}"
                ));
                continue;
            }
        };
        let own = chosen.iter_mut().zip(&mut times);
        for ((own, own_ns), (other, other_ns)) in own.zip(tried.into_iter().zip(tried_ns)) {
            let both = other_ns.zip(*own_ns);
            if *own != other && both.is_some_and(|(other, own)| other <= own * FASTER) {
                (*own, *own_ns) = (other, other_ns);
            }
        }
    }
    if *chosen == first {
        return Ok(());
    }
    let (mut before, mut after) = (f64::INFINITY, f64::INFINITY);
    for _ in 0..TURNS {
        before = before.min(measure(&first)?.0);
        after = after.min(measure(chosen)?.0);
    }
    if before <= after {
        chosen.clone_from_slice(&first);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Chooses with `time` as the time of an operator, given by its number, with a schedule. Returns the notes.
    fn chosen(
        operators: &mut [u32],
        others: &[Vec<u32>],
        latency: impl Fn(&[u32]) -> anyhow::Result<f64>,
        time: impl Fn(usize, u32) -> f64,
    ) -> (usize, Vec<String>) {
        let (mut builds, mut notes) = (0, Vec::new());
        choose(
            operators,
            others,
            &mut |tried| {
                builds += 1;
                let times = tried.iter().enumerate();
                let times = times.map(|(place, schedule)| Some(time(place, *schedule)));
                Ok((latency(tried)?, times.collect()))
            },
            &mut |text| notes.push(text.to_owned()),
        )
        .unwrap();
        (builds, notes)
    }

    #[test]
    fn each_operator_keeps_what_it_is_fastest_with_inside_the_model() {
        let mut operators = [5, 5, 0, 0];
        let others = [vec![6, 7, 8], vec![6], vec![6], vec![]];
        // Inside the model the first operator is the fastest with its third schedule, the second with its first; the
        // third operator gains less than the threshold.
        let time = |place: usize, schedule: u32| match (place, schedule) {
            (0, 8) => 100.0,
            (0, _) => 100.0 - 10.0 * f64::from(schedule - 5),
            (2, 6) => 99.0,
            (_, 0) => 100.0,
            _ => 10.0 * f64::from(schedule),
        };
        let all = |tried: &[u32]| Ok((0..4).map(|place| time(place, tried[place])).sum());
        let (builds, notes) = chosen(&mut operators, &others, all, time);
        assert_eq!(operators, [7, 5, 0, 0]);
        assert_eq!((builds, notes.len()), (4 + 2 * TURNS, 0));
    }

    #[test]
    fn schedules_that_cannot_be_built_are_left_out_with_a_note() {
        let mut operators = [100];
        let latency = |tried: &[u32]| match tried[0] {
            1 => bail!("out of memory"),
            ns => Ok(f64::from(ns)),
        };
        let (_, notes) = chosen(&mut operators, &[vec![1, 60]], latency, |_, ns| {
            f64::from(ns)
        });
        assert_eq!(operators, [60]);
        let note = "schedules of rank 2 were not tried inside the model: out of memory";
        assert_eq!(notes, [note]);
    }

    #[test]
    fn what_makes_the_model_slower_as_a_whole_is_not_taken() {
        let mut operators = [1];
        // Interference slowed the operator in the first measurement.
        let latency = |tried: &[u32]| Ok(if tried == [1] { 100.0 } else { 101.0 });
        let time = |_: usize, schedule: u32| if schedule == 1 { 90.0 } else { 50.0 };
        chosen(&mut operators, &[vec![2]], latency, time);
        assert_eq!(operators, [1]);
    }

    #[test]
    fn nothing_is_built_without_a_choice() {
        let time = |_: usize, _: u32| 1.0;
        let (builds, _) = chosen(&mut [1, 2], &[vec![], vec![]], |_| Ok(1.0), time);
        assert_eq!(builds, 0);
    }
}
