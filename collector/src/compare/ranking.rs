//! Three or more runs side by side: each against the first, on the points that all of them measured, the best first.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use serde::Serialize;

use super::source::Side;
use super::{CompareError, Comparison, Estimate, Options, Subject, Verdict, between};

/// Runs by their times.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Ranking {
    /// The run that the others are compared with.
    pub base: PathBuf,
    /// The threshold for slower or faster.
    pub threshold: f64,
    /// Points that every run has measured.
    pub points: u64,
    /// The runs, the best first.
    pub runs: Vec<RankedRun>,
}

/// A run among others.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RankedRun {
    /// The path that was read.
    pub path: PathBuf,
    /// Geometric mean of its operators' times over those of the base; 1 for the base itself.
    pub ratio: Option<Estimate>,
    /// Geometric mean of its whole models' times over those of the base.
    pub whole_models: Option<f64>,
    /// Operators and whole models that are surely slower than in the base.
    pub slower: u64,
    /// Number of operators that are surely faster.
    pub faster: u64,
}

impl Ranking {
    /// Whether a run is surely slower than the base somewhere.
    pub fn has_regression(&self) -> bool {
        self.runs.iter().any(|run| run.slower > 0)
    }
}

/// Ranks runs; the first one is the base.
///
/// # Errors
/// Fails as [`compare`](super::compare) does, for the base and any other run.
pub fn rank(paths: &[PathBuf], options: Options) -> Result<Ranking, CompareError> {
    let read = |path: &PathBuf| Side::read(std::slice::from_ref(path));
    let mut sides = paths.iter().map(read).collect::<Result<Vec<_>, _>>()?;
    let shared = shared(&sides);
    let name = |side: &Side| side.models();
    let all_models: Vec<Vec<String>> = sides.iter().map(name).collect();
    for side in &mut sides {
        side.points
            .retain(|point| shared.contains(&point.identity()));
    }
    let mut sides = sides.into_iter();
    let (Some(base), Some(base_path)) = (sides.next(), paths.first()) else {
        return Err(CompareError::NoRows { paths: Vec::new() });
    };
    if base.points.is_empty() {
        return Err(CompareError::NothingInCommon {
            a: vec![base_path.clone()],
            a_models: all_models[0].clone(),
            b: paths[1..].to_vec(),
            b_models: all_models[1..].concat(),
        });
    }
    let points = base.facts().points;
    let mut runs = vec![RankedRun {
        path: base_path.clone(),
        ratio: Some(Estimate {
            value: 1.0,
            low: None,
            high: None,
        }),
        whole_models: None,
        slower: 0,
        faster: 0,
    }];
    for (side, path) in sides.zip(&paths[1..]) {
        runs.push(ranked(path, &between(base.clone(), side, options)?));
    }
    if runs.iter().skip(1).any(|run| run.whole_models.is_some()) {
        runs[0].whole_models = Some(1.0);
    }
    let key = |run: &RankedRun| run.ratio.as_ref().map_or(f64::INFINITY, |r| r.value);
    runs.sort_by(|a, b| key(a).total_cmp(&key(b)));
    Ok(Ranking {
        base: base_path.clone(),
        threshold: options.threshold,
        points,
        runs,
    })
}

/// The points that every side has measured.
fn shared(sides: &[Side]) -> HashSet<String> {
    let measured = |side: &Side| -> HashSet<String> {
        let points = side.points.iter().filter(|point| point.median().is_some());
        points.map(|point| point.identity()).collect()
    };
    let all = sides.iter().map(measured);
    all.reduce(|a, b| a.intersection(&b).cloned().collect())
        .unwrap_or_default()
}

fn ranked(path: &Path, comparison: &Comparison) -> RankedRun {
    let whole = comparison.changes.iter();
    let whole = whole.filter(|change| change.subject == Subject::WholeModel);
    let logs: Vec<f64> = whole.map(|change| change.ratio.value.ln()).collect();
    let mean = logs.iter().sum::<f64>() / logs.len() as f64;
    RankedRun {
        path: path.to_owned(),
        ratio: comparison.overall,
        whole_models: (!logs.is_empty()).then(|| mean.exp()),
        slower: comparison.count(Verdict::Regression),
        faster: comparison.count(Verdict::Improvement),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::testing::{row, write_run};

    #[test]
    fn the_best_run_comes_first_on_what_all_have() {
        let folder = tempfile::tempdir().unwrap();
        let run = |name: &str, factor: f64, operators: u32| {
            let rows: Vec<_> = (0..operators)
                .map(|i| row(&format!("dense_{i}"), 1, 1e5 * f64::from(i + 1) * factor))
                .collect();
            write_run(&folder.path().join(name), name, &rows, |_| ())
        };
        let paths = [run("a", 1.0, 4), run("b", 1.5, 5), run("c", 0.5, 3)];
        let options = Options {
            threshold: 0.05,
            allow_other_machine: false,
        };
        let ranking = rank(&paths, options).unwrap();
        let order: Vec<_> = ranking.runs.iter().map(|run| run.path.clone()).collect();
        assert_eq!(
            order,
            [paths[2].clone(), paths[0].clone(), paths[1].clone()]
        );
        assert_eq!(ranking.points, 3);
        assert!(ranking.has_regression());
        let ratio = ranking.runs[0].ratio.as_ref().unwrap().value;
        assert!((ratio - 0.5).abs() < 1e-9, "{ratio}");
    }
}
