//! `opcollect --sweep`: what is planned is measured, once, whatever kills it in between; shards part it; rows replay.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use e2e::Bench;
use opdata::{Row, RunManifest, RunState, Status, read_rows};

/// A small sweep; its options replace those of the command line's defaults.
const SWEEP: &str = "space = 'template'\ndraw = 'sobol'\nschedules = 10\n\
    [vary]\ntile = 'all'\nvector-length = 'all'\nreduction-tile = 'all'\nunroll = 'all'\nthreads = [1]\n\
    [settings]\nwhole-model = 'skip'\nbudget = '5ms'\nmin-samples = 6\nmax-samples = 10\nwarmup = 0\n";

/// A bench with the sweep `small.toml` in it.
fn bench() -> Bench {
    let bench = Bench::new();
    bench.file("small.toml", SWEEP);
    bench
}

fn job<'a>(out: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    let mut args = vec!["--modelname", "mlp", "--sweep", "small.toml", "--out", out];
    args.extend(more);
    args
}

fn rows(folder: &Path) -> Vec<Row> {
    read_rows(&folder.join("rows.csv")).unwrap()
}

/// The points of a run: function and id, each exactly once.
fn points(rows: &[Row]) -> BTreeSet<(String, String)> {
    let name = |row: &Row| (row.op_symbol.clone().unwrap(), row.point_id.clone());
    let points: BTreeSet<_> = rows.iter().map(name).collect();
    assert_eq!(points.len(), rows.len(), "a point has two rows");
    points
}

#[test]
fn a_sweep_killed_again_and_again_measures_every_point_once() {
    let bench = bench();
    bench.run(&job("whole", &[])).done();
    let whole = points(&rows(&bench.path().join("whole")));

    // Where this test is kept waiting, a run comes to its end before it is killed: then another one is.
    let run = ["run", "run-2", "run-3", "run-4", "run-5"]
        .into_iter()
        .find(|run| is_killed_again_and_again(&bench, run, whole.len()))
        .expect("a run that was killed before its end");
    let folder = bench.path().join(run);
    let before = rows(&folder);
    bench.run(&["--resume", run]).done();
    let after = rows(&folder);
    assert_eq!(after[..before.len()], before, "what was written stays");
    assert_eq!(points(&after), whole);
    let manifest = RunManifest::load(&folder).unwrap();
    assert_eq!(manifest.state, RunState::Finished);
    assert_eq!(manifest.counts.rows(), whole.len() as u64);
    assert_eq!(read_rows(&folder.join("rows.parquet")).unwrap(), after);

    let again = bench.run(&["--resume", run]);
    assert!(again.stderr.contains("finished"), "{}", again.stderr);
}

/// Starts a run of this many points and kills it five times; whether it has not come to its end.
fn is_killed_again_and_again(bench: &Bench, run: &str, planned: usize) -> bool {
    let folder = bench.path().join(run);
    // Each life ends after a few rows more, at a moment that nobody chose; the third is killed before its first row.
    for (lives, rows_more) in [3, 1, 0, 7, 2].into_iter().enumerate() {
        if lives > 0 && rows(&folder).len() + rows_more >= planned {
            return false;
        }
        let args = match lives {
            0 => job(run, &[]),
            _ => vec!["--resume", run],
        };
        let mut life = bench.start(&args);
        if rows_more == 0 {
            std::thread::sleep(Duration::from_millis(300));
        } else {
            life.wait_for_lines("measure ", rows_more);
        }
        life.group.signal(libc::SIGKILL);
        life.end();
    }
    let state = RunManifest::load(&folder).unwrap().state;
    state == RunState::Running && rows(&folder).len() < planned
}

#[test]
fn a_torn_row_is_cut_off_and_measured_again() {
    let bench = bench();
    let mut life = bench.start(&job("run", &[]));
    life.wait_for_lines("measure ", 4);
    life.group.signal(libc::SIGKILL);
    life.end();
    let csv = bench.path().join("run/rows.csv");
    let text = std::fs::read(&csv).unwrap();
    std::fs::write(&csv, &text[..text.len() - 40]).unwrap();
    bench.run(&["--resume", "run"]).done();
    bench.run(&job("whole", &[])).done();
    let found = points(&rows(&bench.path().join("run")));
    assert_eq!(found, points(&rows(&bench.path().join("whole"))));
}

#[test]
fn a_time_budget_ends_a_run_that_can_go_on() {
    let bench = bench();
    // Nothing was measured, which a script has to see.
    let first = bench.run(&job("run", &["--time-budget", "1ns"]));
    assert_eq!(first.code, Some(4), "{}", first.stderr);
    assert!(
        first.stdout.contains("opcollect --resume run"),
        "{}",
        first.stdout
    );
    let folder = bench.path().join("run");
    let manifest = RunManifest::load(&folder).unwrap();
    assert_eq!(manifest.state, RunState::Interrupted);
    assert!(manifest.counts.planned > manifest.counts.rows());
    bench.run(&["--resume", "run"]).done();
    assert_eq!(
        RunManifest::load(&folder).unwrap().state,
        RunState::Finished
    );
}

