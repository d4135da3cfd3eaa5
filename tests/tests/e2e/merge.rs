//! `opcollect merge`: shards in, one run out; and shards that do not belong together.

use crate::made_runs::{row, write_run};
use e2e::{Bench, Disk, Outcome, skip};
use opdata::{Row, RunManifest, RunState, Shard, read_rows};

/// Exit codes of the manual.
const FAILED: i32 = 1;
const USAGE: i32 = 2;

const COUNT: u32 = 3;

fn rows() -> Vec<Row> {
    (0..20).map(|i| row(&format!("op_{i}"), 1, 1e5)).collect()
}

/// Writes the shards `s1` to `s3` of one plan.
fn shards(bench: &Bench) {
    for index in 1..=COUNT {
        let shard = Shard {
            index,
            count: COUNT,
        };
        let own: Vec<Row> = (0..)
            .zip(rows())
            .filter(|(place, _)| shard.holds(*place))
            .map(|(_, row)| row)
            .collect();
        let name = format!("s{index}");
        write_run(&bench.path().join(&name), &name, &own, |manifest| {
            manifest.plan_hash = Some("a plan".to_owned());
            manifest.shard = Some(shard);
        });
    }
}

fn change(bench: &Bench, shard: &str, change: impl FnOnce(&mut RunManifest)) {
    let folder = bench.path().join(shard);
    let mut manifest = RunManifest::load(&folder).expect("a manifest");
    change(&mut manifest);
    manifest.save(&folder).expect("a manifest");
}

#[test]
fn shards_become_one_run() {
    let bench = Bench::new();
    shards(&bench);
    let outcome = bench.run(&["merge", "all", "s3", "s1", "s2"]);
    assert!(
        outcome
            .done()
            .contains("3 shards joined: 20 rows, 20 measured"),
        "{}",
        outcome.stdout
    );
    let folder = bench.path().join("all");
    let merged = read_rows(&folder).expect("rows");
    let mut ids: Vec<&str> = merged.iter().map(|r| r.point_id.as_str()).collect();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), 20, "each point once");
    assert_eq!(
        read_rows(&folder.join("rows.parquet")).expect("rows"),
        merged
    );
    let manifest = RunManifest::load(&folder).expect("a manifest");
    assert_eq!((manifest.state, manifest.shard), (RunState::Finished, None));
    // What was joined can be compared like any run.
    bench.run(&["compare", "all", "all"]).done();
    let object: serde_json::Value = serde_json::from_str(
        bench
            .run(&["merge", "again", "s1", "s2", "s3", "--json"])
            .done(),
    )
    .expect("one object");
    assert_eq!(object["shards"].as_array().map(Vec::len), Some(3));
}

#[test]
fn what_does_not_belong_together() {
    let bench = Bench::new();
    shards(&bench);
    let all = ["merge", "all", "s1", "s2", "s3"];
    let fails = |args: &[&str], parts: &[&str]| {
        bench.run(args).failed(FAILED, parts);
        assert!(!bench.path().join("all").exists(), "nothing is left behind");
        for shard in ["s1", "s2", "s3"] {
            assert!(bench.path().join(shard).join("rows.csv").exists());
        }
    };
    fails(&["merge", "all", "s1", "s3"], &["missing: 2", "--partial"]);
    fails(
        &["merge", "all", "s1", "s1", "s2", "s3"],
        &["both shard 1/3"],
    );
    fails(&["merge", "all", "s1", "nowhere"], &["nowhere"]);
    bench
        .run(&["merge", "s1", "s2", "s3"])
        .failed(FAILED, &["s1 is there already"]);
    bench.run(&["merge", "all"]).failed(USAGE, &["SHARD"]);

    change(&bench, "s2", |m| {
        m.plan_hash = Some("another plan".to_owned())
    });
    fails(&all, &["s1", "s2", "different plans"]);
    change(&bench, "s2", |m| m.shard = None);
    fails(&all, &["s2 is no shard", "--shard"]);
    change(&bench, "s2", |m| {
        m.plan_hash = Some("a plan".to_owned());
        m.shard = Some(Shard { index: 2, count: 5 });
    });
    fails(&all, &["cut in different ways"]);
    change(&bench, "s2", |m| {
        m.shard = Some(Shard { index: 2, count: 3 });
        m.state = RunState::Interrupted;
        m.counts.planned = 50;
    });
    fails(
        &all,
        &["s2 (shard 2/3) is not finished: 7 of 50 points", "resume"],
    );
    let outcome = bench.run(&["merge", "part", "s1", "s2", "--partial"]);
    let text = outcome.done();
    assert!(
        text.contains("shard 3 is missing") && text.contains("not finished"),
        "{text}"
    );
}

#[test]
fn a_damaged_shard_loses_nothing() {
    let bench = Bench::new();
    shards(&bench);
    let path = bench.path().join("s2/rows.csv");
    let whole = std::fs::read_to_string(&path).expect("rows");
    let damaged = |text: &str, parts: &[&str]| {
        std::fs::write(&path, text).expect("a file");
        bench
            .run(&["merge", "all", "s1", "s2", "s3"])
            .failed(FAILED, parts);
        assert!(!bench.path().join("all").exists());
        assert_eq!(
            std::fs::read_to_string(&path).expect("rows"),
            text,
            "shards are only read"
        );
    };
    damaged(&whole[..whole.len() - 40], &["s2/rows.csv", "torn"]);
    let last = whole.trim_end().rfind('\n').expect("lines") + 1;
    damaged(&whole[..last], &["s2", "counts 7 rows, but 6 are there"]);
    let version = format!("\n{},", opdata::SCHEMA_VERSION);
    damaged(&whole.replace(&version, "\n1,"), &["schema version 1"]);
    damaged("", &["s2/rows.csv is empty"]);
    std::fs::write(&path, &whole).expect("a file");
    bench.run(&["merge", "all", "s1", "s2", "s3"]).done();
}

#[test]
fn a_full_disk_leaves_no_half_a_run() {
    let bench = Bench::new();
    shards(&bench);
    let (disk, copy) = (bench.path().join("disk"), bench.path().join("copy"));
    for folder in [&disk, &copy] {
        std::fs::create_dir(folder).expect("a folder");
    }
    let command = bench.command(["merge", "disk/all", "s1", "s2", "s3"]);
    let Some(command) = Disk::Small(8).around(&command, &disk, &copy) else {
        return skip("merging on a full disk", "no mount namespaces here");
    };
    Outcome::of(command).failed(FAILED, &["no space left"]);
    let left = std::fs::read_dir(&copy).expect("a folder").count();
    assert_eq!(left, 0, "neither the run nor a part of it");
}
