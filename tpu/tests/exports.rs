//! What files say of a dump: windows of time, pages of many commands, rows by shape, the overview, and damage at the top.

mod dumps;

use std::collections::BTreeSet;
use std::path::Path;

use dumps::{Capture, Dump, Spec, make};
use serde_json::Value;
use tpuprofile::analysis::dependencies::dependencies;
use tpuprofile::analysis::overview::Limit;
use tpuprofile::analysis::rollup::{Filter, Grouping, roll_up};
use tpuprofile::analysis::summary::summarise;
use tpuprofile::chip::Chip;
use tpuprofile::export::comparison::{Side, write as write_comparison};
use tpuprofile::export::{rows, web};
use tpuprofile::job::{Job, Output, run_one};
use tpuprofile::report::Engine;
use tpuprofile::{IngestOptions, Profile, Window, ingest};

fn read_with(dump: &Dump, options: &IngestOptions) -> tpuprofile::Result<Profile> {
    let dir = tempfile::tempdir().unwrap();
    dump.write(dir.path());
    ingest(dir.path(), options)
}

fn read(dump: &Dump) -> Profile {
    read_with(dump, &IngestOptions::default()).unwrap()
}

fn window(from_ns: Option<i64>, to_ns: Option<i64>) -> IngestOptions {
    IngestOptions {
        window: Window { from_ns, to_ns },
        ..IngestOptions::default()
    }
}

#[test]
fn a_window_keeps_what_is_in_it_as_it_was() {
    for (chip, capture) in [(Chip::Aks, Capture::Nodes), (Chip::Cv84x6, Capture::Bmodel)] {
        let dump = make(Spec::new(chip, capture));
        let whole = read(&dump);
        let (_, last) = whole.span_ns().unwrap();
        let (from, to) = (last / 3, last / 2);
        let part = read_with(&dump, &window(Some(from), Some(to))).unwrap();
        for ((stream, all), (_, some)) in whole.streams().zip(part.streams()) {
            let inside: Vec<_> = all
                .iter()
                .filter(|e| e.end_ns >= from && e.start_ns < to)
                .copied()
                .collect();
            assert_eq!(inside, some, "{stream}");
        }
        let counted = |p: &Profile| p.streams().map(|(_, events)| events.len()).sum::<usize>();
        assert!(0 < counted(&part) && counted(&part) < counted(&whole));
        assert!(part.report.is_whole());
        assert!(part.report.findings.iter().any(|f| f.kind == "window"));
        let behind = read_with(&dump, &window(Some(last + 1000), None)).unwrap_err();
        assert!(behind.to_string().contains("no event"), "{behind}");
        let empty = read_with(&dump, &window(Some(5), Some(5))).unwrap_err();
        assert!(empty.to_string().contains("the window is empty"), "{empty}");
    }
}

/// The data of a page.
fn page_data(profile: &Profile, most: usize) -> Value {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("result.html");
    web::write(profile, &summarise(profile), most, &path).unwrap();
    let page = std::fs::read_to_string(path).unwrap();
    let (_, data) = page
        .split_once("<script id=\"data\" type=\"application/json\">")
        .unwrap();
    let (data, _) = data.split_once("</script>").unwrap();
    serde_json::from_str(data).unwrap()
}

#[test]
fn more_commands_than_a_browser_holds_become_blocks() {
    let profile = read(&make(Spec {
        kernels: 6,
        ..Spec::new(Chip::Aks, Capture::Nodes)
    }));
    let count = |data: &Value| {
        let streams = data["streams"].as_array().unwrap().iter();
        streams.map(|s| s["n"].as_u64().unwrap()).sum::<u64>()
    };
    let commands: usize = profile.streams().map(|(_, events)| events.len()).sum();
    let whole = page_data(&profile, commands);
    assert_eq!(
        (count(&whole), whole["reduced"].as_str()),
        (commands as u64, Some(""))
    );
    let most = commands / 6;
    let blocks = page_data(&profile, most);
    assert!(
        count(&blocks) <= most as u64 && count(&blocks) > 0,
        "{}",
        count(&blocks)
    );
    let words = blocks["reduced"].as_str().unwrap();
    assert!(
        words.contains(&opreport::units::count(commands as f64)) && words.contains("--from"),
        "{words}"
    );
    assert_eq!(
        whole["by_operator"], blocks["by_operator"],
        "tables count all commands"
    );
}

#[test]
fn rows_are_by_shape_and_one_is_the_whole() {
    let profile = read(&make(Spec::new(Chip::Aks, Capture::Details)));
    let rows = rows::rows(&profile, "run", &Filter::default());
    let whole: Vec<_> = rows.iter().filter(|r| r.op_kind == "whole_model").collect();
    let (first, last) = profile.span_ns().unwrap();
    assert_eq!(whole.len(), 1);
    assert_eq!(whole[0].time_median_ns, Some((last - first) as f64));
    let shaped: Vec<_> = rows.iter().filter(|r| r.output_shapes.is_some()).collect();
    assert!(!shaped.is_empty());
    let known: BTreeSet<_> = rows.iter().map(|r| r.point_id.clone()).collect();
    assert_eq!(known.len(), rows.len(), "no two rows are of one point");
    // Rates are sums over sums.
    for group in roll_up(&profile, Grouping::Kernel, &Filter::default()) {
        let row = rows
            .iter()
            .find(|r| r.op_kind == "kernel" && r.op_name == group.name)
            .unwrap();
        let rate = group.alg_ops.map(|ops| ops / group.total_ns as f64);
        assert_eq!(row.gflops_per_s, rate, "{}", group.name);
    }
}