#[test]
fn shards_part_a_plan_and_merge_joins_them() {
    let bench = bench();
    bench.run(&job("whole", &[])).done();
    let mut all = BTreeSet::new();
    for shard in ["1/3", "2/3", "3/3"] {
        let out = format!("part-{}", &shard[..1]);
        bench.run(&job(&out, &["--shard", shard])).done();
        let part = points(&rows(&bench.path().join(&out)));
        assert!(all.is_disjoint(&part), "{shard}");
        all.extend(part);
    }
    let whole = points(&rows(&bench.path().join("whole")));
    assert_eq!(all, whole);
    bench
        .run(&["merge", "joined", "part-3", "part-1", "part-2"])
        .done();
    assert_eq!(points(&rows(&bench.path().join("joined"))), whole);
}

#[test]
fn every_operator_is_swept_from_both_spaces_and_rows_say_how() {
    let bench = bench();
    bench.file(
        "meta.toml",
        "space = 'metaschedule'\nschedules = 4\n[vary]\nthreads = [1]\n\
         [settings]\nwhole-model = 'skip'\nbudget = '5ms'\nmin-samples = 6\nmax-samples = 10\n",
    );
    bench.run(&job("template", &[])).done();
    bench
        .run(&[
            "--modelname",
            "mlp",
            "--sweep",
            "meta.toml",
            "--out",
            "meta",
        ])
        .done();
    for (out, space) in [("template", "template"), ("meta", "metaschedule")] {
        let rows = rows(&bench.path().join(out));
        let drawn: Vec<&Row> = rows
            .iter()
            .filter(|r| r.schedule_space.as_deref() == Some(space))
            .collect();
        let measured: Vec<_> = drawn
            .iter()
            .filter(|r| r.status == Status::Measured)
            .collect();
        assert!(measured.len() > drawn.len() / 2, "{out}");
        for row in measured {
            assert!(row.schedule_trace.is_some() && row.schedule_knobs.is_some());
            assert!(row.program_hash.is_some() && row.quality.is_some());
        }
        let dense: Vec<_> = drawn.iter().filter(|r| r.op_kind == "dense").collect();
        assert!(dense.iter().any(|r| r.knob_tile_spatial.is_some()), "{out}");
        assert!(
            dense.iter().any(|r| r.knob_tile_reduction.is_some()),
            "{out}"
        );
    }
}

#[test]
fn a_row_is_rebuilt_from_its_record() {
    let bench = bench();
    bench.run(&job("run", &[])).done();
    let rows = rows(&bench.path().join("run"));
    let row = rows
        .iter()
        .find(|r| r.schedule_space.as_deref() == Some("template") && r.status == Status::Measured)
        .unwrap();
    // Whether the time is the recorded one is the machine's affair here; that it is printed is ours.
    let outcome = bench.run(&["replay", &row.row_id, "--run", "run", "--json"]);
    let text = outcome.stdout.as_str();
    let replayed: serde_json::Value = serde_json::from_str(text).unwrap();
    assert_eq!(replayed["row_id"], row.row_id);
    assert!(["inside", "slower", "faster"].contains(&replayed["verdict"].as_str().unwrap()));
    assert!(replayed["now"]["time_median_ns"].as_f64().unwrap() > 0.0);
    bench
        .run(&["replay", "nothing.000001", "--run", "run"])
        .failed(1, &["has no row nothing.000001"]);
    bench
        .run(&["replay", "nothing.000001"])
        .failed(1, &["there is no run nothing", "--run DIR"]);
}

#[test]
fn a_plan_says_what_it_comes_to_and_leaves_nothing_behind() {
    let bench = bench();
    let mut args = vec!["plan", "--json"];
    let job = job("run", &[]);
    args.extend(&job);
    let outcome = bench.run(&args);
    let plan: serde_json::Value = serde_json::from_str(outcome.done()).unwrap();
    assert!(plan["points"].as_u64().unwrap() > plan["operators"].as_u64().unwrap());
    assert!(plan["estimated_time_ns"].as_u64().unwrap() > 0);
    assert!(plan["estimated_disk_bytes"].as_u64().unwrap() > 0);
    assert!(!bench.path().join("run").exists());
}

