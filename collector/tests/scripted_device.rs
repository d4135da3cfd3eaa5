//! Two devices that are none of the product's, through everything: plan, sweep, workers, whole model, rows, reports and
//! prediction. Their times follow from knobs, conditions and programs, so every number is known beforehand.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use opcollect::config::Layers;
use opcollect::plan::{HostFacts, Plan, Planned};
use opcollect::render::{plan_text, report_html, run_json, run_text};
use opcollect::report::{ModelOutcome, RunReport};
use opcollect::run::{self, Importer, Session, SystemClock};
use opcollect::run_report;
use opcollect::sweep::{SweepError, SweepFile};
use opdata::{DeviceKind, Row, Status, Timestamp};
use opengine::calibrate::Store;
use opengine::device;
use opengine::env::Root;
use opengine::interrupt::Interrupt;
use opengine::runner::ChildRunners;
use oplearn::data::{Dataset, Machines, RowSet, Source};
use oplearn::models::FitOptions;
use opmodels::{ImportError, ImportRequest, Imported, Provenance, Resolved};
use oppredict::model::TrainOptions;
use opreport::Style;
use opreport::progress::Recorded;

/// Gives the one operator of a fixture, whatever is asked for.
struct Fixture(&'static str);

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures")
}

impl Importer for Fixture {
    fn import(
        &self,
        request: &ImportRequest,
        _python: Option<&Path>,
        _watch: &mut opmodels::Watch<'_>,
    ) -> Result<Imported, ImportError> {
        let folder = fixtures().join(self.0);
        let graph = std::fs::read_to_string(folder.join("graph.json")).unwrap();
        Ok(Imported {
            graph: serde_json::from_str(&graph).unwrap(),
            resolved: Resolved {
                source: request.source,
                model: request.model.clone(),
                file: None,
                batch: None,
                seqlen: None,
                inputs: Vec::new(),
                fills: Default::default(),
                details: Default::default(),
            },
            folder,
            provenance: Provenance::Cached,
        })
    }
}

const SWEEP: &str = "space = 'template'\ndraw = 'grid'\nschedules = 20\n[vary]\ngrain = [1, 2, 4]\nstyle = 'all'\n[settings]\ncondition = ['clock=low', 'clock=high']\n";

fn sweep(text: &str) -> Result<SweepFile, SweepError> {
    let scripted = device::named("scripted").unwrap();
    SweepFile::parse(Path::new("s.toml"), text)?.for_device(scripted)
}

