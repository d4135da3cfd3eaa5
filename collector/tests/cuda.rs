//! Kernels for NVIDIA GPUs, compiled without one: every operator of awkward shape, for two architectures, with the
//! resources of its kernels. Also a compiler that does not end. Both need NVRTC and are left out where it is not
//! installed (`scripts/setup --with cuda`).

use std::io::Write as _;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use opdata::Status;
use opdata::contract::WorkerPolicy;
use opengine::device::{self, Purpose};
use opengine::interrupt::Interrupt;
use opengine::protocol::{ContentId, KernelSpec, Reuse, Setup};
use opengine::runner::{ChildRunners, Failure, Made, RunnerFactory, RunnerOrder};
use opengine::schedule::ScheduleSpec;
use opmodels::Graph;

const PROGRAM: &str = env!("CARGO_BIN_EXE_opcollect");
const SECOND: u64 = 1_000_000_000;

/// The toolkit that `scripts/setup --with cuda` installs; says so where there is none.
fn toolkit() -> Option<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../.venv/cuda/nvidia/cu13");
    if root.join("lib/libnvrtc.so.13").is_file() {
        return Some(root);
    }
    optestkit::skip(
        "compiling for CUDA",
        "NVRTC is not installed (scripts/setup --with cuda)",
    );
    None
}

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/fixtures")
        .join(name)
}

fn specs(name: &str) -> Vec<KernelSpec> {
    let graph = std::fs::read_to_string(fixture(name).join("graph.json")).unwrap();
    let graph: Graph = serde_json::from_str(&graph).unwrap();
    let operators = graph.operators.iter().enumerate();
    operators
        .map(|(id, operator)| KernelSpec {
            id: id as u64,
            symbol: operator.symbol.clone(),
            schedule_spec: ScheduleSpec::Default,
            arguments: operator.args.clone(),
            reuse: Reuse::default(),
            reduction_length: operator.reduction_length(),
        })
        .collect()
}

fn order(name: &str, arch: &str, keep: &Path) -> RunnerOrder {
    let policy = WorkerPolicy {
        compile_timeout_ns: 60 * SECOND,
        measure_timeout_ns: 60 * SECOND,
        max_statements: 8192,
        memory_limit_mib: 4096,
    };
    RunnerOrder {
        setup: Setup {
            module: ContentId::of_module(&fixture(name)).unwrap(),
            device: device::named("cuda").unwrap(),
            target: serde_json::json!({
                "kind": "cuda", "arch": arch, "max_threads_per_block": 1024, "thread_warp_size": 32,
                "max_shared_memory_per_block": 49152, "registers_per_block": 65536,
            }),
            max_threads: 1,
            seed: 3,
            max_statements: policy.max_statements,
            memory_limit_mib: policy.memory_limit_mib,
            counters: Default::default(),
            purpose: Purpose::Compile,
            compile_timeout_ns: policy.compile_timeout_ns,
            keep_kernels: Some(keep.to_owned()),
            unit: 0,
            remote: None,
            avoid: Vec::new(),
        },
        contents: fixture(name),
        policy,
        jobs: 2,
        units: vec![0],
        interrupt: Interrupt::default(),
    }
}

#[test]
fn operators_are_compiled_and_described_without_a_gpu() {
    if toolkit().is_none() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let program = PathBuf::from(PROGRAM);
    for (name, arch) in [
        ("conv2d_prime", "sm_80"),
        ("softmax", "sm_90"),
        ("elementwise", "sm_80"),
        ("batch_matmul_prime", "sm_90"),
    ] {
        let keep = folder.path().join(name);
        let log = folder.path().join("worker.log");
        let factory = ChildRunners {
            program: program.clone(),
        };
        let mut runner = factory.runner(order(name, arch, &keep), &log);
        let specs = specs(name);
        let mut results: Vec<Result<Made, Failure>> = Vec::new();
        runner.build(&specs, &mut |_, result| results.push(result));
        assert_eq!(results.len(), specs.len());
        for result in results {
            let Made::New(built) = result.unwrap() else {
                panic!("{name}: a duplicate")
            };
            assert!(!built.device_kernels.is_empty(), "{name}");
            for kernel in &built.device_kernels {
                let known = kernel.registers_per_thread.zip(kernel.code_bytes);
                assert!(known.is_some_and(|(r, c)| r > 0 && c > 0), "{kernel:?}");
                assert!(
                    kernel.occupancy.is_some_and(|o| o > 0.0 && o <= 1.0),
                    "{kernel:?}"
                );
                assert!(kernel.spill_bytes().is_some(), "{kernel:?}");
                assert!(kernel.instructions.contains_key("EXIT"), "{kernel:?}");
            }
        }
        let kept = std::fs::read_dir(&keep).unwrap().count();
        assert_eq!(kept, 2 * specs.len(), "a source and a cubin for each");
    }
}