#[test]
fn what_cannot_be_swept_is_reported() {
    let bench = bench();
    let sweep = |name: &str, text: &str| {
        bench.file(name, text);
        bench.run(&["plan", "--modelname", "mlp", "--sweep", name])
    };
    let head = "space = 'template'\nschedules = 4\n";
    sweep("a.toml", &format!("{head}[vary]\ntyle = 'all'\n")).failed(
        2,
        &["a.toml:4", "unknown factor `tyle`", "did you mean tile?"],
    );
    sweep("b.toml", &format!("{head}[vary]\nvector-length = [7919]\n"))
        .failed(1, &["vector-length = 7919 is impossible", "possible are"]);
    sweep(
        "c.toml",
        &format!("{head}operators = ['conv3d']\n[vary]\ntile = 'all'\n"),
    )
    .failed(1, &["the space is empty", "conv3d", "dense"]);
    sweep("d.toml", &format!("{head}[vary]\npadding = 'all'\n"))
        .failed(1, &["the space is empty", "padding"]);
    sweep(
        "e.toml",
        &format!("{head}max-points = 1\n[vary]\ntile = 'all'\n"),
    )
    .failed(1, &["max-points = 1", "default schedules alone"]);
    bench
        .run(&["plan", "--modelname", "mlp", "--sweep", "quik"])
        .failed(2, &["there is no sweep `quik`", "did you mean quick?"]);
    bench
        .run(&["--modelname", "mlp", "--shard", "5/4"])
        .failed(2, &["--shard 5/4", "at most 4"]);
    bench
        .run(&["--resume", "run", "--modelname", "mlp"])
        .failed(2, &["--modelname", "--resume"]);
}

#[test]
fn what_cannot_be_resumed_is_reported_and_left_alone() {
    let bench = bench();
    bench.run(&["--resume", "nowhere"]).failed(1, &["nowhere"]);
    let spent = bench.run(&job("run", &["--time-budget", "1ns"]));
    assert_eq!(spent.code, Some(4), "{}", spent.stderr);
    let manifest = bench.path().join("run/run.json");
    let text = std::fs::read_to_string(&manifest).unwrap();
    let csv = bench.path().join("run/rows.csv");
    let kept = std::fs::read(&csv).unwrap();
    for (change, parts) in [
        (
            text[..text.len() / 2].to_owned(),
            &["run.json is damaged"][..],
        ),
        (
            text.replace("\"schema_version\": 3", "\"schema_version\": 1"),
            &["schema version 1"],
        ),
        (
            text.replacen("\"format\": 2", "\"format\": 1", 1),
            &["format 1"],
        ),
    ] {
        assert_ne!(change, text);
        std::fs::write(&manifest, change).unwrap();
        bench.run(&["--resume", "run"]).failed(1, parts);
        assert_eq!(std::fs::read(&csv).unwrap(), kept);
    }
    std::fs::write(&manifest, &text).unwrap();
    bench.run(&["--resume", "run"]).done();
}

/// A product of matrices whose loops are tiled, vectorised and parallel already, as TVMScript.
const SCHEDULED: &str = r#"
from tvm.script import ir as I, tirx as T

@I.ir_module
class Module:
    @T.prim_func(s_tir=True)
    def product(A: T.Buffer((64, 64), "float32"), B: T.Buffer((64, 64), "float32"), C: T.Buffer((64, 64), "float32")):
        T.func_attr({"tirx.noalias": True})
        for i0 in T.parallel(8):
            for i1, k in T.grid(8, 64):
                for j in T.vectorized(64):
                    with T.sblock("C"):
                        v_i = T.axis.spatial(64, i0 * 8 + i1)
                        v_j, v_k = T.axis.remap("SR", [j, k])
                        T.reads(A[v_i, v_k], B[v_k, v_j])
                        T.writes(C[v_i, v_j])
                        with T.init():
                            C[v_i, v_j] = T.float32(0)
                        C[v_i, v_j] = C[v_i, v_j] + A[v_i, v_k] * B[v_k, v_j]
"#;

#[test]
fn a_scheduled_tensor_function_is_measured_as_it_is_beside_the_default_schedule() {
    let bench = Bench::new();
    bench.file("net.py", SCHEDULED);
    let args = [
        "--modelsource",
        "tvm",
        "--modelname",
        "net.py",
        "--schedule",
        "as-is",
        "--threads",
        "1",
        "--out",
        "run",
    ];
    bench.measure(&args).done();
    let rows = read_rows(&bench.path().join("run/rows.csv")).unwrap();
    assert_eq!(rows.len(), 2);
    assert!(rows.iter().all(|row| row.status == Status::Measured));
    // The default schedule is made anew of plain loops.
    let of_space = |space: &str| {
        rows.iter()
            .find(|row| row.schedule_space.as_deref() == Some(space))
    };
    let (default, as_is) = (of_space("default").unwrap(), of_space("trace").unwrap());
    assert!(default.knob_vector_length.is_some() && as_is.knob_vector_length.is_none());
    assert_ne!(default.program_hash, as_is.program_hash);
    for row in [default, as_is] {
        let again = bench.run(&["replay", &row.row_id, "--run", "run", "--json"]);
        let replayed: serde_json::Value = serde_json::from_str(&again.stdout).unwrap();
        assert!(replayed["now"]["time_median_ns"].as_f64().unwrap() > 0.0);
    }
}