/// Runs a job that writes everything; the folder and what it wrote.
fn everything(dump: &Dump) -> (tempfile::TempDir, tpuprofile::job::Done) {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().join("d");
    dump.write(&folder);
    let job = Job {
        dumps: vec![folder.clone()],
        out: dir.path().join("o"),
        outputs: [
            Output::Summary,
            Output::Perfetto,
            Output::Doc,
            Output::Web,
            Output::Json,
            Output::Parquet,
            Output::Rows,
        ]
        .into(),
        ingest: IngestOptions::default(),
        trace_file: None,
        filter: Filter::default(),
        top: 20,
    };
    let done = run_one(&job, &folder, &job.out).unwrap();
    (dir, done)
}

#[test]
fn damage_is_reported_at_the_top_of_every_file() {
    for lose in [false, true] {
        let mut dump = make(Spec::new(Chip::Aks, Capture::Nodes));
        if lose {
            dump.cores[1].records[1].drain(10..14);
        }
        let (dir, done) = everything(&dump);
        let out = dir.path().join("o");
        let text = |name: &str| std::fs::read_to_string(out.join(name)).unwrap();
        let contains = |path: &Path, part: &str| {
            let bytes = std::fs::read(path).unwrap();
            bytes.windows(part.len()).any(|w| w == part.as_bytes())
        };
        assert_eq!(done.profile.report.is_whole(), !lose);
        assert_eq!(text("summary.txt").starts_with("NOT WHOLE"), lose);
        assert_eq!(text("result.html").contains("\"damage\":\"NOT WHOLE"), lose);
        assert_eq!(contains(&out.join("perfetto.pftrace"), "NOT WHOLE"), lose);
        let rows = opdata::read_rows(&out.join("rows")).unwrap();
        assert!(
            rows.iter()
                .all(|r| (r.quality == Some(opdata::Quality::D)) == lose)
        );
        let json: Value = serde_json::from_str(&text("profile.json")).unwrap();
        assert_eq!(json["whole"], Value::Bool(!lose));
        assert_eq!(
            json["overview"]["findings"].as_array().map(Vec::len),
            Some(3)
        );
        assert_eq!(
            std::fs::read_dir(&out)
                .unwrap()
                .filter(|e| {
                    e.as_ref()
                        .unwrap()
                        .file_name()
                        .to_string_lossy()
                        .starts_with('.')
                })
                .count(),
            0,
            "nothing unfinished is left"
        );
    }
}

#[test]
fn the_overview_says_what_bounds_and_what_would_help() {
    let profile = read(&make(Spec::new(Chip::Aks, Capture::Details)));
    let summary = summarise(&profile);
    let operators = roll_up(&profile, Grouping::Operator, &Filter::default());
    let gaps = tpuprofile::analysis::gaps::find(&profile, 5);
    let found =
        tpuprofile::analysis::overview::overview(&profile, &summary, &operators, &gaps, 2.0);
    let share = found.compute_share + found.move_share - found.overlap_share + found.idle_share;
    assert!(
        (share - 1.0).abs() < 1e-9,
        "moments of one kind each: {share}"
    );
    assert_eq!(
        found.limit,
        Limit::DdrBandwidth,
        "transfers of these dumps are near the limit"
    );
    let steps: Vec<f64> = found.ladder.iter().map(|step| step.total_ns).collect();
    assert_eq!(steps[0], summary.total_ns as f64);
    assert!(
        steps.len() >= 5 && steps.is_sorted_by(|a, b| a >= b),
        "{steps:?}"
    );
    assert!(
        found
            .ladder
            .iter()
            .all(|step| step.mac_utilisation.unwrap() <= 1.0)
    );
}

#[test]
fn commands_wait_for_the_one_they_name() {
    for capture in [Capture::Details, Capture::Bmodel] {
        let profile = read(&make(Spec::new(Chip::Aks, capture)));
        let core = &profile.cores[0];
        let found = dependencies(&profile, core);
        assert!(!found.is_empty(), "{capture:?}");
        for one in found {
            let (of, other) = match one.engine {
                Engine::Tiu => (0, 1),
                _ => (1, 0),
            };
            let waited = core.events[of][one.waited as usize];
            let source = core.events[other][one.source as usize];
            assert!(source.end_ns <= waited.start_ns + 50, "{one:?}");
            assert_eq!(source.scope(), waited.scope(), "{one:?}");
        }
    }
}

#[test]
fn several_dumps_are_compared_on_one_page() {
    let dir = tempfile::tempdir().unwrap();
    let mut cut = make(Spec::new(Chip::Aks, Capture::Nodes));
    cut.cores[1].records[1].truncate(9);
    let dumps = [
        ("<first>", make(Spec::new(Chip::Aks, Capture::Nodes))),
        (
            "longer",
            make(Spec {
                tiles: 20,
                ..Spec::new(Chip::Aks, Capture::Nodes)
            }),
        ),
        ("cut", cut),
    ];
    let side = |(name, dump): &(&str, Dump)| {
        let profile = read(dump);
        let summary = summarise(&profile);
        Side::of(&profile, &summary, &Filter::default(), Path::new(name))
    };
    let sides: Vec<Side> = dumps.iter().map(side).collect();
    let path = dir.path().join("comparison.html");
    write_comparison(&sides, &["gone".into()], 1, &path).unwrap();
    let page = std::fs::read_to_string(&path).unwrap();
    assert!(page.contains("&lt;first&gt;") && !page.contains("<first>"));
    assert!(page.contains("href=\"./longer/result.html\"") && page.contains("NOT WHOLE"));
    assert!(page.contains("more (--top)"));
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
}