/// The plan of the sweep with these settings, as the command line would make it.
fn plan(settings: &[(&'static str, &str)], out: &Path) -> Result<Planned, String> {
    let file = sweep(SWEEP).unwrap();
    let mut all: BTreeMap<&'static str, Vec<String>> = file.settings;
    let given = [
        ("modelname", "fixture"),
        ("target", "scripted"),
        ("threads", "1,2"),
        ("whole-model", "skip"),
        ("out", out.to_str().unwrap()),
    ];
    for (key, text) in given.iter().chain(settings) {
        all.insert(key, vec![(*text).to_owned()]);
    }
    let layers = Layers {
        command_line: all,
        ..Layers::default()
    };
    let host = HostFacts {
        cores: 2,
        now: Timestamp::from_unix_ms(0),
    };
    Planned::from_settings(&layers.merge().unwrap(), Some(file.sweep), host)
        .map_err(|error| error.to_string())
}

fn run(planned: &Planned) -> RunReport {
    run_of("elementwise", planned)
}

fn run_of(fixture: &'static str, planned: &Planned) -> RunReport {
    let scratch = tempfile::tempdir().unwrap();
    let mut progress = Recorded::default();
    run::run(
        planned,
        &mut Session {
            importer: &Fixture(fixture),
            runners: Box::new(ChildRunners {
                program: env!("CARGO_BIN_EXE_opcollect").into(),
            }),
            calibrations: Store::new(scratch.path().to_owned()),
            root: Root::system(),
            command_line: vec!["opcollect".to_owned()],
            interrupt: Interrupt::default(),
            progress: &mut progress,
            clock: Box::new(SystemClock::default()),
        },
    )
    .unwrap()
}

/// What a row must say: 800 µs over grain, threads and clock, and 1 µs more where pieces are deep.
fn expected_ns(row: &Row) -> f64 {
    let knobs: serde_json::Value =
        serde_json::from_str(row.schedule_knobs.as_ref().unwrap().as_str()).unwrap();
    let target: serde_json::Value =
        serde_json::from_str(row.target.as_ref().unwrap().as_str()).unwrap();
    let grain = knobs["grain"].as_f64().unwrap();
    let clock = match target["conditions"]["clock"].as_str().unwrap() {
        "high" => 2.0,
        _ => 1.0,
    };
    let deep = if knobs["style"] == "deep" {
        1000.0
    } else {
        0.0
    };
    800_000.0 / (grain * row.threads.unwrap() as f64 * clock) + deep
}

#[test]
fn a_run_on_it_is_what_the_script_says() {
    let folder = tempfile::tempdir().unwrap();
    let planned = plan(&[], &folder.path().join("run")).unwrap();
    let text = plan_text(&planned.plan, None, Style::PLAIN);
    assert!(
        text.contains("scripted (scripted times, for tests)"),
        "{text}"
    );
    assert!(text.contains("conditions  clock low, high"), "{text}");
    assert!(text.contains("cache       hot"), "{text}");
    let report = run(&planned);

    let rows = opdata::read_rows(&planned.plan.out).unwrap();
    // Per operator the default (a grain of 1), then grains of 2 and 4, wide or deep; on 1 and 2 threads at 2 clocks.
    let operators = report.operators.len();
    assert_eq!(rows.len(), operators * 5 * 2 * 2);
    for row in &rows {
        assert_eq!(
            (row.status, row.reason.as_deref()),
            (Status::Measured, None)
        );
        assert_eq!(row.time_median_ns, Some(expected_ns(row)), "{}", row.row_id);
        assert_eq!(row.device_kind, DeviceKind::named("scripted"));
        assert_eq!(row.engine.as_deref(), Some("abacus"));
        assert_eq!(row.drift_ratio, Some(1.0));
        assert_eq!(row.counter_sources.as_deref(), Some("scripted"));
        let ticks = 4096.0 / row.number.unwrap() as f64;
        let counters = format!("{{\"scripted:ticks\":{ticks:?}}}");
        assert_eq!(row.counters.as_ref().unwrap().as_str(), counters);
    }
    let ids: std::collections::BTreeSet<&str> = rows.iter().map(|r| r.point_id.as_str()).collect();
    assert_eq!(ids.len(), rows.len(), "conditions tell points apart");

    let text = run_text(&report, Style::PLAIN);
    assert!(
        text.contains("scripted -model=abacus on a script"),
        "{text}"
    );
    assert!(text.contains("2 threads, hot, clock high"), "{text}");
    let json = run_json(&report);
    assert_eq!(json["headline"]["conditions"]["clock"], "high");
    assert_eq!(json["measured"], rows.len());
}

/// A plan for the device `tape`, which has no templates.
fn tape_plan(settings: &[(&'static str, &str)], out: &Path) -> Planned {
    let given = [
        ("modelname", "fixture"),
        ("target", "tape"),
        ("out", out.to_str().unwrap()),
    ];
    let command_line = given.iter().chain(settings);
    let layers = Layers {
        command_line: command_line
            .map(|(key, text)| (*key, vec![(*text).to_owned()]))
            .collect(),
        ..Layers::default()
    };
    let host = HostFacts {
        cores: 2,
        now: Timestamp::from_unix_ms(0),
    };
    Planned::from_settings(&layers.merge().unwrap(), None, host).unwrap()
}

#[test]
fn a_device_with_its_own_kind_lowering_and_condition_runs_a_whole_model_and_has_its_page() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("run");
    let mut planned = tape_plan(&[("whole-model", "measure")], &out);
    let speeds = ["slow", "fast"].map(str::to_owned).to_vec();
    planned.plan.device_conditions = BTreeMap::from([("speed".to_owned(), speeds)]);
    let report = run_of("softmax", &planned);

    // The whole model is run under the device's own condition, and every row has its time at the same one.
    let whole: Vec<(&str, f64)> = report
        .whole_model
        .iter()
        .map(|run| match &run.outcome {
            ModelOutcome::Measured(timing) => (
                run.conditions.device["speed"].as_str(),
                timing.time.median_ns,
            ),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(whole, [("slow", 8e6), ("fast", 2e6)]);
    let rows = opdata::read_rows(&out).unwrap();
    let [slow, fast] = &rows[..] else {
        panic!("{} rows", rows.len())
    };
    // A kernel takes a millisecond for each symbol that the device's lowering wrote.
    let symbols = slow.time_median_ns.unwrap() / 1e6;
    assert!(symbols >= 4.0 && symbols.fract() == 0.0, "{symbols}");
    assert_eq!(fast.time_median_ns, Some(symbols * 1e6 / 4.0));
    assert!(
        rows.iter()
            .all(|row| row.in_model_time_ns.is_some() && row.device_kind.as_str() == "tape")
    );

    let request = run_report::ReportRequest {
        run: out,
        later: None,
        out: None,
    };
    let page = report_html(&run_report::read(&request).unwrap());
    assert!(
        page.contains("tape") && page.contains("1, speed fast"),
        "the page names device and condition"
    );
}

#[test]
fn a_kind_that_the_predictor_does_not_know_is_learned_and_predicted() {
    const FIXTURES: [&str; 24] = [
        "avg_pool",
        "batch_matmul_prime",
        "conv2d_grouped",
        "conv2d_prime",
        "conv2d_strided",
        "conv2d_swish",
        "conv_transpose",
        "dense",
        "depthwise",
        "depthwise_strided",
        "elementwise",
        "enlarged",
        "global_avg_pool",
        "largest",
        "layer_norm",
        "matmul_prime",
        "max_pool_strided",
        "padded",
        "place_of_largest",
        "qconv2d",
        "qdense",
        "softmax",
        "transposed",
        "variance",
    ];
    let folder = tempfile::tempdir().unwrap();
    for name in FIXTURES {
        run_of(
            name,
            &tape_plan(&[("whole-model", "skip")], &folder.path().join(name)),
        );
    }
    let set = RowSet::read(&[Source::Dataset(folder.path().to_owned())]).unwrap();
    let dataset = Dataset::new(&set, &Machines::Single).unwrap();
    let options = TrainOptions {
        fit: FitOptions::default(),
    };
    let trained =
        oppredict::model::train(&dataset, DeviceKind::named("tape"), &options, &()).unwrap();
    let compared = trained.compare(&set, 0.9).unwrap();
    assert_eq!((compared.rows, compared.left_out), (set.rows.len(), 0));
    let unlike = oppredict::model::train(&dataset, DeviceKind::CPU, &options, &()).unwrap();
    let error = unlike.compare(&set, 0.9).unwrap_err().to_string();
    assert!(error.contains("was measured on cpu"), "{error}");
}

#[test]
fn runs_of_one_plan_are_equal_but_for_their_names() {
    let folder = tempfile::tempdir().unwrap();
    let times = |name: &str| -> Vec<(String, Option<f64>)> {
        let planned = plan(&[("condition", "clock=high")], &folder.path().join(name)).unwrap();
        run(&planned);
        let rows = opdata::read_rows(&planned.plan.out).unwrap();
        rows.into_iter()
            .map(|row| (row.point_id, row.time_median_ns))
            .collect()
    };
    assert_eq!(times("a"), times("b"));
}

#[test]
fn what_it_does_not_have_is_refused_by_name() {
    let refused = |key, text: &str| plan(&[(key, text)], Path::new("unused")).unwrap_err();
    assert_eq!(
        refused("target", "scripted -model=sextant"),
        "--target scripted -model=sextant (command line): there is no model `sextant`; models are abacus, quipu"
    );
    assert_eq!(
        refused("condition", "clock=medium"),
        "--condition clock=medium (command line): clock cannot be `medium`; give clock=low|high"
    );
    assert_eq!(
        refused("condition", "voltage=1"),
        "--condition voltage=1 (command line): scripted has no condition `voltage`; give clock=low|high"
    );
    assert_eq!(
        refused("cache", "model"),
        "--cache model (command line): no such cache state; give hot"
    );
    let error = sweep("space = 'template'\nschedules = 2\n[vary]\ngrian = 'all'\n").unwrap_err();
    assert_eq!(
        error.to_string(),
        "s.toml:4: unknown factor `grian` (did you mean grain?); factors are grain, style, threads, cache, batch, input-size"
    );
}

#[test]
fn a_plan_of_it_survives_being_written_and_keeps_its_hash() {
    let planned = plan(&[], Path::new("unused")).unwrap();
    let json = serde_json::to_value(&planned.plan).unwrap();
    assert_eq!(json["target"]["kind"], "scripted");
    assert_eq!(json["device_conditions"]["clock"][1], "high");
    let read: Plan = serde_json::from_value(json).unwrap();
    assert_eq!((read.hash(), &read), (planned.plan.hash(), &planned.plan));
}