#[test]
fn a_kernel_that_the_compiler_does_not_finish_ends_its_process_and_not_the_worker() {
    let Some(toolkit) = toolkit() else { return };
    // Thousands of dependent steps, each some hundred instructions, in one basic block.
    let steps = "x = pow(x, a[1]) + a[2];\n".repeat(4000);
    let source = format!(
        "extern \"C\" __global__ void k(double* a) {{ double x = a[0];\n{steps} a[3] = x; }}"
    );
    let request = serde_json::json!({ "arch": "sm_80", "source": source, "limit_s": 1 });
    let mut child = Command::new(PROGRAM)
        .args(["worker", "cuda"])
        .arg(toolkit)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let start = Instant::now();
    writeln!(child.stdin.as_ref().unwrap(), "{request}").unwrap();
    let status = child.wait().unwrap();
    assert_eq!(
        status.signal(),
        Some(14),
        "ended by its own alarm: {status}"
    );
    assert!(start.elapsed() < Duration::from_secs(30));
}

#[test]
fn a_schedule_that_is_no_kernel_is_refused_and_the_worker_goes_on() {
    if toolkit().is_none() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let factory = ChildRunners {
        program: PROGRAM.into(),
    };
    let log = folder.path().join("worker.log");
    let mut runner = factory.runner(order("elementwise", "sm_80", folder.path()), &log);
    let good = specs("elementwise").remove(0);
    let unscheduled = opengine::schedule::Choice::unscheduled();
    let bad = KernelSpec {
        id: 7,
        schedule_spec: ScheduleSpec::Template {
            choice: unscheduled,
        },
        ..good.clone()
    };
    let mut results = Vec::new();
    runner.build(&[bad, good], &mut |id, result| results.push((id, result)));
    results.sort_by_key(|(id, _)| *id);
    assert!(matches!(results[0], (0, Ok(Made::New(_)))));
    let (7, Err(failure)) = &results[1] else {
        panic!("{results:?}")
    };
    assert_eq!(failure.status, Status::CompileFailed);
    assert!(failure.reason.contains("no loop is bound"), "{failure:?}");
}

/// The main job for CUDA, measured; what it says before it ends.
fn measured(program: &Path, folder: &Path, libraries: Option<&Path>) -> String {
    let checkout = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut command = Command::new(program);
    command
        .args(["--modelname", "mlp", "--target", "cuda", "--out", "run"])
        .current_dir(folder)
        .env("OPBENCH_HOME", checkout)
        .env_remove("CUDA_HOME");
    if let Some(libraries) = libraries {
        command.env("LD_LIBRARY_PATH", libraries);
    }
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(!folder.join("run").exists(), "nothing is left behind");
    String::from_utf8(output.stderr).unwrap()
}

#[test]
fn without_a_gpu_the_message_says_what_is_missing_and_what_can_be_done() {
    if Path::new("/dev/nvidiactl").exists() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let message = measured(Path::new(PROGRAM), folder.path(), None);
    for part in ["no NVIDIA driver", "libcuda.so.1", "--compile-only"] {
        assert!(message.contains(part), "no '{part}' in {message}");
    }
}

