//! The worker on real TVM and small operators of awkward shapes: every default schedule builds, computes what the
//! unscheduled operator computes, and is not a scalar loop nest; and what goes wrong is answered, not fatal.

use std::io::Cursor;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use opcollect::plan::TimingPolicy;
use opcollect::schedule::{Choice, Recipe};
use opcollect::stats::StopRule;
use opcollect::worker::protocol::{KernelSpec, MeasureSpec, Reply, Request, Setup};
use opcollect::worker::serve;
use opdata::CacheState;
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
        import: fixture(name),
        target: serde_json::json!({ "kind": "llvm", "mcpu": tvm_bridge::target::host_cpu().unwrap(), "num-cores": 2 }),
        max_threads: 2,
        seed: 3,
        model_weight_bytes: 1 << 20,
        max_statements: 8192,
        memory_limit_mib: 4096,
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
            budget_ns: 50_000_000,
        },
    }
}

fn specs(name: &str) -> Vec<KernelSpec> {
    let kernel = |(id, o): (usize, &opmodels::graph::Operator)| KernelSpec {
        id: id as u64,
        symbol: o.symbol.clone(),
        recipe: Recipe::Default,
        arguments: o.args.clone(),
        own_weights: true,
        reduction_length: o.reduction_length(),
    };
    graph(name)
        .operators
        .iter()
        .enumerate()
        .map(kernel)
        .collect()
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

/// Everything a worker answers to the requests, in order. The memory limit of a worker is for its whole process and
/// is not meant for the test's: the worker runs in a process of its own in the end-to-end tests.
fn answers(requests: &[Request]) -> Vec<Reply> {
    let lines: Vec<String> = requests
        .iter()
        .map(|r| serde_json::to_string(r).unwrap())
        .collect();
    let output = Output::default();
    serve(Cursor::new(lines.join("\n")), output.clone()).unwrap();
    let text = String::from_utf8(output.0.lock().unwrap().clone()).unwrap();
    text.lines()
        .map(|l| serde_json::from_str(l).unwrap())
        .collect()
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
                requests.push(Request::Measure(MeasureSpec {
                    id: kernel.id,
                    threads,
                    cache,
                    policy: policy(),
                    hopeless_beyond_ns: None,
                }));
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
                    assert!(m.drift >= 1.0);
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
    match choice {
        Choice::Contraction(knobs) => {
            assert!(knobs.vector_length > 1, "{name}: {knobs:?}");
            let tile: i64 = knobs.tile.iter().map(|t| t.1).product();
            let in_registers = tile * knobs.vector_blocks * knobs.vector_length;
            assert!(
                name.contains("pool") || in_registers >= 14,
                "{name}: {knobs:?}"
            );
        }
        Choice::Rows(_) | Choice::Spatial(_) => {
            assert!(
                ["softmax", "layer_norm", "elementwise"].contains(&name),
                "{name}: {choice:?}"
            );
        }
        Choice::Unscheduled => panic!("{name} got no schedule"),
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
    let measure = |id| {
        Request::Measure(MeasureSpec {
            id,
            threads: 1,
            cache: CacheState::Hot,
            policy: policy(),
            hopeless_beyond_ns: None,
        })
    };
    let requests = [
        Request::Setup(setup("dense")),
        Request::Build {
            kernels: vec![unknown],
            jobs: 1,
        },
        measure(9),
        Request::Build {
            kernels: specs("dense"),
            jobs: 1,
        },
        measure(0),
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
