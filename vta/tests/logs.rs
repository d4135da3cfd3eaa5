//! Logs of boards: read, fitted, compared. One is made here from a profile with other parameters; real ones are in ../shared.

use std::io::Write as _;
use std::path::{Path, PathBuf};

use vtasim::log::{Log, Outcome};
use vtasim::lower::{Tail, lower};
use vtasim::timing::calibrate::{fit, samples};
use vtasim::timing::compare::{Comparison, Task};
use vtasim::timing::simulate;
use vtasim::{Profile, Space, Workload};

fn conv(channels: u64, extent: u64, filters: u64, kernel: u64, stride: u64) -> Workload {
    let padding = kernel / 2;
    Workload {
        batch: 1,
        in_channels: channels,
        height: extent,
        width: extent,
        out_channels: filters,
        kernel: [kernel, kernel],
        stride: [stride, stride],
        padding: [padding, padding],
    }
}

/// A log in AutoTVM's format whose times are those of a profile; also lines that are no record.
fn made(folder: &Path, profile: &Profile) -> PathBuf {
    let path = folder.join("made.log");
    let mut file = std::fs::File::create(&path).unwrap();
    let workloads = [
        conv(64, 14, 64, 3, 1),
        conv(128, 14, 64, 1, 1),
        conv(32, 28, 64, 3, 2),
        conv(256, 7, 128, 1, 1),
        conv(64, 28, 32, 1, 2),
    ];
    for w in workloads {
        let packed = w.packed(&profile.hardware).unwrap();
        for (place, c) in Space::of(&packed)
            .configs()
            .enumerate()
            .filter(|(i, _)| i % 7 == 0)
        {
            let (costs, error) = match lower(&profile.hardware, &w, &c, Tail::AUTOTVM) {
                Ok(program) => (simulate(profile, &program).unwrap().total_ns / 1e9, 0),
                Err(_) => (1e9, 2),
            };
            let entity = c
                .knobs()
                .map(|(knob, value)| match knob.contains("nthread") {
                    true => format!("[\"{knob}\", \"ot\", {value}]"),
                    false => format!("[\"{knob}\", \"sp\", [-1, {value}]]"),
                });
            writeln!(
                file,
                "{{\"input\": [\"ext_dev\", \"conv2d_packed.vta\", [[\"TENSOR\", [1, {}, {}, {}, 1, 16], \"int8\"], \
                 [\"TENSOR\", [{}, {}, {}, {}, 16, 16], \"int8\"], [{}, {}], [{p}, {p}, {p}, {p}], [1, 1], \"NCHW1n16c\", \
                 \"int32\"], {{}}], \"config\": {{\"index\": {place}, \"entity\": [{}]}}, \"result\": [[{costs:e}], {error}, 1.0, \
                 2.0], \"version\": 0.2}}",
                packed.ci, w.height, w.width, packed.co, packed.ci, w.kernel[0], w.kernel[1], w.stride[0], w.stride[1],
                entity.join(", "),
                p = w.padding[0],
            )
            .unwrap();
        }
    }
    writeln!(
        file,
        "{{\"input\": [\"llvm\", \"dense_nopack.x86\", []]}}\nnot JSON"
    )
    .unwrap();
    path
}

#[test]
fn parameters_that_made_a_log_are_found_in_it() {
    let folder = tempfile::tempdir().unwrap();
    let start = Profile::find("pynq-1x16").unwrap();
    let mut other = start.clone();
    other.timing.wgt_beat = 1.5;
    other.timing.alu_vector = 3.0;
    other.timing.inp_row = 80.0;
    let log = Log::read(&made(folder.path(), &other)).unwrap();
    assert_eq!((log.others, log.damaged), (1, 1));
    assert!(
        log.records
            .iter()
            .any(|r| r.outcome == Outcome::NotCompiled)
    );
    let (samples, refused) = samples(&start, &log.tasks());
    assert_eq!(refused, 0);
    let before = Comparison::of(&start, &log);
    let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
    assert!(mean(&before.errors_percent()) > 3.0);
    assert_eq!(
        (before.wrongly_accepted.len(), before.wrongly_refused.len()),
        (0, 0)
    );
    let found = fit(&start, &samples);
    assert!(found.error_percent < 0.3, "{found:?}");
    assert!(found.left_out_error_percent() < 1.0, "{found:?}");
    assert!((found.timing.wgt_beat - 1.5).abs() < 0.05, "{found:?}");
}

#[test]
fn real_measurements_are_met() {
    let path = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../shared/vta/opbench_pynq.jsonl"
    );
    if !Path::new(path).exists() {
        return optestkit::skip("measurements of a PYNQ board", "../shared is not here");
    }
    let profile = Profile::find("pynq-1x16").unwrap();
    let log = Log::read(Path::new(path)).unwrap();
    let compared = Comparison::of(&profile, &log);
    assert_eq!(
        (
            compared.wrongly_accepted.len(),
            compared.wrongly_refused.len()
        ),
        (0, 0)
    );
    let errors = compared.errors_percent();
    assert!(errors.iter().sum::<f64>() / (errors.len() as f64) < 1.0);
    let choices: Vec<f64> = compared
        .tasks
        .iter()
        .filter_map(Task::chosen_over_best)
        .collect();
    let found = choices.iter().filter(|over| **over <= 1.01).count();
    assert!(
        found >= 15 && choices.len() == 16,
        "{found} of {}",
        choices.len()
    );
    let (samples, _) = samples(&profile, &log.tasks());
    let fitted = fit(&profile, &samples);
    assert!(fitted.left_out_error_percent() < 2.0, "{fitted:?}");
}

#[test]
fn files_that_are_no_logs_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    for (name, content) in [
        ("empty", ""),
        ("other", "{\"a\": 1}\n[]\nnull"),
        ("bytes", "\u{1}\u{2}"),
    ] {
        let path = folder.path().join(name);
        std::fs::write(&path, content).unwrap();
        let error = Log::read(&path).unwrap_err().to_string();
        assert!(
            error.contains("no line of it is a convolution on VTA"),
            "{name}: {error}"
        );
    }
    assert!(Log::read(&folder.path().join("missing")).is_err());
}
