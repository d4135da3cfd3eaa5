//! The plan that `opcollect --sweep` takes: a sweep of the space `points`, one file for each run of the collector.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use opdata::contract::points::{ChosenPoint, POINTS_SPACE, POINTS_VERSION, PointsFile};
use opdata::{CacheState, Row};
use serde::Serialize;

use super::candidates::{Candidates, Job};
use super::error::SuggestError;

/// A plan as written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Written {
    /// The file.
    pub file: PathBuf,
    /// The model of its points.
    pub model: String,
    /// Its points.
    pub points: usize,
}

/// Writes a plan for each job that has chosen points, to `out`. If there are several, files beside it have the model
/// in their names. `order` are positions of candidates, most useful first; `about` is one line for people.
///
/// # Errors
/// Fails if a file cannot be written; earlier ones stay.
pub fn write(
    out: &Path,
    candidates: &Candidates,
    order: &[usize],
    machine: Option<&str>,
    about: &str,
) -> Result<Vec<Written>, SuggestError> {
    let mut by_job: BTreeMap<usize, Vec<&Row>> = BTreeMap::new();
    for &place in order {
        let candidate = &candidates.points[place];
        by_job
            .entry(candidate.job)
            .or_default()
            .push(&candidate.row);
    }
    let several = by_job.len() > 1;
    let mut written: Vec<Written> = Vec::new();
    for (number, rows) in by_job {
        let job = &candidates.jobs[number];
        let mut file = out.to_owned();
        if several {
            file = beside(out, job, number, &written);
        }
        let text = text(job, &rows, machine, about)?;
        opdata::write_atomically(&file, text.as_bytes())?;
        written.push(Written {
            file,
            model: job.model.clone(),
            points: rows.len(),
        });
    }
    Ok(written)
}

/// `plan.toml` becomes `plan-resnet-18.toml`; a second run of the same model has a number, too.
fn beside(out: &Path, job: &Job, number: usize, written: &[Written]) -> PathBuf {
    let stem = out
        .file_stem()
        .map_or_else(String::new, |s| s.to_string_lossy().into_owned());
    let ending = out
        .extension()
        .map_or_else(|| "toml".to_owned(), |e| e.to_string_lossy().into_owned());
    let model = Path::new(&job.model)
        .file_stem()
        .map_or_else(String::new, |s| s.to_string_lossy().into_owned());
    let model = opdata::safe_file_name(&model, 120);
    let plain = out.with_file_name(format!("{stem}-{model}.{ending}"));
    if written.iter().any(|w| w.file == plain) {
        return out.with_file_name(format!("{stem}-{model}-{number}.{ending}"));
    }
    plain
}

fn text(
    job: &Job,
    rows: &[&Row],
    machine: Option<&str>,
    about: &str,
) -> Result<String, SuggestError> {
    let mut points: Vec<ChosenPoint> = Vec::new();
    let mut places: BTreeMap<(&str, Option<&str>, CacheState), usize> = BTreeMap::new();
    for row in rows {
        let workload = row.workload_hash.as_deref().unwrap_or_default();
        let knobs = match row.schedule_space.as_deref() {
            Some("default") => None,
            _ => row.schedule_knobs.as_ref().map(opdata::JsonText::as_str),
        };
        let cache = row.cache_state.unwrap_or(CacheState::Model);
        let place = *places.entry((workload, knobs, cache)).or_insert_with(|| {
            points.push(ChosenPoint {
                operator: row.op_name.clone(),
                workload: workload.to_owned(),
                knobs: knobs.map(str::to_owned),
                threads: Vec::new(),
                cache,
            });
            points.len() - 1
        });
        let threads = row.threads.and_then(|n| u32::try_from(n).ok());
        points[place].threads.extend(threads);
    }
    let file = PointsFile {
        about: about.to_owned(),
        space: POINTS_SPACE,
        version: POINTS_VERSION,
        machine: machine.map(str::to_owned),
        settings: job.settings.clone(),
        vary: job.vary.clone(),
        points,
    };
    Ok(toml::to_string(&file)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::suggest::candidates::{Candidate, Objective};
    use oplearn::testing::dense_row;

    fn row(space: &str, threads: u64) -> Row {
        Row {
            schedule_space: Some(space.to_owned()),
            threads: Some(threads),
            cache_state: Some(opdata::CacheState::Model),
            ..dense_row(
                1,
                8,
                8,
                r#"{"tile_y":[-1,1],"tile_x":[-1,8],"tile_k":[-1,64]}"#,
            )
        }
    }

    fn job(model: &str) -> Job {
        Job {
            model: model.to_owned(),
            folder: None,
            settings: [("modelname".to_owned(), model.into())].into(),
            vary: BTreeMap::new(),
            timing: None,
            objective: Objective::Points,
        }
    }

    #[test]
    fn points_of_one_kernel_stand_together() {
        let rows = [row("template", 2), row("default", 1), row("template", 1)];
        let text = text(
            &job("mlp"),
            &rows.iter().collect::<Vec<_>>(),
            Some("m"),
            "x",
        )
        .unwrap();
        insta::assert_snapshot!(text, @r#"
        about = "x"
        space = "points"
        version = 1
        machine = "m"

        [settings]
        modelname = "mlp"

        [[points]]
        operator = "dense_nopack.x86"
        workload = "w"
        knobs = '{"tile_y":[-1,1],"tile_x":[-1,8],"tile_k":[-1,64]}'
        threads = [2, 1]
        cache = "model"

        [[points]]
        operator = "dense_nopack.x86"
        workload = "w"
        threads = [1]
        cache = "model"
        "#);
    }

    #[test]
    fn every_model_has_a_plan_of_its_own() {
        let folder = tempfile::tempdir().unwrap();
        let jobs = ["mlp", "nets/my net.onnx", "mlp"];
        let candidates = Candidates {
            jobs: jobs.map(job).into(),
            points: (0..3)
                .map(|job| Candidate {
                    job,
                    row: row("default", 1),
                })
                .collect(),
        };
        let written = |order: &[usize]| -> Vec<String> {
            let out = folder.path().join("plan.toml");
            let written = write(&out, &candidates, order, None, "x").unwrap();
            assert!(written.iter().all(|w| w.file.is_file() && w.points == 1));
            let name = |w: &Written| w.file.file_name().unwrap().to_string_lossy().into_owned();
            written.iter().map(name).collect()
        };
        assert_eq!(written(&[1]), ["plan.toml"]);
        assert_eq!(
            written(&[2, 0, 1]),
            ["plan-mlp.toml", "plan-my-net.toml", "plan-mlp-2.toml"]
        );
    }
}
