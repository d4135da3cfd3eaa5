//! Command lines: what they ask for, and the words of what is refused.

use opdata::Timestamp;
use opreport::{OutputFormat, Verbosity};

use super::*;

fn run(args: &[&str], environment: &[(&str, &str)]) -> Result<Invocation, CliError> {
    parse(Process {
        args: std::iter::once("opcollect")
            .chain(args.iter().copied())
            .map(OsString::from)
            .collect(),
        environment: environment
            .iter()
            .map(|(name, value)| (name.into(), value.into()))
            .collect(),
        host: HostFacts {
            cores: 2,
            now: Timestamp::from_unix_ms(0),
        },
        sweeps: std::path::PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../configs/sweeps")),
    })
}

fn planned(args: &[&str]) -> Planned {
    match run(args, &[]).unwrap().action {
        Action::Run(planned) => *planned,
        other => panic!("{other:?}"),
    }
}

fn usage_error(args: &[&str]) -> String {
    let error = run(args, &[]).unwrap_err();
    assert_eq!(error.exit().code(), 2, "{error}");
    error.to_string()
}

#[test]
fn the_main_job_needs_no_subcommand() {
    let planned = planned(&[
        "--modelsource",
        "local",
        "--modelname",
        "resnet-18",
        "--target",
        "llvm",
    ]);
    assert_eq!(planned.plan.model.model, "resnet-18");
    assert_eq!(planned.plan.threads, [1, 2]);
}

#[test]
fn flags_reach_the_plan() {
    let planned = planned(&[
        "--modelname=bert-tiny",
        "--seqlen",
        "64",
        "--batchsize=4",
        "--threads",
        "2",
        "--threads=1",
        "--cache",
        "hot,flushed",
        "--input",
        "ids:4x64:int64",
        "--input=mask:4x64",
        "--ci",
        "2%",
        "--budget=500ms",
        "--out",
        "here",
        "--python",
        "/usr/bin/python3",
        "--max-failed",
        "0.1",
        "--whole-model",
        "skip",
        "--iftune=false",
    ]);
    let plan = &planned.plan;
    assert_eq!((plan.model.batch, plan.model.seqlen), (Some(4), Some(64)));
    assert_eq!(plan.threads, [2, 1]);
    assert_eq!(plan.cache_states.len(), 2);
    assert_eq!(plan.model.inputs.len(), 2);
    assert_eq!(plan.timing.stop.budget_ns, 500_000_000);
    assert_eq!(plan.out, PathBuf::from("here"));
    assert_eq!(planned.python, Some(PathBuf::from("/usr/bin/python3")));
    assert_eq!(plan.max_failed_share, 0.1);
}

#[test]
fn negative_numbers_get_a_proper_answer() {
    assert!(usage_error(&["--modelname", "mlp", "--threads", "-1"]).contains("--threads -1"));
    assert!(usage_error(&["--modelname", "mlp", "--batchsize", "-1"]).contains("--batchsize -1"));
}

#[test]
fn the_old_tools_spelling_works() {
    let tuned = planned(&["--modelname=mlp", "--iftune=true", "--tuner=xgb"]).plan;
    assert_eq!(tuned.tuning.unwrap().tuners, ["xgb"]);
    assert!(
        planned(&["--modelname=mlp", "--iftune"])
            .plan
            .tuning
            .is_some()
    );
    assert!(usage_error(&["--modelname=mlp", "--executor=debug"]).contains("TVM has dropped"));
    assert_eq!(
        planned(&["--modelname=mlp", "--executor=default"])
            .plan
            .threads,
        [1, 2]
    );
}

#[test]
fn layers_and_their_order() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("job.toml");
    std::fs::write(
        &file,
        "modelname = \"mlp\"\nseed = 1\nbatchsize = 8\nci = 0.05\n",
    )
    .unwrap();
    let path = file.to_str().unwrap();
    for (args, environment) in [
        (
            vec!["--seed", "3", "--config", path],
            vec![("OPCOLLECT_SEED", "2"), ("OPCOLLECT_CI", "4%")],
        ),
        (
            vec!["--seed", "3"],
            vec![("OPCOLLECT_CI", "4%"), ("OPCOLLECT_CONFIG", path)],
        ),
    ] {
        match run(&args, &environment).unwrap().action {
            Action::Run(planned) => {
                assert_eq!(planned.plan.model.model, "mlp");
                assert_eq!(planned.plan.seed, 3);
                assert_eq!(planned.plan.timing.stop.ci_target, 0.04);
                assert_eq!(planned.plan.model.batch, Some(8));
            }
            other => panic!("{other:?}"),
        }
    }
    let error = run(&["--config", "/no/such/file.toml"], &[]).unwrap_err();
    assert_eq!(error.exit().code(), 2);
    assert!(error.to_string().contains("/no/such/file.toml"));
    std::fs::write(&file, "threads = 0\nmodelname = 'mlp'").unwrap();
    let error = run(&["--config", path], &[]).unwrap_err().to_string();
    assert!(
        error.contains("job.toml:1): a kernel needs at least one thread"),
        "{error}"
    );
}

