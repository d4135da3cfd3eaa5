//! `run.json`: what a run is, in one JSON object, replaced as a whole whenever it changes.
//!
//! Plan and environment belong to the tool that made the run and are kept as plain JSON here.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::path::Path;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::RUN_JSON;
use crate::error::{Error, Result};
use crate::files;
use crate::schema::{Row, SCHEMA_VERSION};
use crate::values::{Status, Timestamp};

/// The format of `run.json` that this build reads and writes.
pub const MANIFEST_FORMAT: u64 = 1;

/// How to get rid of a damaged manifest.
const FIX: &str = "the rows in rows.csv do not depend on it: restore run.json from a copy, or \
                   move it away and use rows.csv by its path";

/// The progress of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunState {
    /// It is under way, or its process was killed.
    Running,
    /// Every point has its row.
    Finished,
    /// It was stopped; `--resume` goes on with it.
    Interrupted,
}

/// The points of a run.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// Points of the plan.
    pub planned: u64,
    /// Rows, by how the point ended.
    pub ended: BTreeMap<Status, u64>,
}

impl Counts {
    /// Counts a row.
    pub fn add(&mut self, row: &Row) {
        *self.ended.entry(row.status).or_default() += 1;
    }

    /// The number of rows.
    pub fn rows(&self) -> u64 {
        self.ended.values().sum()
    }

    /// The number of rows with a time, measured or simulated.
    pub fn timed(&self) -> u64 {
        self.of(Status::Measured) + self.of(Status::Simulated)
    }

    /// The number of rows with this status.
    pub fn of(&self, status: Status) -> u64 {
        self.ended.get(&status).copied().unwrap_or(0)
    }
}

/// The description of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunManifest {
    /// The format of this file, [`MANIFEST_FORMAT`].
    pub format: u64,
    /// The schema version of the rows.
    pub schema_version: u64,
    /// The run.
    pub run_id: String,
    /// When it began.
    pub created: Timestamp,
    /// When it finished or was interrupted.
    pub ended: Option<Timestamp>,
    /// Its progress.
    pub state: RunState,
    /// The command line, program first.
    pub command_line: Vec<String>,
    /// The plan of the run.
    pub plan: Value,
    /// Hash of everything that decides the points: runs of one plan, and its shards, have the same.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plan_hash: Option<String>,
    /// The run's part of the plan's points; without it, all of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shard: Option<Shard>,
    /// The machine and its state.
    pub environment: Value,
    /// Versions of the software used, by name.
    pub versions: BTreeMap<String, String>,
    /// The reference of each import's outputs, by `import_key`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub import_checks: BTreeMap<String, String>,
    /// The user's label.
    #[serde(default, skip_serializing_if = "RunLabel::is_empty")]
    pub label: RunLabel,
    /// Number of points by how they ended.
    pub counts: Counts,
    /// Its time by stage, in nanoseconds, including that of sessions that resumed it.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub stages_ns: BTreeMap<String, u64>,
}

/// The user's label of a run, to find it again. It has no effect on the measurements.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunLabel {
    /// A name, usable wherever a run is named.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// A remark.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    /// Tags to select runs by.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
}

impl RunLabel {
    /// Whether the run has no label.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// A part of a plan's points: of those numbered in the plan's order, every `count`-th, beginning with the `index`-th.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shard {
    /// Its number, from 1.
    pub index: u32,
    /// Number of parts.
    pub count: u32,
}

impl Shard {
    /// Whether the shard holds the point (or group of points) number `place`, from 0.
    pub fn holds(self, place: u64) -> bool {
        place % u64::from(self.count.max(1)) + 1 == u64::from(self.index)
    }
}

impl std::fmt::Display for Shard {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.index, self.count)
    }
}

impl RunManifest {
    /// The manifest of a run that begins now, with nothing known but its name.
    pub fn new(run_id: &str) -> Self {
        Self {
            format: MANIFEST_FORMAT,
            schema_version: SCHEMA_VERSION,
            run_id: run_id.to_owned(),
            created: Timestamp::now(),
            ended: None,
            state: RunState::Running,
            command_line: Vec::new(),
            plan: Value::Null,
            plan_hash: None,
            shard: None,
            environment: Value::Null,
            versions: BTreeMap::new(),
            import_checks: BTreeMap::new(),
            label: RunLabel::default(),
            counts: Counts::default(),
            stages_ns: BTreeMap::new(),
        }
    }

    /// Marks the run as ended now.
    pub fn end(&mut self, state: RunState) {
        self.state = state;
        self.ended = Some(Timestamp::now());
    }

    /// Writes `run.json` in the run's folder; a reader sees the old one or the new one.
    ///
    /// # Errors
    /// Fails if the file cannot be written; the old one stays.
    pub fn save(&self, folder: &Path) -> Result<()> {
        let path = folder.join(RUN_JSON);
        files::replace(&path, |file| {
            serde_json::to_writer_pretty(&mut *file, self)
                .map_err(io::Error::from)
                .and_then(|()| file.write_all(b"\n"))
                .map_err(|source| Error::io("write", &path, source))
        })
    }

