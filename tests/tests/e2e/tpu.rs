//! `opcollect tpu`: dumps in, files and exit codes out; every way a dump can be broken; recording.

use std::path::{Path, PathBuf};

use crate::dumps::{Capture, Dump, Spec, make};
use e2e::{Bench, Outcome};
use tpuprofile::chip::Chip;

/// Exit codes of the manual.
const FAILED: i32 = 1;
const USAGE: i32 = 2;
const NOT_WHOLE: i32 = 4;
const REGRESSION: i32 = 3;

fn dump(bench: &Bench, name: &str) -> (Dump, PathBuf) {
    let dump = make(Spec {
        tiles: 3,
        ..Spec::new(Chip::Aks, Capture::Nodes)
    });
    let folder = bench.path().join(name);
    dump.write(&folder);
    (dump, folder)
}

#[test]
fn a_dump_becomes_a_table_and_files() {
    let bench = Bench::new();
    dump(&bench, "d");
    let outcome = bench.run(&[
        "tpu", "d", "--out", "o", "--all", "--by", "operator", "--top", "3",
    ]);
    let table = outcome.done();
    for part in [
        "TiuWorkingRatio",
        "Overall",
        "core",
        "MM2_NN",
        "tensorLd DDR->LMEM",
        "matched",
    ] {
        assert!(table.contains(part), "{part}: {table}");
    }
    for file in [
        "summary.txt",
        "perfetto.pftrace",
        "tiuRegInfo_7.txt",
        "tdmaRegInfo_0.txt",
        "PerfDoc/o.csv",
        "PerfDoc/o.xlsx",
        "result.html",
        "profile.json",
        "events.parquet",
        "report.json",
    ] {
        assert!(
            std::fs::metadata(bench.path().join("o").join(file)).is_ok_and(|m| m.len() > 0),
            "{file}"
        );
    }
    let rows = opdata::read_rows(&bench.path().join("o/rows")).expect("rows");
    assert!(
        rows.iter()
            .any(|r| r.op_name == "MM2_NN" && r.engine.as_deref() == Some("tiu"))
    );
    assert!(
        rows.iter()
            .any(|r| r.op_kind == "kernel" && r.op_count == Some(8))
    );
}

#[test]
fn several_dumps_get_a_folder_each() {
    let bench = Bench::new();
    dump(&bench, "a");
    dump(&bench, "b");
    let outcome = bench.run(&["tpu", "a", "b", "--out", "o", "--json", "-q"]);
    let object: serde_json::Value = serde_json::from_str(outcome.done()).expect("one object");
    assert_eq!(object["dumps"].as_array().map(Vec::len), Some(2));
    assert_eq!(
        object["dumps"][0]["summary"]["cores"]
            .as_array()
            .map(Vec::len),
        Some(8)
    );
    assert!(
        bench.path().join("o/a/summary.txt").exists()
            && bench.path().join("o/b/summary.txt").exists()
    );
}

#[test]
fn the_old_tools_commands_work() {
    let bench = Bench::new();
    dump(&bench, "d");
    let outcome = bench.run(&[
        "tpu",
        "d",
        "out",
        "--disable_web",
        "--disable_doc",
        "--perfetto",
        "--num_core",
        "4",
    ]);
    outcome.done();
    assert!(
        outcome.stderr.contains("--num_core 4, but the dump has 8"),
        "{}",
        outcome.stderr
    );
    assert!(
        bench.path().join("out/perfetto.pftrace").exists()
            && !bench.path().join("out/summary.txt").exists()
    );
}

#[test]
fn two_dumps_are_compared() {
    let bench = Bench::new();
    dump(&bench, "a");
    make(Spec {
        tiles: 6,
        ..Spec::new(Chip::Aks, Capture::Nodes)
    })
    .write(&bench.path().join("b"));
    let outcome = bench.run(&["tpu", "diff", "a", "b"]);
    let text = outcome.done();
    assert!(text.contains("B / A") && text.contains("MM2_NN"), "{text}");
}

