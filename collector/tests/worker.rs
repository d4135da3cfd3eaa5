//! The worker on real TVM and small operators of awkward shapes. Every default schedule builds, computes what the
//! unscheduled operator computes, and is not a scalar loop nest. Failures are answered, not fatal.

use std::io::Cursor;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use opcollect::sweep::{Sweep, SweepFile, schedule_specs};
use opdata::CacheState;
use opengine::device::cpu::Knobs;
use opengine::device::{self, Conditions, Purpose};
use opengine::measure::TimingPolicy;
use opengine::protocol::{
    ContentId, Contents, Counting, KernelSpec, MeasureSpec, QuietMoment, Reply, Request, Reuse,
    Setup, WholeModelSpec,
};
use opengine::schedule::{Choice, ScheduleSpec};
use opengine::stats::StopRule;
use opengine::worker::serve;
use opmodels::Graph;

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/fixtures")
        .join(name)
}

fn graph(name: &str) -> Graph {
    serde_json::from_str(&std::fs::read_to_string(fixture(name).join("graph.json")).unwrap())
        .unwrap()
}

fn setup(name: &str) -> Setup {
    Setup {
        module: ContentId::of_module(&fixture(name)).unwrap(),
        device: device::HOST,
        target: serde_json::json!({ "kind": "llvm", "mcpu": tvm_bridge::target::host_cpu().unwrap(), "num-cores": 2 }),
        max_threads: 2,
        seed: 3,
        max_statements: 8192,
        memory_limit_mib: 4096,
        counters: Default::default(),
        purpose: Purpose::Measure,
        compile_timeout_ns: 60_000_000_000,
        keep_kernels: None,
        unit: 0,
        remote: None,
        avoid: Vec::new(),
    }
}

fn policy() -> TimingPolicy {
    TimingPolicy {
        warmup: 1,
        number: None,
        stop: StopRule {
            ci_target: 1.0,
            min_samples: 6,
            max_samples: 6,
            // Not reached, also where other work takes the cores.
            budget_ns: 1_000_000_000,
        },
    }
}

fn specs(name: &str) -> Vec<KernelSpec> {
    let kernel = |(id, o): (usize, &opmodels::graph::Operator)| KernelSpec {
        id: id as u64,
        symbol: o.symbol.clone(),
        schedule_spec: ScheduleSpec::Default,
        arguments: o.args.clone(),
        reuse: Reuse {
            inputs: 0,
            weights: 1 << 20,
            outputs: 1 << 18,
        },
        reduction_length: o.reduction_length(),
    };
    graph(name)
        .operators
        .iter()
        .enumerate()
        .map(kernel)
        .collect()
}

fn measure(id: u64, at: Conditions, quiet: QuietMoment) -> Request {
    Request::Measure(MeasureSpec {
        id,
        at,
        policy: policy(),
        prune_beyond_ns: None,
        quiet,
    })
}

#[derive(Clone, Default)]
struct Output(Arc<Mutex<Vec<u8>>>);

impl std::io::Write for Output {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }
    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// Everything a worker answers to the requests, in order. The memory limit of a worker is for its whole process,
/// and must not bind the test's. In the end-to-end tests the worker runs in a process of its own.
fn answers(requests: &[Request]) -> Vec<Reply> {
    let lines: Vec<String> = requests
        .iter()
        .map(|r| serde_json::to_string(r).unwrap())
        .collect();
    let output = Output::default();
    let contents = Contents::in_folder(folder_of(&requests[0]));
    serve(Cursor::new(lines.join("\n")), output.clone(), contents).unwrap();
    let text = String::from_utf8(output.0.lock().unwrap().clone()).unwrap();
    text.lines()
        .map(|l| serde_json::from_str(l).unwrap())
        .collect()
}

