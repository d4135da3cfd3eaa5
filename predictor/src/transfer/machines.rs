//! The gain of measurements on a machine for a model of the others: each machine of a dataset is held out in turn.

use oplearn::data::Dataset;
use oplearn::data::split::{Fold, Split};
use oplearn::features::Point;
use oplearn::models::ensemble::Ensemble;
use oplearn::models::{Familiarity, FitOptions, Regressor, for_queries, members_for};
use serde::Serialize;

use super::fit::{KnownMachine, Machine};
use super::gain::{Gain, gain};
use crate::error::Result;

/// One machine that was held out.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct HeldOutMachine {
    /// Its name.
    pub machine: String,
    /// Its measured points.
    pub points: usize,
    /// The gain by number of measurements.
    pub gains: Vec<Gain>,
}

/// One number of measurements, mean over machines: mean absolute percentage errors on the points that were not
/// measured.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Mean {
    /// Measurements.
    pub measurements: usize,
    /// Machines with points enough for them.
    pub machines: usize,
    /// The model of the other machines as it is.
    pub old_mape: f64,
    /// A model of the measurements alone; missing where they are too few for one.
    pub alone_mape: Option<f64>,
    /// The adapted model.
    pub adapted_mape: f64,
    /// The largest error of the adapted model over the better of the two.
    pub worst_ratio: f64,
}

/// All machines.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Transfer {
    /// One entry for each machine.
    pub machines: Vec<HeldOutMachine>,
    /// One entry for each number of measurements.
    pub means: Vec<Mean>,
}

/// Holds out each machine, learns from the others, and adapts by this many of its points.
///
/// # Errors
/// Fails if there are no two machines, or XGBoost's library is missing or fails.
pub fn leave_one_machine_out(
    dataset: &Dataset,
    measurements: &[usize],
    options: &FitOptions,
    done: &dyn Fn(),
) -> Result<Transfer> {
    let folds = Split::LeaveOneMachineOut.folds(dataset, options.seed)?;
    let mut machines = Vec::new();
    for fold in &folds {
        machines.push(held_out(dataset, fold, measurements, options)?);
        done();
    }
    let means = measurements
        .iter()
        .filter_map(|&count| mean(&machines, count))
        .collect();
    Ok(Transfer { machines, means })
}

fn held_out(
    dataset: &Dataset,
    fold: &Fold,
    measurements: &[usize],
    options: &FitOptions,
) -> Result<HeldOutMachine> {
    let options = FitOptions {
        members: for_queries(&members_for(dataset, &fold.train), &[Familiarity::Unseen]),
        ..options.clone()
    };
    let ensemble = Ensemble::fit(dataset, &fold.train, &options)?;
    let of = |&i: &usize| &dataset.samples[i].point;
    let points: Vec<&Point> = fold.test.iter().map(of).collect();
    let old = ensemble.predict(&points)?;
    let trained_on = dataset.machines.iter().enumerate();
    let known = trained_on
        .filter(|(number, _)| {
            fold.train
                .iter()
                .any(|&i| dataset.samples[i].machine == *number)
        })
        .map(|(_, facts)| {
            let hosted: Vec<Point> = points.iter().map(|point| facts.host(point)).collect();
            Ok(KnownMachine {
                facts: facts.clone(),
                predictions: ensemble.predict(&hosted.iter().collect::<Vec<_>>())?,
            })
        })
        .collect::<Result<Vec<_>>>()?;
    let machine = Machine {
        dataset,
        samples: &fold.test,
        old: &old,
        known: &known,
    };
    let enough = measurements
        .iter()
        .filter(|&&k| k.saturating_add(2) <= points.len());
    let number = dataset.samples[fold.test[0]].machine;
    Ok(HeldOutMachine {
        machine: dataset.machines[number].id.clone(),
        points: points.len(),
        gains: enough
            .map(|&count| Ok(gain(&machine, count)?.0))
            .collect::<Result<_>>()?,
    })
}

fn mean(machines: &[HeldOutMachine], measurements: usize) -> Option<Mean> {
    let gains: Vec<&Gain> = machines
        .iter()
        .flat_map(|m| &m.gains)
        .filter(|g| g.measurements == measurements)
        .collect();
    let count = gains.len();
    let mean = |of: &dyn Fn(&Gain) -> f64| gains.iter().map(|g| of(g)).sum::<f64>() / count as f64;
    let alone: Option<Vec<f64>> = gains.iter().map(|g| g.afresh_mape).collect();
    let better = |g: &Gain| g.zero_shot_mape.min(g.afresh_mape.unwrap_or(f64::INFINITY));
    (count > 0).then(|| Mean {
        measurements,
        machines: count,
        old_mape: mean(&|g| g.zero_shot_mape),
        alone_mape: alone.map(|all| all.iter().sum::<f64>() / count as f64),
        adapted_mape: mean(&|g| g.adapted_mape),
        worst_ratio: gains
            .iter()
            .map(|g| g.adapted_mape / better(g).max(1e-9))
            .fold(0.0, f64::max),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use oplearn::data::{Machines, RowSet};
    use oplearn::testing::dense_row;

    #[test]
    fn a_machine_that_is_twice_as_slow_is_known_after_a_few_measurements() {
        let knobs = r#"{"tile_y":[-1,1],"tile_x":[-1,8],"tile_k":[-1,64]}"#;
        let rows = (0..72u64).map(|number| {
            let (columns, depth) = (64 << (number % 6), 32 << (number / 6 % 6));
            let mut row = dense_row(1, columns, depth, knobs);
            row.point_id = (number % 36).to_string();
            row.workload_hash = Some(row.point_id.clone());
            row.env_hash = Some(format!("machine {}", number / 36));
            let slow = if number < 36 { 25.0 } else { 50.0 };
            row.time_median_ns = row.flops.map(|flops| flops as f64 / slow);
            row
        });
        let set = RowSet::from(rows.collect::<Vec<_>>());
        let dataset = Dataset::new(&set, &Machines::Mixed).unwrap();
        let options = FitOptions::default();
        let transfer = leave_one_machine_out(&dataset, &[0, 5, 35], &options, &|| ()).unwrap();
        let names: Vec<&str> = transfer
            .machines
            .iter()
            .map(|m| m.machine.as_str())
            .collect();
        assert_eq!(names, ["machine 0", "machine 1"]);
        // 35 of 36 leave too few to tell anything.
        let numbers: Vec<usize> = transfer.means.iter().map(|m| m.measurements).collect();
        assert_eq!(numbers, [0, 5]);
        let [none, few] = [&transfer.means[0], &transfer.means[1]];
        assert_eq!((none.alone_mape, none.worst_ratio), (None, 1.0));
        assert!(few.adapted_mape < 0.5 * few.old_mape, "{few:?}");
    }
}