#[test]
fn showing_instead_of_doing() {
    let view = |args: &[&str]| run(args, &[]).unwrap().view;
    let json = view(&["--modelname", "mlp", "--json", "-q"]);
    assert_eq!(
        (json.format, json.verbosity),
        (OutputFormat::Json, Verbosity::Quiet)
    );
    assert_eq!(
        view(&["list", "models", "--json"]).format,
        OutputFormat::Json
    );
    assert_eq!(
        view(&["--json", "doctor", "-v"]).verbosity,
        Verbosity::Verbose
    );
    let action = |args: &[&str]| run(args, &[]).unwrap().action;
    assert!(matches!(
        action(&["--modelname", "mlp", "--dry-run"]),
        Action::DryRun(_)
    ));
    // Settings are shown even where they make no plan.
    assert!(matches!(
        action(&["--print-config"]),
        Action::PrintConfig(_)
    ));
    assert!(usage_error(&["-q", "-v"]).contains("cannot be used with"));
}

#[test]
fn subcommands() {
    let action = |args: &[&str]| run(args, &[]).unwrap().action;
    assert_eq!(
        action(&["list", "models"]),
        Action::List(ListRequest::Models)
    );
    assert_eq!(
        action(&["list", "targets"]),
        Action::List(ListRequest::Targets)
    );
    assert_eq!(
        action(&["list", "ops"]),
        Action::List(ListRequest::SimpleOperators)
    );
    match action(&["list", "ops", "--modelname", "mlp", "--batchsize", "2"]) {
        Action::List(ListRequest::Operators(model, None)) => assert_eq!(model.batch, Some(2)),
        other => panic!("{other:?}"),
    }
    match action(&["doctor", "--threads", "1,2", "--out", "there"]) {
        Action::Doctor(request) => {
            assert_eq!(request.threads, [1, 2]);
            assert_eq!(request.out, PathBuf::from("there"));
            assert_eq!(request.calibration, None);
        }
        other => panic!("{other:?}"),
    }
    let calibration = |args: &[&str]| match action(&[&["doctor", "--calibrate"], args].concat()) {
        Action::Doctor(request) => request.calibration.unwrap(),
        other => panic!("{other:?}"),
    };
    assert_eq!(calibration(&[]).threads, [1, 2]);
    assert_eq!(calibration(&[]).budget_ns, 1_000_000_000);
    let chosen = calibration(&["--threads", "3,1", "--budget", "20ms"]);
    assert_eq!((chosen.threads, chosen.budget_ns), (vec![3, 1], 20_000_000));
    assert_eq!(action(&["man"]), Action::Man);
    assert!(matches!(
        action(&["completions", "zsh"]),
        Action::Completions(_)
    ));
    assert_eq!(
        action(&["worker", "--fd", "3"]),
        Action::Worker(vec!["--fd".into(), "3".into()])
    );
}

#[test]
fn mistakes_are_usage_errors() {
    assert!(usage_error(&[]).contains("--modelname is missing"));
    assert!(usage_error(&["--modelnme", "mlp"]).contains("--modelname"));
    assert!(usage_error(&["--modelname", "mlp", "list", "models"]).contains("without effect"));
    assert!(usage_error(&["list"]).contains("models"));
    assert!(usage_error(&["--modelname", "a", "--modelname", "b"]).contains("multiple times"));
    assert!(usage_error(&["doctor", "--threads", "0"]).contains("at least one thread"));
    assert!(usage_error(&["doctor", "--budget", "1s"]).contains("--calibrate"));
    assert!(usage_error(&["doctor", "--calibrate", "--budget", "0"]).contains("more than nothing"));
    assert!(usage_error(&["doctor", "--calibrate", "--threads", ""]).contains("threads"));
}

#[test]
fn help_and_version_are_no_errors() {
    for args in [["--help"], ["-h"], ["--version"]] {
        assert_eq!(run(&args, &[]).unwrap_err().exit().code(), 0);
    }
}