#[test]
fn several_dumps_are_compared_with_the_first() {
    let bench = Bench::new();
    dump(&bench, "a");
    for (name, tiles) in [("b", 6), ("c", 8)] {
        let spec = Spec {
            tiles,
            ..Spec::new(Chip::Aks, Capture::Nodes)
        };
        make(spec).write(&bench.path().join(name));
    }
    let outcome = bench.run(&["tpu", "diff", "a", "b", "c"]);
    let text = outcome.done();
    assert!(text.contains("3 / 1") && text.contains("MM2_NN"), "{text}");
    let slower = bench.run(&["tpu", "diff", "a", "a", "c", "--fail-above", "3%"]);
    assert_eq!(slower.code, Some(REGRESSION), "{}", slower.stderr);
    let said = slower.stderr.matches("--fail-above").count();
    assert_eq!(said, 1, "{}", slower.stderr);
    let none = bench.run(&["tpu", "diff", "a", "c", "--core", "99"]);
    none.done();
    let said = none.stderr.matches("dump has no core 99").count();
    assert_eq!(said, 2, "{}", none.stderr);
    // One that cannot be read does not cost the others.
    let partial = bench.run(&["tpu", "diff", "a", "nothing", "c", "--json"]);
    assert_eq!(partial.code, Some(NOT_WHOLE), "{}", partial.stderr);
    let object: serde_json::Value = serde_json::from_str(&partial.stdout).unwrap();
    assert_eq!(object["others"].as_array().map(Vec::len), Some(1));
    assert_eq!(object["others"][0]["dump"], "c");
}

#[test]
fn a_slower_second_dump_fails_the_comparison() {
    let bench = Bench::new();
    let (_, a) = dump(&bench, "a");
    bench
        .run(&["tpu", "diff", "a", "a", "--fail-above", "0%"])
        .done();
    make(Spec {
        tiles: 6,
        ..Spec::new(Chip::Aks, Capture::Nodes)
    })
    .write(&bench.path().join("b"));
    let slower = bench.run(&["tpu", "diff", "a", "b", "--fail-above", "3%"]);
    assert_eq!(slower.code, Some(REGRESSION), "{}", slower.stderr);
    assert!(
        slower.stderr.contains("more than --fail-above 3 %"),
        "{}",
        slower.stderr
    );
    bench
        .run(&["tpu", "diff", "b", "a", "--fail-above", "3%"])
        .done();
    std::fs::remove_file(a.join("cdmlib0_3.profile")).unwrap();
    let partial = bench.run(&["tpu", "diff", "a", "b"]);
    assert_eq!(partial.code, Some(NOT_WHOLE), "{}", partial.stderr);
    assert!(
        partial.stderr.contains("is not whole"),
        "{}",
        partial.stderr
    );
}

#[test]
fn a_part_of_the_time_is_asked_for() {
    let bench = Bench::new();
    dump(&bench, "d");
    let outcome = bench.run(&[
        "tpu", "d", "--out", "o", "--from", "2", "--to", "5us", "--by", "shape",
    ]);
    let text = outcome.done();
    assert!(text.starts_with("window from 2 us to 5 us"), "{text}");
    bench
        .run(&["tpu", "d", "--out", "p", "--from", "1s"])
        .failed(FAILED, &["--from", "no event"]);
    bench
        .run(&["tpu", "d", "--from", "soon"])
        .failed(USAGE, &["--from", "1.5ms"]);
    assert!(
        !bench.path().join("p").exists(),
        "a job that fails leaves nothing"
    );
}

/// Damages a dump and gives what became of reading it.
fn broken(damage: impl FnOnce(&Path)) -> (Bench, Outcome) {
    let bench = Bench::new();
    let (_, folder) = dump(&bench, "d");
    damage(&folder);
    let outcome = bench.run(&["tpu", "d", "--out", "o"]);
    (bench, outcome)
}