/// The fixture whose module a setup names.
fn folder_of(request: &Request) -> PathBuf {
    let Request::Setup(setup) = request else {
        panic!("{request:?} is no setup")
    };
    let mut folders = std::fs::read_dir(fixture(""))
        .unwrap()
        .map(|e| e.unwrap().path());
    let is_meant =
        |folder: &PathBuf| ContentId::of_module(folder).is_ok_and(|id| id == setup.module);
    folders.find(is_meant).expect("a fixture with this module")
}

const OPERATORS: [&str; 11] = [
    "conv2d_prime",
    "conv2d_strided",
    "conv2d_grouped",
    "depthwise",
    "depthwise_strided",
    "dense",
    "batch_matmul_prime",
    "max_pool_strided",
    "softmax",
    "layer_norm",
    "elementwise",
];

#[test]
fn every_operator_is_built_right_and_measured_in_every_state() {
    for name in OPERATORS {
        let kernels = specs(name);
        let mut requests = vec![
            Request::Setup(setup(name)),
            Request::Build {
                kernels: kernels.clone(),
                jobs: 2,
            },
        ];
        for kernel in &kernels {
            for (threads, cache) in [
                (1, CacheState::Model),
                (2, CacheState::Hot),
                (2, CacheState::Flushed),
            ] {
                requests.push(measure(
                    kernel.id,
                    Conditions::new(threads, cache),
                    QuietMoment::Ignored,
                ));
            }
        }
        let mut measured = 0;
        for reply in answers(&requests) {
            match reply {
                Reply::Built(built) => check_choice(name, &built.choice),
                Reply::Measured(m) => {
                    assert!(
                        m.comparison.agrees(),
                        "{name}: {:?}",
                        m.comparison.complaint()
                    );
                    assert!(m.slowdown >= 1.0);
                    assert_eq!(m.taken.unwrap().samples.len(), 6);
                    measured += 1;
                }
                Reply::Refused { reason, .. } => panic!("{name}: {reason}"),
                _ => {}
            }
        }
        assert_eq!(measured, 3 * kernels.len(), "{name}");
    }
}

/// Contractions are tiled and vectorised; nothing is left as the operator library wrote it.
fn check_choice(name: &str, choice: &Choice) {
    match Knobs::of(choice) {
        Ok(Knobs::Contraction(knobs)) => {
            assert!(knobs.vector_length > 1, "{name}: {knobs:?}");
            let tile: i64 = knobs.tile.iter().map(|t| t.1).product();
            let in_registers = tile * knobs.vector_blocks * knobs.vector_length;
            assert!(
                name.contains("pool") || in_registers >= 14,
                "{name}: {knobs:?}"
            );
        }
        Ok(
            Knobs::Rows(_)
            | Knobs::Partial(_)
            | Knobs::Spatial(_)
            | Knobs::Dot(_)
            | Knobs::Convolution(_),
        ) => {
            assert!(
                ["softmax", "layer_norm", "elementwise"].contains(&name),
                "{name}: {choice:?}"
            );
        }
        Err(_) => {
            panic!("{name} got no default schedule")
        }
    }
}

#[test]
fn the_same_seed_gives_the_same_schedule_and_program() {
    let built = || {
        let requests = [
            Request::Setup(setup("conv2d_prime")),
            Request::Build {
                kernels: specs("conv2d_prime"),
                jobs: 1,
            },
        ];
        answers(&requests).into_iter().find_map(|r| match r {
            Reply::Built(built) => Some((built.program_hash, built.trace, built.choice)),
            _ => None,
        })
    };
    assert!(built().is_some());
    assert_eq!(built(), built());
}

