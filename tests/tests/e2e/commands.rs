//! Everything beside the main job: lists, doctor, dry runs, settings, completions, manual.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use e2e::Bench;
use e2e::predict::json;
use serde_json::Value;

/// Texts under `key` in each object of a list.
fn texts<'a>(list: &'a Value, key: &str) -> Vec<&'a str> {
    let list = list.as_array().expect("a list");
    list.iter().filter_map(|item| item[key].as_str()).collect()
}

#[test]
fn list_models_has_all_of_the_zoo() {
    let bench = Bench::new();
    let object = json(bench.run(&["list", "models", "--json"]).done());
    let names = texts(&object["models"], "name");
    for name in [
        "resnet-18",
        "resnet-34",
        "resnet-50",
        "resnet3d-18",
        "mobilenet",
        "squeezenet_v1.1",
        "inception_v3",
        "vgg-16",
        "densenet-121",
        "shufflenet",
        "efficientnet-b0",
        "mlp",
        "lstm",
        "gru",
        "rnn",
        "yolov3-tiny",
        "yolov5n",
        "vit-b-16",
        "bert-tiny",
    ] {
        assert!(names.contains(&name), "no {name} among {names:?}");
    }
    let outcome = bench.run(&["list", "models"]);
    let table = outcome.done();
    assert!(names.iter().all(|name| table.contains(name)), "{table}");
}

#[test]
fn list_targets_says_what_is_there() {
    let bench = Bench::new();
    let object = json(bench.run(&["list", "targets", "--json"]).done());
    assert!(texts(&object["targets"], "name").contains(&"llvm"));
    assert!(bench.run(&["list", "targets"]).done().contains("llvm"));
}

#[test]
fn list_ops_of_simple_and_of_a_model() {
    let bench = Bench::new();
    let object = json(bench.run(&["list", "ops", "--json"]).done());
    let names = texts(&object["ops"], "name");
    for name in [
        "matmul",
        "dense",
        "batch_matmul",
        "conv2d",
        "depthwise_conv2d",
        "conv3d",
        "softmax",
        "layer_norm",
        "elementwise",
        "matmul_matmul_add",
    ] {
        assert!(names.contains(&name), "no {name} among {names:?}");
    }
    let object = json(
        bench
            .run(&["list", "ops", "--modelname", "mlp", "--json"])
            .done(),
    );
    assert!(texts(&object["ops"], "kind").contains(&"dense"));
}

#[test]
fn doctor_gives_each_problem_its_fix() {
    let bench = Bench::new();
    let outcome = bench.run(&["doctor", "--json"]);
    let object = json(&outcome.stdout);
    let checks = object["checks"].as_array().expect("a list of checks");
    assert!(checks.len() >= 6);
    let mut fails = 0;
    for check in checks {
        let status = check["status"].as_str().unwrap();
        assert!(["ok", "warn", "fail"].contains(&status), "{check}");
        assert!(!check["finding"].as_str().unwrap().is_empty(), "{check}");
        if status != "ok" {
            assert!(
                check["fix"].as_str().is_some_and(|fix| !fix.is_empty()),
                "{check}"
            );
        }
        fails += i32::from(status == "fail");
    }
    assert_eq!(outcome.code, Some(fails.min(1)), "{}", outcome.stdout);
    // In a checkout that is set up, nothing that the main job needs is missing.
    assert_eq!(fails, 0, "{}", outcome.stdout);
}

#[test]
fn a_dry_run_shows_the_plan_and_writes_nothing() {
    let bench = Bench::new();
    let args = ["--modelname", "mlp", "--threads", "1,2", "--dry-run"];
    let outcome = bench.run(&args);
    let text = outcome.done();
    assert!(text.contains("mlp") && text.contains("llvm"), "{text}");
    let object = json(bench.run(&[&args[..], &["--json"]].concat()).done());
    let plan = object.get("plan").unwrap_or(&object);
    assert_eq!(plan["threads"], serde_json::json!([1, 2]));
    assert_eq!(std::fs::read_dir(bench.path()).unwrap().count(), 0);
}

#[test]
fn print_config_shows_where_each_value_comes_from() {
    let bench = Bench::new();
    bench.file("my.toml", "seed = 5\nci = \"2%\"\nbudget = \"700ms\"\n");
    let mut command = bench.command([
        "--modelname",
        "mlp",
        "--config",
        "my.toml",
        "--seed",
        "7",
        "--print-config",
        "--json",
    ]);
    command.env("OPCOLLECT_CI", "4%");
    let outcome = e2e::Outcome::of(command);
    let text = json(outcome.done()).to_string();
    // Flag over variable over file over default.
    for value in ["\"7\"", "4%", "700ms", "60s"] {
        assert!(text.contains(value), "no {value} in {text}");
    }
    for origin in ["OPCOLLECT_CI", "my.toml"] {
        assert!(text.contains(origin), "no {origin} in {text}");
    }
    assert!(!text.contains("2%"), "{text}");
}

/// Values of all settings, by key, as `--print-config` gives them.
fn settings(bench: &Bench, args: &[&str]) -> BTreeMap<String, Value> {
    let args = [args, &["--print-config", "--json"]].concat();
    let object = json(bench.run(&args).done());
    let list = object["values"].as_array().expect("a list of values");
    let pair = |value: &Value| {
        (
            value["key"].as_str().unwrap().to_owned(),
            value["texts"].clone(),
        )
    };
    list.iter().map(pair).collect()
}

#[test]
fn the_example_settings_are_the_defaults() {
    let bench = Bench::new();
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("../configs/opcollect.toml");
    let text = std::fs::read_to_string(&example).unwrap();
    let example = example.to_str().unwrap();
    let defaults = settings(&bench, &[]);
    assert_eq!(settings(&bench, &["--config", example]), defaults);
    // The commented settings (no space follows the sign) must be right as well.
    let is_setting = |rest: &&str| rest.starts_with(|c: char| c.is_ascii_lowercase());
    let all: Vec<&str> = text
        .lines()
        .map(|line| line.strip_prefix('#').filter(is_setting).unwrap_or(line))
        .collect();
    bench.file("all.toml", all.join("\n"));
    let mut shown = settings(&bench, &["--config", "all.toml"]);
    for named_for_show in ["modelname", "batchsize", "input"] {
        assert_ne!(shown[named_for_show], defaults[named_for_show]);
        shown.insert(named_for_show.to_owned(), defaults[named_for_show].clone());
    }
    assert_eq!(shown, defaults);
    bench.run(&["--config", "all.toml", "--dry-run"]).done();
}

#[test]
fn completions_are_scripts_of_their_shells() {
    let bench = Bench::new();
    for shell in ["bash", "zsh", "fish"] {
        let outcome = bench.run(&["completions", shell]);
        assert!(outcome.done().contains("modelname"), "{shell}");
    }
    let script = bench.file("bash", bench.run(&["completions", "bash"]).done());
    let parsed = Command::new("bash").arg("-n").arg(script).status().unwrap();
    assert!(parsed.success());
}

#[test]
fn manual_help_and_version() {
    let bench = Bench::new();
    assert!(bench.run(&["man"]).done().contains(".TH opcollect"));
    assert!(bench.run(&["--help"]).done().contains("--modelname"));
    assert!(
        bench
            .run(&["--version"])
            .done()
            .contains(env!("CARGO_PKG_VERSION"))
    );
}