fn edit(path: PathBuf, change: impl FnOnce(&mut Vec<u8>)) {
    let mut bytes = std::fs::read(&path).expect("a file of the dump");
    change(&mut bytes);
    std::fs::write(path, bytes).expect("a file of the dump");
}

#[test]
fn what_is_no_dump() {
    let bench = Bench::new();
    bench.run(&["tpu"]).failed(USAGE, &["DIR"]);
    bench
        .run(&["tpu", "nowhere"])
        .failed(FAILED, &["nowhere", "check the path"]);
    std::fs::create_dir(bench.path().join("empty")).expect("a folder");
    bench
        .run(&["tpu", "empty"])
        .failed(FAILED, &["empty", "no global.profile"]);
    bench.file("empty/iter0.profile", "");
    bench
        .run(&["tpu", "empty"])
        .failed(FAILED, &["older runtime", "not supported"]);
    dump(&bench, "d");
    bench
        .run(&["tpu", "d", "--tiu_freq", "abc"])
        .failed(USAGE, &["--tiu_freq"]);
    bench
        .run(&["tpu", "d", "--tiu_freq", "0"])
        .failed(FAILED, &["--tiu_freq", "more than 0"]);
    bench
        .run(&["tpu", "d", "--tiu_freq", "-5"])
        .failed(FAILED, &["--tiu_freq", "more than 0"]);
    bench.file("bad.json", "{\"traceEvents\": 3}");
    bench
        .run(&["tpu", "d", "--trace_file", "bad.json"])
        .failed(FAILED, &["bad.json", "traceEvents"]);
}

#[test]
fn broken_files_name_the_byte() {
    let core = |folder: &Path, number: u32| folder.join(format!("cdmlib0_{number}.profile"));
    let fatal = |damage: &dyn Fn(&Path), parts: &[&str]| {
        let (_bench, outcome) = broken(damage);
        outcome.failed(FAILED, parts);
    };
    fatal(
        &|d| std::fs::write(d.join("global.profile"), "x=1\n").unwrap(),
        &["global.profile", "no arch="],
    );
    fatal(
        &|d| std::fs::write(d.join("global.profile"), "arch=99\n").unwrap(),
        &["global.profile:1", "arch=99"],
    );
    fatal(
        &|d| (0..8).for_each(|n| std::fs::remove_file(core(d, n)).unwrap()),
        &["no cdmlib*.profile"],
    );
    // One bad file does not cost the others.
    let left_out = |damage: &dyn Fn(&Path), parts: &[&str]| {
        let (bench, outcome) = broken(damage);
        assert_eq!(outcome.code, Some(NOT_WHOLE), "{}", outcome.stderr);
        for part in parts.iter().chain(&["the others are read"]) {
            assert!(outcome.stderr.contains(part), "{part}: {}", outcome.stderr);
        }
        bench
            .run(&["tpu", "d", "--out", "s", "--strict"])
            .failed(FAILED, &["--strict"]);
    };
    left_out(
        &|d| edit(core(d, 2), |b| b.truncate(100)),
        &["cdmlib0_2.profile", "at byte 8", "cut off"],
    );
    left_out(
        &|d| edit(core(d, 2), |b| b.extend([3, 0, 0])),
        &["cdmlib0_2.profile", "3 bytes", "header"],
    );
    left_out(
        &|d| std::fs::write(core(d, 1), "").unwrap(),
        &["cdmlib0_1.profile", "empty file"],
    );
    left_out(
        &|d| edit(core(d, 0), |b| b[..64].fill(0xa5)),
        &["cdmlib0_0.profile", "at byte 0", "block type"],
    );
    fatal(
        &|d| std::fs::write(d.join("cdma_99.profile"), "").unwrap(),
        &["port 99"],
    );
    fatal(
        &|d| std::fs::write(d.join("cdma_x.profile"), "").unwrap(),
        &["cdma_x.profile"],
    );
    left_out(
        &|d| {
            edit(core(d, 0), |b| {
                let length = u32::from_le_bytes([b[4], b[5], b[6], b[7]]) + 4;
                b[4..8].copy_from_slice(&length.to_le_bytes());
                b.splice(8..8, [0; 4]);
            })
        },
        &[
            "cdmlib0_0.profile",
            "4 bytes at the end of a block of TIU records",
            "16 bytes",
        ],
    );
}