#[test]
fn what_cannot_be_done_is_refused_with_a_reason_and_the_worker_goes_on() {
    let mut unknown = specs("dense").remove(0);
    unknown.symbol = "no_such_function".to_owned();
    unknown.id = 9;
    let at = Conditions::new(1, CacheState::Hot);
    let requests = [
        Request::Setup(setup("dense")),
        Request::Build {
            kernels: vec![unknown],
            jobs: 1,
        },
        measure(9, at.clone(), QuietMoment::Ignored),
        Request::Build {
            kernels: specs("dense"),
            jobs: 1,
        },
        measure(0, at, QuietMoment::Ignored),
    ];
    let replies = answers(&requests);
    let refused: Vec<_> = replies
        .iter()
        .filter_map(|r| {
            if let Reply::Refused { id, reason, .. } = r {
                Some((*id, reason))
            } else {
                None
            }
        })
        .collect();
    assert_eq!(refused.len(), 2, "{replies:?}");
    assert!(
        refused
            .iter()
            .all(|(id, reason)| *id == Some(9) && reason.lines().count() == 1)
    );
    assert!(
        matches!(replies.last(), Some(Reply::Measured(_))),
        "{replies:?}"
    );
}

#[test]
fn what_has_a_result_is_not_measured_again_on_a_disturbed_device() {
    // On seven threads the scripted device always reports a slowdown of 2, and of 4 after a wait for a quiet moment.
    let mut requests = vec![
        Request::Setup(Setup {
            device: device::named("scripted").unwrap(),
            target: serde_json::json!({ "kind": "llvm" }),
            ..setup("elementwise")
        }),
        Request::Build {
            kernels: specs("elementwise"),
            jobs: 1,
        },
        Request::BuildWholeModel(Box::new(WholeModelSpec {
            graph: graph("elementwise"),
            jobs: 1,
            schedules: Default::default(),
            export: None,
            watch_tasks: false,
        })),
    ];
    let disturbed = Conditions::new(7, CacheState::Hot);
    requests.push(measure(0, disturbed, QuietMoment::Preferred));
    for (threads, quiet) in [
        (7, QuietMoment::Ignored),
        (7, QuietMoment::Required),
        (1, QuietMoment::Required),
    ] {
        let at = Conditions::new(threads, CacheState::Hot);
        let again = quiet == QuietMoment::Required;
        requests.push(measure(0, at.clone(), quiet));
        requests.push(Request::MeasureWholeModel {
            at,
            policy: policy(),
            counting: Counting::Quiet { again },
        });
    }
    let replies = answers(&requests);
    let slowdowns: Vec<Option<f64>> = replies
        .iter()
        .filter_map(|reply| match reply {
            Reply::Measured(measured) => Some(Some(measured.slowdown)),
            Reply::WholeModelMeasured(measured) => Some(Some(measured.slowdown)),
            Reply::Refused { reason, .. } => {
                assert!(reason.contains("4.00 times its idle time"), "{reason}");
                Some(None)
            }
            _ => None,
        })
        .collect();
    let [alone, point, model, again @ ..] = &slowdowns[..] else {
        panic!("{replies:?}");
    };
    assert_eq!(*alone, Some(4.0), "a point without a second attempt waits");
    assert_eq!(*point, Some(2.0), "a first result does not wait");
    assert!(model.is_some());
    assert_eq!(again, [None, None, Some(1.0), Some(1.0)]);
}

/// The sweep of all factors that a file of this text names.
fn sweep(text: &str) -> Sweep {
    SweepFile::parse(Path::new("test.toml"), text)
        .unwrap()
        .sweep
}

const EVERY_FACTOR: &str = "space = 'template'\ndraw = 'sobol'\nschedules = 8\n[vary]\ntile = 'all'\n\
    cache-tile = 'all'\nreduction-tile = 'all'\nvector-length = 'all'\nvector-blocks = 'all'\n\
    loop-order = 'all'\nlevel-order = 'all'\nfuse = 'all'\nparallel-extent = 'all'\nunroll = 'all'\n\
    compute-at = 'all'\npadding = 'all'\ncache-write = 'all'\n";

