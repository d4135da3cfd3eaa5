//! Shards of made-up runs: what joins, what is refused, and that nothing is lost.

use std::fs;
use std::path::Path;

use opdata::{Row, RunManifest, Status, read_rows};
use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::compare::testing::{failed, row, write_run};

/// The points of a plan: operators at 1 and 2 threads, one of them failed.
fn points(count: usize) -> Vec<Row> {
    let mut rows: Vec<Row> = (0..count)
        .flat_map(|i| [1, 2].map(|threads| row(&format!("op_{i}"), threads, 1e5)))
        .collect();
    if let Some(first) = rows.first_mut() {
        *first = failed(first.clone(), Status::TimedOut, "60 s");
    }
    rows
}

struct Cut {
    folder: tempfile::TempDir,
    count: u32,
    rows: Vec<Row>,
}

impl Cut {
    fn new(points_of: usize, count: u32) -> Cut {
        Cut {
            folder: tempfile::tempdir().unwrap(),
            count,
            rows: points(points_of),
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Writes shard `index`, its manifest changed by `change`.
    fn shard(&self, index: u32, change: impl FnOnce(&mut RunManifest)) -> PathBuf {
        let shard = Shard {
            index,
            count: self.count,
        };
        let own: Vec<Row> = (0..)
            .zip(&self.rows)
            .filter(|(place, _)| shard.holds(*place))
            .map(|(_, row)| row.clone())
            .collect();
        write_run(
            &self.path(&format!("s{index}")),
            &format!("run{index}"),
            &own,
            |manifest| {
                manifest.plan_hash = Some("plan".to_owned());
                manifest.shard = Some(shard);
                manifest.plan =
                    json!({"threads": [1, 2], "out": format!("s{index}"), "shard": shard});
                change(manifest);
            },
        )
    }

    fn all(&self) -> Vec<PathBuf> {
        (1..=self.count).map(|i| self.shard(i, |_| ())).collect()
    }

    fn merge(&self, shards: &[PathBuf]) -> Result<Merged, MergeError> {
        merge(&self.request(shards), vec!["opcollect".to_owned()])
    }

    fn request(&self, shards: &[PathBuf]) -> MergeRequest {
        MergeRequest {
            out: self.path("out"),
            shards: shards.to_vec(),
            partial: false,
            allow_other_machine: false,
        }
    }

    /// The message of a merge that fails, the temporary folder cut out of it; checks that nothing was written.
    fn refused(&self, shards: &[PathBuf]) -> String {
        let before = names(self.folder.path());
        let error = self.merge(shards).unwrap_err().to_string();
        assert_eq!(names(self.folder.path()), before, "{error}");
        error.replace(&format!("{}/", self.folder.path().display()), "")
    }
}

fn names(folder: &Path) -> Vec<std::ffi::OsString> {
    let mut names: Vec<_> = fs::read_dir(folder)
        .unwrap()
        .map(|e| e.unwrap().file_name())
        .collect();
    names.sort();
    names
}

fn identities(rows: &[Row]) -> Vec<(String, Option<f64>)> {
    let mut all: Vec<_> = rows
        .iter()
        .map(|r| (r.point_id.clone(), r.time_median_ns))
        .collect();
    all.sort_by(|a, b| a.0.cmp(&b.0));
    all
}

#[test]
fn shards_become_the_run_that_was_cut() {
    let cut = Cut::new(5, 3);
    let mut shards = cut.all();
    shards.reverse();
    fs::write(shards[0].join("whole_model.json"), "{\"threads\": []}").unwrap();
    let merged = cut.merge(&shards).unwrap();
    let rows = read_rows(&cut.path("out")).unwrap();
    assert_eq!(identities(&rows), identities(&cut.rows));
    assert_eq!(read_rows(&cut.path("out/rows.parquet")).unwrap(), rows);
    assert_eq!(
        (merged.counts.planned, merged.counts.of(Status::TimedOut)),
        (10, 1)
    );
    let manifest = RunManifest::load(&cut.path("out")).unwrap();
    assert_eq!(
        (manifest.state, manifest.shard, manifest.run_id.as_str()),
        (RunState::Finished, None, "run1-merged")
    );
    assert_eq!(manifest.plan_hash.as_deref(), Some("plan"));
    assert_eq!(manifest.plan.get("shard"), None);
    assert!(cut.path("out/whole_model.json").exists());
    let record = fs::read_to_string(cut.path("out/merged_from.json")).unwrap();
    assert!(record.contains("s2") && record.contains("run3"), "{record}");
    assert_eq!(names(cut.folder.path()).len(), 4, "no leftovers");
}

#[test]
fn shards_of_one_name_keep_all_their_rows() {
    let cut = Cut::new(4, 2);
    let shards: Vec<PathBuf> = [1, 2]
        .map(|i| cut.shard(i, |m| m.run_id = "same".to_owned()))
        .to_vec();
    for shard in &shards {
        let text = fs::read_to_string(shard.join("rows.csv")).unwrap();
        fs::write(
            shard.join("rows.csv"),
            text.replace("run1", "same").replace("run2", "same"),
        )
        .unwrap();
    }
    let merged = cut.merge(&shards).unwrap();
    assert_eq!(merged.run_id, "same");
    let rows = read_rows(&cut.path("out")).unwrap();
    assert_eq!(identities(&rows), identities(&cut.rows));
    assert_eq!(rows[0].row_id, "same.000000");
    assert_eq!(rows[7].row_id, "same-shard2of2.000003");
    assert_eq!(rows[7].run_id, "same-shard2of2");
}

#[test]
fn what_does_not_belong_together_is_named() {
    let cut = Cut::new(4, 3);
    let shards = cut.all();
    let other = |name: &str, change: &dyn Fn(&mut RunManifest)| {
        let mut manifest = RunManifest::load(&shards[1]).unwrap();
        change(&mut manifest);
        let folder = cut.path(name);
        fs::create_dir_all(&folder).unwrap();
        for file in ["rows.csv", "rows.parquet"] {
            fs::copy(shards[1].join(file), folder.join(file)).unwrap();
        }
        manifest.save(&folder).unwrap();
        vec![shards[0].clone(), folder, shards[2].clone()]
    };
    let other_plan = other("plan", &|m| {
        m.plan_hash = Some("another".to_owned());
        m.plan = json!({"threads": [4], "seed": 1, "out": "x"});
    });
    let other_cut = other("cut", &|m| m.shard = Some(Shard { index: 2, count: 4 }));
    let whole_run = other("whole", &|m| m.shard = None);
    let twice = other("twice", &|m| m.shard = Some(Shard { index: 3, count: 3 }));
    let unfinished = other("unfinished", &|m| {
        m.state = RunState::Interrupted;
        m.counts.planned = 9;
    });
    let lost = other("lost", &|m| {
        m.counts.ended.insert(Status::Measured, 7);
    });
    let overlap = other("overlap", &|_| ());
    fs::copy(shards[0].join("rows.csv"), cut.path("overlap/rows.csv")).unwrap();
    insta::assert_snapshot!(
        [
            cut.refused(&other_plan),
            cut.refused(&other_cut),
            cut.refused(&whole_run),
            cut.refused(&twice),
            cut.refused(&shards[..1]),
            cut.refused(&unfinished),
            cut.refused(&lost),
            cut.refused(&overlap),
            cut.refused(&[cut.path("nowhere")]),
        ]
        .join("\n"),
        @r"
        s1 and plan are shards of different plans (they differ in seed, threads); join shards of one plan, made with the same settings
        s1 is shard 1/3, cut shard 2/4: the plan was cut in different ways; join shards of one cut
        whole is no shard: its run.json names no shard of a plan; merge joins runs made with --shard
        twice and s3 are both shard 3/3; leave one out
        of 3 shards these are missing: 2, 3; name their folders too, or give --partial to join without them
        unfinished (shard 2/3) is not finished: 3 of 9 points; resume it, or give --partial to join what it has
        lost: run.json counts 7 rows, but 3 are there; bring the folder back from a copy, or run the shard again
        s1 and overlap overlap: both have the point e0e74182def2c5c5 (op_0); run one of them again
        nowhere/run.json does not exist; check the path
        "
    );
}

#[test]
fn gaps_are_accepted_on_request() {
    let cut = Cut::new(4, 3);
    let shards = [
        cut.shard(1, |_| ()),
        cut.shard(3, |m| m.state = RunState::Interrupted),
    ];
    let request = MergeRequest {
        partial: true,
        ..cut.request(&shards)
    };
    let merged = merge(&request, Vec::new()).unwrap();
    assert_eq!(merged.missing, [2]);
    let manifest = RunManifest::load(&cut.path("out")).unwrap();
    assert_eq!(manifest.state, RunState::Interrupted);
}

#[test]
fn damage_loses_nothing() {
    let cut = Cut::new(4, 2);
    let shards = cut.all();
    let csv = shards[1].join("rows.csv");
    let whole = fs::read_to_string(&csv).unwrap();
    fs::write(&csv, &whole[..whole.len() - 20]).unwrap();
    assert!(cut.refused(&shards).contains("torn"));
    fs::write(
        &csv,
        whole.replacen(&format!("\n{},", opdata::SCHEMA_VERSION), "\n9,", 1),
    )
    .unwrap();
    assert!(cut.refused(&shards).contains("schema version 9"));
    fs::write(&csv, &whole).unwrap();
    fs::write(shards[1].join("run.json"), "{").unwrap();
    assert!(cut.refused(&shards).contains("run.json is damaged"));
}

#[test]
fn unlike_machines_need_a_word_and_an_old_run_is_not_written_over() {
    let mut cut = Cut::new(2, 2);
    cut.rows[1].env_hash = Some("another".to_owned());
    let shards = cut.all();
    assert!(cut.refused(&shards).contains("--allow-other-machine"));
    let request = MergeRequest {
        allow_other_machine: true,
        ..cut.request(&shards)
    };
    merge(&request, Vec::new()).unwrap();
    let again = merge(&request, Vec::new());
    assert!(matches!(again, Err(MergeError::OutExists { .. })));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]
    #[test]
    fn any_cut_joins_to_the_same_rows(points_of in 1usize..8, count in 1u32..6) {
        let cut = Cut::new(points_of, count);
        cut.merge(&cut.all()).unwrap();
        let rows = read_rows(&cut.path("out")).unwrap();
        prop_assert_eq!(identities(&rows), identities(&cut.rows));
    }
}