#[test]
fn an_old_driver_and_one_without_gpus_differ_from_none() {
    let folder = tempfile::tempdir().unwrap();
    for (version, gpus, parts) in [
        (12_040, 1, ["CUDA 12.4", "580"]),
        (13_000, 0, ["finds no GPU", "--compile-only"]),
    ] {
        let libraries = folder.path().join(version.to_string());
        std::fs::create_dir(&libraries).unwrap();
        let source = libraries.join("driver.c");
        let text = format!(
            "int cuInit(unsigned f) {{ return 0; }} int cuDriverGetVersion(int* v) {{ *v = {version}; return 0; }}\n\
             int cuDeviceGetCount(int* n) {{ *n = {gpus}; return 0; }} int cuDeviceGet(int* d, int i) {{ *d = i; return 0; }}\n\
             int cuDeviceGetName(char* s, int n, int d) {{ s[0] = 'G'; return 0; }}\n\
             int cuDeviceGetPCIBusId(char* s, int n, int d) {{ s[0] = 0; return 0; }}\n\
             int cuDeviceGetAttribute(int* v, int a, int d) {{ *v = a == 75 ? 8 : 0; return 0; }}\n"
        );
        std::fs::write(&source, text).unwrap();
        let built = Command::new("cc")
            .args(["-shared", "-fPIC", "-o"])
            .arg(libraries.join("libcuda.so.1"))
            .arg(&source)
            .status();
        assert!(built.unwrap().success());
        let message = measured(Path::new(PROGRAM), folder.path(), Some(&libraries));
        for part in parts {
            assert!(message.contains(part), "no '{part}' in {message}");
        }
    }
}

#[test]
fn without_nvrtc_the_message_names_the_command_that_brings_it() {
    // An installation, and a program outside of the checkout, without a virtual environment.
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("opcollect");
    std::fs::copy(PROGRAM, &program).unwrap();
    let home = folder.path().join("home");
    std::fs::create_dir(&home).unwrap();
    let checkout = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    for part in ["models", "scripts", "configs"] {
        std::os::unix::fs::symlink(checkout.join(part), home.join(part)).unwrap();
    }
    if Path::new("/usr/local/cuda").exists() {
        return;
    }
    let output = Command::new(&program)
        .args(["--modelname", "mlp", "--target", "cuda", "--compile-only"])
        .current_dir(folder.path())
        .env("OPBENCH_HOME", home)
        .env_remove("CUDA_HOME")
        .output()
        .unwrap();
    let message = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{message}");
    for part in [
        "NVRTC",
        "not installed",
        "scripts/setup --with cuda",
        "97 MB",
    ] {
        assert!(message.contains(part), "no '{part}' in {message}");
    }
}

#[test]
fn the_main_job_compiles_for_several_architectures_with_rows_of_each() {
    if toolkit().is_none() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let checkout = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let output = Command::new(PROGRAM)
        .args([
            "--modelsource",
            "simple",
            "--modelname",
            "matmul:m=64,n=48,k=40",
        ])
        .args([
            "--target",
            "cuda",
            "--compile-only",
            "--arch",
            "sm_80,sm_90",
            "--json",
            "--out",
            "run",
        ])
        .current_dir(folder.path())
        .env("OPBENCH_HOME", checkout)
        .output()
        .unwrap();
    let (stdout, stderr) = (&output.stdout, String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{stderr}");
    let report: serde_json::Value = serde_json::from_slice(stdout).unwrap();
    assert_eq!(
        (&report["compiled"], &report["measured"]),
        (&2.into(), &0.into())
    );
    let rows = opdata::read_rows(&folder.path().join("run/rows.csv")).unwrap();
    let archs: Vec<&str> = rows
        .iter()
        .filter_map(|r| r.target_cpu.as_deref())
        .collect();
    assert_eq!(archs, ["sm_80", "sm_90"]);
    assert_ne!(rows[0].point_id, rows[1].point_id);
    for row in rows {
        assert_eq!((row.status, row.time_median_ns), (Status::Compiled, None));
        assert!(
            row.registers_per_thread
                .is_some_and(|registers| registers > 0)
        );
        assert!(
            row.occupancy
                .is_some_and(|share| share > 0.0 && share <= 1.0)
        );
        assert!(row.instruction_mix.is_some() && row.reason.is_none());
    }
}