    /// Reads `run.json` from the run's folder.
    ///
    /// # Errors
    /// Fails if it is missing, damaged, or of another format or schema version.
    pub fn load(folder: &Path) -> Result<Self> {
        let path = folder.join(RUN_JSON);
        let bytes = files::read_bytes(&path).map_err(|source| Error::io("read", &path, source))?;
        let damaged = |detail: String| Error::Damaged {
            path: path.clone(),
            detail,
            fix: FIX,
        };
        let value: Value =
            serde_json::from_slice(&bytes).map_err(|error| damaged(error.to_string()))?;
        let version = |key: &str| {
            value
                .get(key)
                .and_then(Value::as_u64)
                .ok_or_else(|| damaged(format!("it has no number `{key}`")))
        };
        let (format, schema_version) = (version("format")?, version("schema_version")?);
        if format != MANIFEST_FORMAT {
            return Err(Error::ManifestVersion {
                path,
                found: format,
                supported: MANIFEST_FORMAT,
            });
        }
        if schema_version != SCHEMA_VERSION {
            return Err(Error::SchemaVersion {
                path,
                found: schema_version,
            });
        }
        serde_json::from_value(value).map_err(|error| damaged(error.to_string()))
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn manifest() -> RunManifest {
        let mut manifest = RunManifest::new("20260101T120000Z-mlp");
        manifest.created = Timestamp::from_unix_ms(1_767_268_800_000);
        manifest.command_line = vec!["opcollect".to_owned(), "--modelname".to_owned()];
        manifest.plan = serde_json::json!({"target": "llvm", "ci": 0.1 + 0.2});
        manifest.counts.planned = 3;
        manifest.counts.ended.insert(Status::CompileFailed, 1);
        manifest
    }

    #[test]
    fn a_manifest_reads_back_and_is_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let mut manifest = manifest();
        manifest.save(folder.path()).unwrap();
        manifest.end(RunState::Interrupted);
        assert!(manifest.ended >= Some(manifest.created));
        manifest.save(folder.path()).unwrap();
        assert_eq!(RunManifest::load(folder.path()).unwrap(), manifest);
        assert_eq!(
            fs::read_dir(folder.path()).unwrap().count(),
            1,
            "no leftovers"
        );
    }

    #[test]
    fn the_form_is_stable() {
        insta::assert_snapshot!(serde_json::to_string_pretty(&manifest()).unwrap(), @r#"
        {
          "format": 1,
          "schema_version": 3,
          "run_id": "20260101T120000Z-mlp",
          "created": "2026-01-01T12:00:00.000Z",
          "ended": null,
          "state": "running",
          "command_line": [
            "opcollect",
            "--modelname"
          ],
          "plan": {
            "ci": 0.30000000000000004,
            "target": "llvm"
          },
          "environment": null,
          "versions": {},
          "counts": {
            "planned": 3,
            "ended": {
              "compile_failed": 1
            }
          }
        }
        "#);
    }

    fn load_error(change: impl FnOnce(String) -> String) -> String {
        let folder = tempfile::tempdir().unwrap();
        let text = change(serde_json::to_string(&manifest()).unwrap());
        fs::write(folder.path().join(RUN_JSON), text).unwrap();
        let error = RunManifest::load(folder.path()).unwrap_err().to_string();
        error.replace(&folder.path().display().to_string(), "runs/x")
    }

    #[test]
    fn damage_is_reported_with_its_fix() {
        insta::assert_snapshot!(
            [
                load_error(|text| text[..text.len() / 2].to_owned()),
                load_error(|text| text.replace("\"format\":1,", "")),
                load_error(|text| text.replace("\"format\":1", "\"format\":2")),
                load_error(|text| text.replace("\"schema_version\":3", "\"schema_version\":0")),
                load_error(|text| text.replace("\"running\"", "\"jogging\"")),
            ]
            .join("\n"),
            @"
        runs/x/run.json is damaged: EOF while parsing a string at line 1 column 154; the rows in rows.csv do not depend on it: restore run.json from a copy, or move it away and use rows.csv by its path
        runs/x/run.json is damaged: it has no number `format`; the rows in rows.csv do not depend on it: restore run.json from a copy, or move it away and use rows.csv by its path
        runs/x/run.json: run format 2, this program reads format 1; use the version of the tool that made it
        runs/x/run.json: rows of schema version 0, this program reads version 3; convert them with the version of the program that wrote them
        runs/x/run.json is damaged: unknown variant `jogging`, expected one of `running`, `finished`, `interrupted`; the rows in rows.csv do not depend on it: restore run.json from a copy, or move it away and use rows.csv by its path
        "
        );
    }

    #[test]
    fn every_point_is_in_exactly_one_shard() {
        for count in 1..7 {
            for place in 0..40 {
                let holding = (1..=count).filter(|&index| Shard { index, count }.holds(place));
                assert_eq!(holding.count(), 1, "point {place} of {count} shards");
            }
        }
    }

    #[test]
    fn no_run_is_reported() {
        let folder = tempfile::tempdir().unwrap();
        let error = RunManifest::load(folder.path()).unwrap_err();
        assert!(matches!(error, Error::NotFound { path } if path.ends_with(RUN_JSON)));
    }
}