#[test]
fn what_is_lost_is_reported_and_is_no_success() {
    let told = |damage: &dyn Fn(&Path), parts: &[&str]| {
        let (bench, outcome) = broken(damage);
        assert_eq!(outcome.code, Some(NOT_WHOLE), "{}", outcome.stderr);
        for part in parts {
            assert!(outcome.stderr.contains(part), "{part}: {}", outcome.stderr);
        }
        assert!(bench.path().join("o/summary.txt").exists());
        bench
            .run(&["tpu", "d", "--out", "s", "--strict"])
            .failed(FAILED, &["--strict"]);
    };
    let core = |d: &Path, number: u32| d.join(format!("cdmlib0_{number}.profile"));
    told(
        &|d| std::fs::remove_file(core(d, 3)).unwrap(),
        &["no file of core 3", "keep their numbers"],
    );
    // Cut off exactly between two blocks: the first one stays.
    told(
        &|d| {
            edit(core(d, 4), |b| {
                b.truncate(8 + u32::from_le_bytes([b[4], b[5], b[6], b[7]]) as usize)
            })
        },
        &["core 4 GDMA", "the file has 0", "no block of GDMA records"],
    );
    // A flipped bit in the end of a TIU record.
    told(
        &|d| edit(core(d, 0), |b| b[8 + 16 * 5 + 7] ^= 0x40),
        &["core 0 TIU", "contradict"],
    );
    told(
        &|d| {
            edit(d.join("global.profile"), |b| {
                let text = String::from_utf8_lossy(b)
                    .replace("max_record_num=16777216", "max_record_num=30");
                *b = text.into_bytes();
            })
        },
        &["larger max_record_num"],
    );
    // A node of no type, in the block at the end.
    told(
        &|d| {
            edit(core(d, 5), |b| {
                let n = b.len();
                b[n - 40] = 0x5d;
            })
        },
        &["cdmlib0_5.profile", "at byte"],
    );
}

#[test]
fn recording_sets_the_environment_and_reads_what_was_written() {
    let bench = Bench::new();
    dump(&bench, "source");
    bench.file(
        "stand_in.sh",
        "set -e\n[ \"$ENABLE_ALL_PROFILE\" = 1 ] && [ \"$PROFILE_MODE\" = 2 ] && [ \"$PROFILE_RECORD_SIZE\" = 20 ]\n\
         [ \"$TPUKERNEL_FIRMWARE_PATH\" = stand_in.sh ]\ncp -r source cdm_profile_data_dev0-0\n",
    );
    let record = |extra: &[&str]| {
        let mut args = vec![
            "tpu",
            "record",
            "--profile-mode",
            "2",
            "--record-size",
            "20",
            "--firmware",
            "stand_in.sh",
        ];
        args.extend(["--out", "o", "--"]);
        args.extend(extra);
        bench.run(&args)
    };
    let outcome = record(&["sh", "stand_in.sh"]);
    assert!(outcome.done().contains("Overall"));
    assert!(
        outcome.stderr.contains("recorded") && outcome.stderr.contains("cdm_profile_data_dev0-0")
    );
    assert!(
        outcome
            .stderr
            .contains("reaches the configured number of records"),
        "{}",
        outcome.stderr
    );
    record(&["true"]).failed(FAILED, &["wrote no cdm_profile_data_*"]);
    record(&["false"]).failed(FAILED, &["false ended with"]);
    record(&["./nowhere"]).failed(FAILED, &["cannot run ./nowhere"]);
}
