//! Plans from settings: values, bounds, and the words of what is refused.

use std::collections::BTreeMap;

use super::*;
use crate::config::{ConfigFile, Layers};

fn host() -> HostFacts {
    HostFacts {
        cores: 2,
        now: Timestamp::from_unix_ms(1_767_225_599_000), // 2025-12-31 23:59:59 UTC
    }
}

fn plan(flags: &[(&'static str, &str)]) -> Result<Planned, PlanError> {
    let mut command_line: BTreeMap<&'static str, Vec<String>> = BTreeMap::new();
    for (key, text) in flags {
        command_line
            .entry(key)
            .or_default()
            .push((*text).to_owned());
    }
    let layers = Layers {
        command_line,
        ..Layers::default()
    };
    Planned::from_settings(&layers.merge().unwrap(), None, host())
}

/// The error of the main job with one more flag.
fn error(key: &'static str, text: &str) -> String {
    plan(&[("modelname", "resnet-18"), (key, text)])
        .unwrap_err()
        .to_string()
}

#[test]
fn the_main_job() {
    let planned = plan(&[("modelname", "resnet-18")]).unwrap();
    let plan = &planned.plan;
    assert_eq!(plan.threads, [1, 2]);
    assert_eq!(plan.cache_states, [CacheState::Model]);
    assert_eq!(plan.timing.stop.ci_target, 0.03);
    assert_eq!(plan.timing.stop.budget_ns, 1_000_000_000);
    assert_eq!(plan.worker.memory_limit_mib, 8192);
    assert_eq!(plan.run_id, "20251231T235959Z-resnet-18-llvm");
    assert_eq!(plan.out, Path::new("runs").join(&plan.run_id));
    assert!(planned.warnings.is_empty());
    let json = serde_json::to_string(plan).unwrap();
    assert_eq!(&serde_json::from_str::<Plan>(&json).unwrap(), plan);
}

#[test]
fn threads_once_each_with_a_warning_about_too_many() {
    let planned = plan(&[("modelname", "mlp"), ("threads", "2,max,1,4")]).unwrap();
    assert_eq!(planned.plan.threads, [2, 1, 4]);
    assert_eq!(planned.warnings.len(), 1);
    insta::assert_snapshot!(planned.warnings[0], @"4 threads on 2 cores: threads will wait for each other, and the times say so");
}

#[test]
fn threads_far_beyond_the_cores_are_refused() {
    insta::assert_snapshot!(error("threads", "1,1024"), @"--threads 1024 (command line): more than 32 threads for each of the 2 cores; give 64 at most, or max for all cores");
    assert!(plan(&[("modelname", "mlp"), ("threads", "64")]).is_ok());
}

#[test]
fn run_names_are_safe_for_the_file_system() {
    let name = |source: &'static str, name: &str| {
        plan(&[("modelsource", source), ("modelname", name)])
            .unwrap()
            .plan
            .run_id
    };
    assert!(name("onnx", "/data/../my model.onnx").ends_with("Z-my-model-llvm"));
    assert!(name("simple", "matmul:m=8,n=8").ends_with("Z-matmul-m-8-n-8-llvm"));
}

#[test]
fn targets_take_a_cpu_and_features() {
    let planned = plan(&[
        ("modelname", "mlp"),
        ("target", "llvm -mcpu=haswell -mattr=+fma,-avx512f"),
    ])
    .unwrap();
    assert_eq!(planned.plan.target.value("mcpu"), Some("haswell"));
    assert_eq!(planned.plan.target.values("mattr"), ["+fma", "-avx512f"]);
    assert_eq!(
        planned.plan.target.to_string(),
        "llvm -mcpu=haswell -mattr=+fma,-avx512f"
    );
}

#[test]
fn bad_values_say_what_where_and_what_next() {
    insta::assert_snapshot!(error("threads", "0"), @"--threads 0 (command line): a kernel needs at least one thread; give numbers from 1 up, max for all cores, or a range, e.g. --threads 1,2,max or 1..max");
    insta::assert_snapshot!(error("threads", "1,two"), @"--threads two (command line): not a whole number from 1 up; give numbers from 1 up, max for all cores, or a range, e.g. --threads 1,2,max or 1..max");
    insta::assert_snapshot!(error("threads", "4096"), @"--threads 4096 (command line): must be at most 1024; give numbers from 1 up, max for all cores, or a range, e.g. --threads 1,2,max or 1..max");
    insta::assert_snapshot!(error("batchsize", "0"), @"--batchsize 0 (command line): must be at least 1; give a whole number");
    insta::assert_snapshot!(error("batchsize", "-3"), @"--batchsize -3 (command line): not a whole number from 1 up; give a whole number");
    insta::assert_snapshot!(error("input", "data:1xx3"), @"--input data:1xx3 (command line): '' is not a dimension (write name:1x3x224x224 or name:1x16:int64); give name:shape[:dtype], e.g. --input data:1x3x224x224:float32");
    insta::assert_snapshot!(error("target", "lvm"), @"--target lvm (command line): no such target (did you mean llvm?); available here: llvm, cuda, pynq, scripted, tape");
    insta::assert_snapshot!(error("target", "rocm"), @"--target rocm (command line): not available yet: AMD GPUs: TVM's wheel writes code for AMD GPUs but has no runtime for it (libtvm_runtime_rocm.so); available here: llvm, cuda, pynq, scripted, tape");
    insta::assert_snapshot!(error("target", "cuda -arch=sm_81"), @"--target cuda -arch=sm_81 (command line): there is no architecture `sm_81` here (did you mean sm_80 or sm_86 or sm_87?); they are sm_75, sm_80, sm_86, sm_87, sm_88, sm_89, sm_90, sm_100, sm_103, sm_110, sm_120, sm_121");
    insta::assert_snapshot!(error("arch", "sm_80"), @"--arch sm_80 (command line): llvm has no architectures; leave it out");
    insta::assert_snapshot!(error("compile-only", "maybe"), @"--compile-only maybe (command line): neither true nor false; give true or false");
    insta::assert_snapshot!(error("target", "llvm -num-cores"), @"--target llvm -num-cores (command line): `-num-cores` is no option of a target here; options are -mtriple=TRIPLE and -mfloat-abi=hard|soft and -mcpu=NAME and -mattr=+FEATURE,-FEATURE; threads are set by --threads");
    insta::assert_snapshot!(error("cache", "warm"), @"--cache warm (command line): no such cache state; give model, hot, flushed or several of them, as in model,flushed");
    insta::assert_snapshot!(error("ci", "0"), @"--ci 0 (command line): no number of samples makes an interval of no width; give a share above 0, e.g. 3%");
    insta::assert_snapshot!(error("max-samples", "7"), @"--max-samples 7 (command line): less than --min-samples 10; raise it, or lower --min-samples");
    insta::assert_snapshot!(error("remeasure-budget", "-1"), @"--remeasure-budget -1 (command line): must be between 0 and 100; give how many times as long as measuring took, e.g. 1 or 0.5");
    insta::assert_snapshot!(error("budget", "soon"), @"--budget soon (command line): not a duration such as 500ms, 2s or 1m; give a duration such as 500ms or 2s");
    insta::assert_snapshot!(error("timeout", "500ms"), @"--timeout 500ms (command line): no longer than --budget 1s, so every point would time out; raise it, or lower --budget");
    insta::assert_snapshot!(error("out", ""), @r#"--out "" (command line): empty; give a value, or leave it out"#);
    insta::assert_snapshot!(error("modelsource", "lokal"), @"--modelsource lokal (command line): no such source of models (did you mean local?); give local, onnx, remoteonnx, transformers, torch, tflite, stablehlo, tvm or simple");
    insta::assert_snapshot!(plan(&[]).unwrap_err(), @"--modelname is missing: name a model, e.g. --modelname resnet-18; `opcollect list models` shows them");
}

#[test]
fn what_is_not_there_yet_is_refused_by_name() {
    for (key, text) in [
        ("executor", "debug"),
        ("target", "opencl"),
        ("target", "vulkan"),
        ("target", "rocm"),
        ("target", "metal"),
    ] {
        let message = error(key, text);
        assert!(message.contains("not available yet"), "{key}: {message}");
        assert!(
            message.starts_with(&format!("--{key} {text} (command line)")),
            "{message}"
        );
    }
    // Said to be off, nothing is asked for.
    assert!(plan(&[("modelname", "mlp"), ("iftune", "false")]).is_ok());
    assert!(error("iftune", "perhaps").contains("neither true nor false"));
}

#[test]
fn what_goes_with_tuning_needs_it() {
    for (key, text) in [
        ("ifcompare", "true"),
        ("ifpartial", "true"),
        ("tuner", "xgb"),
        ("trials", "1000"),
        ("history", "runs/x"),
    ] {
        let message = error(key, text);
        assert!(
            message.starts_with(&format!("--{key} {text} (command line): nothing is tuned")),
            "{message}"
        );
    }
    let tuned = plan(&[("modelname", "mlp"), ("iftune", "true"), ("tuner", "grid")]).unwrap();
    let policy = tuned.plan.tuning.unwrap();
    assert_eq!(
        (policy.tuners, policy.trials),
        (vec!["gridsearch".to_owned()], 64)
    );
}

#[test]
fn a_time_budget_alone_decides_how_much_is_tuned() {
    let trials = |more: &[(&'static str, &str)]| {
        let tuned = [("modelname", "mlp"), ("iftune", "true")];
        let settings = [&tuned, more].concat();
        plan(&settings).unwrap().plan.tuning.unwrap().trials
    };
    assert_eq!(trials(&[]), 64);
    assert_eq!(trials(&[("time-budget", "10m")]), 3000);
    assert_eq!(trials(&[("time-budget", "10m"), ("trials", "20")]), 20);
}

#[test]
fn lists_of_a_file_may_not_be_empty() {
    for key in ["threads", "cache"] {
        let text = format!("modelname = 'mlp'\n{key} = []");
        let layers = Layers {
            file: Some(ConfigFile::parse(Path::new("job.toml"), &text).unwrap()),
            ..Layers::default()
        };
        let error = Planned::from_settings(&layers.merge().unwrap(), None, host()).unwrap_err();
        let start = format!("--{key} [] (job.toml:2): an empty list; give");
        assert!(error.to_string().starts_with(&start), "{error}");
    }
}

#[test]
fn an_input_has_one_shape() {
    let message = plan(&[("modelname", "mlp"), ("input", "x:1x2"), ("input", "x:1x3")])
        .unwrap_err()
        .to_string();
    assert!(message.contains("another shape already"), "{message}");
}

#[test]
fn what_is_compiled_only_is_compiled_once_for_each_architecture() {
    let cuda = |more: &[(&'static str, &'static str)]| {
        let settings = [&[("modelname", "resnet-18")], more].concat();
        plan(&settings)
    };
    let compiled = |more: &[(&'static str, &'static str)]| {
        cuda(&[&[("target", "cuda"), ("compile-only", "true")], more].concat())
    };
    let planned = compiled(&[("arch", "sm_80,sm_90"), ("cache", "hot,flushed")]).unwrap();
    let targets: Vec<String> = planned.plan.targets().map(ToString::to_string).collect();
    assert_eq!(targets, ["cuda -arch=sm_80", "cuda -arch=sm_90"]);
    assert_eq!(planned.plan.threads, [1]);
    assert_eq!(planned.plan.cache_states, [CacheState::Hot]);
    assert_eq!(planned.plan.whole_model, WholeModel::Skip);
    let refused = |more: &[(&'static str, &'static str)]| compiled(more).unwrap_err().to_string();
    insta::assert_snapshot!(
        [
            refused(&[("whole-model", "measure")]),
            refused(&[("threads", "2")]),
            refused(&[("arch", "sm_80,sm_70")]),
            cuda(&[("target", "cuda"), ("arch", "sm_90,sm_80")]).unwrap_err().to_string(),
            cuda(&[("target", "cuda -arch=sm_80"), ("arch", "sm_90")]).unwrap_err().to_string(),
        ]
        .join("\n"),
        @r#"
    --whole-model measure (command line): nothing is run with --compile-only; leave it out
    --threads 2 (command line): kernels of cuda run on none of this machine's threads; leave it out; the threads of a block are a factor of the schedule
    --arch sm_70 (command line): there is no architecture `sm_70` here (did you mean sm_75 or sm_80 or sm_87?); they are sm_75, sm_80, sm_86, sm_87, sm_88, sm_89, sm_90, sm_100, sm_103, sm_110, sm_120, sm_121
    --arch sm_90,sm_80 (command line): a device has one architecture; give one, or add --compile-only to compile for several
    --arch sm_90 (command line): --target names another architecture; name it once
    "#
    );
}
