//! A whole model on a device whose kernels are emulated. Its tensors lie on the device, its kernels are the device's,
//! and it is checked against the host. Left out where there is no C++ compiler.

use std::cell::OnceCell;
use std::path::{Path, PathBuf};

use opmodels::Graph;
use serde_json::json;

use super::*;
use crate::device::emulation::{self, EmulatedGpu};
use crate::device::{self, Purpose, Session};
use crate::protocol::{Contents, KernelSpec, Setup};
use crate::schedule::Scheduler;
use crate::worker::build::Builder;

fn fixture(name: &str) -> PathBuf {
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../collector/tests/fixtures");
    fixtures.join(name)
}

fn shared(name: &str) -> Shared {
    let import = fixture(name);
    let session = EmulatedGpu::open().unwrap();
    let target = session.target().clone();
    let module = std::fs::read_to_string(import.join("module.json")).unwrap();
    Shared {
        setup: Setup {
            module: Default::default(),
            device: device::named("cuda").unwrap(),
            target: json!({}),
            max_threads: 1,
            seed: 3,
            max_statements: 8192,
            memory_limit_mib: 4096,
            counters: Default::default(),
            purpose: Purpose::Measure,
            compile_timeout_ns: 1_000_000_000,
            keep_kernels: None,
            unit: 0,
            remote: None,
            avoid: Vec::new(),
        },
        contents: Contents::in_folder(&import),
        module: IrModule::from_json(&module).unwrap(),
        scheduler: Scheduler::new(session.templates(), target.clone(), 3),
        target,
        session: Box::new(session),
        plain: OnceCell::new(),
        kernels: Default::default(),
    }
}

#[test]
fn a_model_runs_where_its_device_is_and_is_checked_on_the_host() {
    if !emulation::is_possible() {
        return;
    }
    let mut shared = shared("softmax");
    let graph = std::fs::read_to_string(fixture("softmax").join("graph.json")).unwrap();
    let graph: Graph = serde_json::from_str(&graph).unwrap();
    let symbol = graph.operators[0].symbol.clone();
    let spec = WholeModelSpec {
        graph,
        jobs: 1,
        schedules: Default::default(),
        export: None,
        watch_tasks: false,
    };
    let (ready, model) = LoadedModel::build(&shared, spec.clone()).unwrap();
    assert!(ready.comparison.agrees(), "{:?}", ready.comparison);
    assert_eq!(ready.checked_against, "the model run in plain loops");
    let outputs = model.machine.outputs("main").unwrap();
    assert_eq!(outputs[0].device(), shared.session.tensors());

    let policy = TimingPolicy {
        warmup: 0,
        number: Some(1),
        stop: opdata::contract::StopRule {
            ci_target: 1.0,
            min_samples: 1,
            max_samples: 2,
            budget_ns: 1_000_000,
        },
    };
    let at = Conditions::new(1, opdata::CacheState::Model);
    for counting in [Counting::All, Counting::Quiet { again: false }] {
        let measured = model.measure(&mut shared, &at, policy, counting).unwrap();
        let [operator] = &measured.operators[..] else {
            panic!("{:?}", measured.operators)
        };
        assert_eq!((&operator.symbol, operator.calls), (&symbol, 1));
        assert!(operator.median_ns > 0.0);
        assert!(measured.instrumented_sum_ns <= measured.instrumented_total_ns);
    }

    // The functions of the plain model compute the expected outputs of its operators.
    let operator = KernelSpec {
        id: 0,
        symbol,
        schedule_spec: ScheduleSpec::Default,
        arguments: spec.graph.operators[0].args.clone(),
        reuse: Default::default(),
        reduction_length: 1,
    };
    let expected = &shared.plain.get().unwrap().outputs[0];
    let references = Builder::new().reference_of(&shared, &operator).unwrap();
    assert_eq!(references[0].bytes().unwrap(), expected.bytes().unwrap());

    // The plain loops run once: later builds are compared with their outputs.
    let wrong = Tensor::zeros(Device::cpu(), expected.shape(), expected.dtype()).unwrap();
    let (ready, _) = LoadedModel::build(&shared, spec.clone()).unwrap();
    assert!(ready.comparison.agrees(), "{:?}", ready.comparison);
    shared.plain = OnceCell::from(PlainModel {
        outputs: vec![wrong],
        functions: Vec::new(),
    });
    let (ready, _) = LoadedModel::build(&shared, spec).unwrap();
    assert!(!ready.comparison.agrees(), "{:?}", ready.comparison);
    assert!(Builder::new().reference_of(&shared, &operator).is_err());
}