/// Builds and measures kernels of one fixture; the outputs of all that were built must be right.
fn built_and_right(name: &str, kernels: Vec<KernelSpec>) -> usize {
    let ids: Vec<u64> = kernels.iter().map(|k| k.id).collect();
    let mut requests = vec![
        Request::Setup(setup(name)),
        Request::Build { kernels, jobs: 2 },
    ];
    let at = Conditions::new(2, CacheState::Hot);
    requests.extend(
        ids.iter()
            .map(|&id| measure(id, at.clone(), QuietMoment::Ignored)),
    );
    let mut right = 0;
    for reply in answers(&requests) {
        if let Reply::Measured(measured) = reply {
            let complaint = measured.comparison.complaint();
            assert_eq!(complaint, None, "{name}, kernel {}", measured.id);
            right += 1;
        }
    }
    right
}

#[test]
fn what_the_spaces_offer_computes_what_the_operator_computes() {
    for name in OPERATORS {
        let symbols: Vec<String> = specs(name).iter().map(|k| k.symbol.clone()).collect();
        let described = answers(&[Request::Setup(setup(name)), Request::Spaces { symbols }]);
        let Some(Reply::Spaces { spaces }) = described.last() else {
            panic!("{name}: {described:?}");
        };
        let template = sweep(EVERY_FACTOR);
        let sampled = sweep("space = 'metaschedule'\nschedules = 3\n");
        let mut kernels = Vec::new();
        for (spec, space) in specs(name).iter().zip(spaces) {
            let drawn = [(&template, 8), (&sampled, 3)].map(|(sweep, schedules)| {
                schedule_specs(device::HOST, sweep, space, schedules, 5).schedule_specs
            });
            for schedule_spec in drawn.into_iter().flatten() {
                let id = kernels.len() as u64;
                kernels.push(KernelSpec {
                    id,
                    schedule_spec,
                    ..spec.clone()
                });
            }
        }
        let asked = kernels.len();
        let right = built_and_right(name, kernels);
        assert!(
            2 * right > asked,
            "{name}: only {right} of {asked} were built"
        );
    }
}

#[test]
fn equal_programs_are_built_once_and_large_ones_not_at_all() {
    let spec = specs("dense").remove(0);
    let twice = [0, 1].map(|id| KernelSpec { id, ..spec.clone() });
    let replies = answers(&[
        Request::Setup(setup("dense")),
        Request::Build {
            kernels: twice.to_vec(),
            jobs: 1,
        },
    ]);
    let is_twin = |r: &Reply| matches!(r, Reply::Duplicate { id: 1, of: 0 });
    assert!(replies.iter().any(is_twin), "{replies:?}");

    let small = Setup {
        max_statements: 3,
        ..setup("dense")
    };
    let replies = answers(&[
        Request::Setup(small),
        Request::Build {
            kernels: vec![spec],
            jobs: 1,
        },
    ]);
    let is_refused = |r: &Reply| matches!(r, Reply::Refused { status: opdata::Status::Skipped, reason, .. } if reason.contains("more than 3 statements"));
    assert!(replies.iter().any(is_refused), "{replies:?}");
}

#[test]
fn the_trace_of_every_default_schedule_rebuilds_its_program() {
    for name in OPERATORS {
        let build = |kernels: Vec<KernelSpec>| -> Vec<(u64, serde_json::Value)> {
            let requests = [
                Request::Setup(setup(name)),
                Request::Build { kernels, jobs: 1 },
            ];
            let built = |reply| match reply {
                Reply::Built(built) => Some((built.program_hash, built.trace)),
                Reply::Refused { reason, .. } => panic!("{name}: {reason}"),
                _ => None,
            };
            answers(&requests).into_iter().filter_map(built).collect()
        };
        let first = build(specs(name));
        let recorded = specs(name)
            .into_iter()
            .zip(&first)
            .map(|(spec, (_, trace))| {
                let trace = trace.clone();
                let schedule_spec = ScheduleSpec::Trace { trace };
                KernelSpec {
                    schedule_spec,
                    ..spec
                }
            });
        let hashes = |built: &[(u64, _)]| built.iter().map(|b| b.0).collect::<Vec<_>>();
        let again = build(recorded.collect());
        assert_eq!(hashes(&again), hashes(&first), "{name}");
    }
}
