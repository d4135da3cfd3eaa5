//! Other machines over TVM's RPC: a stock tracker and stock servers beside `serve-device`, a stock client, lost servers, and
//! peers that mean ill. All of them are processes of this machine on loopback.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use e2e::{Bench, Group, StandInGpu, Started, installed, relu};
use opdata::{CacheState, Status, read_rows};
use serde_json::Value;

/// Longest wait for a process to do what it is for.
const PATIENCE: Duration = Duration::from_secs(60);

fn python() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../.venv/bin/python"))
}

/// A port that nobody listens at.
fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap().port()
}

/// TVM's own tracker.
fn tracker(port: u16) -> Group {
    let mut command = Command::new(python());
    command.args(["-m", "tvm.exec.rpc_tracker", "--host", "127.0.0.1"]);
    command.args([
        "--port",
        &port.to_string(),
        "--port-end",
        &(port + 1).to_string(),
    ]);
    command.stdout(Stdio::null()).stderr(Stdio::null());
    let process = Group::start(command);
    wait_until("the tracker starts", || {
        TcpStream::connect(("127.0.0.1", port)).is_ok()
    });
    process
}

/// TVM's own server.
fn stock_server(tracker: u16, key: &str) -> Group {
    stock_server_around(tracker, key, |command| command)
}

/// The same with its command changed.
fn stock_server_around(tracker: u16, key: &str, around: impl FnOnce(Command) -> Command) -> Group {
    let port = free_port();
    let mut command = Command::new(python());
    command.args([
        "-m",
        "tvm.exec.rpc_server",
        "--host",
        "127.0.0.1",
        "--key",
        key,
    ]);
    command.args([
        "--port",
        &port.to_string(),
        "--port-end",
        &(port + 1).to_string(),
    ]);
    command.args(["--tracker", &format!("127.0.0.1:{tracker}")]);
    command.stdout(Stdio::null()).stderr(Stdio::null());
    Group::start(around(command))
}

/// `serve-device`, and where it listens.
struct Own {
    started: Started,
    address: String,
}

impl Own {
    fn start(bench: &Bench, args: &[&str]) -> Own {
        Own::start_around(bench, args, |command| command)
    }

    /// The same with its command changed.
    fn start_around(bench: &Bench, args: &[&str], around: impl FnOnce(Command) -> Command) -> Own {
        let command = around(bench.command([&["serve-device"], args].concat()));
        let mut own = Own {
            started: Bench::start_command(command),
            address: String::new(),
        };
        let said = own.wait_for(" at 127.0.0.1:");
        own.address = said.rsplit(' ').next().unwrap().to_owned();
        own
    }

    /// The next line of its log that holds this.
    fn wait_for(&mut self, text: &str) -> String {
        self.started.wait_for_lines(text, 1).pop().unwrap()
    }

    fn port(&self) -> String {
        self.address.rsplit(':').next().unwrap().to_owned()
    }
}

/// How many servers of a key the tracker has.
fn servers(bench: &Bench, tracker: u16, key: &str) -> usize {
    let listed = bench.run(&[
        "list",
        "devices",
        "--json",
        "--host",
        "127.0.0.1",
        "--port",
        &tracker.to_string(),
    ]);
    let json: Value = serde_json::from_str(listed.done()).unwrap();
    let keys = json.as_array().unwrap().iter();
    let own = keys.filter(|entry| entry["key"] == key);
    own.map(|entry| entry["servers"].as_array().unwrap().len())
        .sum()
}

fn wait_for_servers(bench: &Bench, tracker: u16, key: &str, count: usize) {
    wait_until(&format!("{count} servers of {key} register"), || {
        servers(bench, tracker, key) >= count
    });
}

fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let start = Instant::now();
    while !is_so() {
        assert!(start.elapsed() < PATIENCE, "this never happens: {what}");
        std::thread::sleep(Duration::from_millis(200));
    }
}

#[test]
fn stock_servers_and_ours_measure_a_model_at_once_and_a_stock_client_is_served() {
    if !installed::has_packages("tornado", "other machines over RPC") {
        return;
    }
    let bench = Bench::new();
    let port = free_port();
    let _tracker = tracker(port);
    let at = port.to_string();
    let _stock = [stock_server(port, "mixed"), stock_server(port, "mixed")];
    let tracker_address = format!("127.0.0.1:{port}");
    let mut own = Own::start(&bench, &["--tracker", &tracker_address, "--key", "mixed"]);
    wait_for_servers(&bench, port, "mixed", 3);
    let remote = ["--host", "127.0.0.1", "--port", &at, "--key", "mixed"];
    let run = [
        &[
            "--modelname",
            "mlp",
            "--cache",
            "hot,flushed",
            "--out",
            "run",
        ],
        &remote[..],
    ]
    .concat();
    let outcome = bench.measure(&run);
    assert!(
        outcome
            .done()
            .contains("the model's output was checked against"),
        "{}",
        outcome.done()
    );
    let rows = read_rows(&bench.path().join("run/rows.csv")).unwrap();
    assert!(
        rows.iter().all(|row| row.status == Status::Measured),
        "{}",
        outcome.stdout
    );
    assert!(rows.iter().all(|row| row.server.is_some()));
    own.wait_for("ended by the client");
    // Facts of ours alone, and a person's view of them.
    let tracker = ["--tracker", &tracker_address, "--key", "own"];
    let mut alone = Own::start(&bench, &tracker);
    wait_for_servers(&bench, port, "own", 1);
    // A listing asks a free server, which is busy for a moment then: the next listing may find none free.
    wait_until("the table has the machine of the free server", || {
        let listed = bench.run(&["list", "devices", "--host", "127.0.0.1", "--port", &at]);
        let mut lines = listed.done().lines();
        let line = lines.find(|line| line.starts_with("own ")).unwrap();
        line.contains(std::env::consts::ARCH)
    });
    let doctor = bench.run(&[
        "doctor",
        "--host",
        "127.0.0.1",
        "--port",
        &at,
        "--key",
        "nobody",
    ]);
    assert!(
        doctor
            .stdout
            .contains("has no server of the key nobody: it has mixed, own"),
        "{}",
        doctor.stdout
    );
    alone.wait_for("ended by the client");
    let script = bench.file("client.py", CLIENT);
    let stock = Command::new(python())
        .arg(script)
        .arg(&at)
        .current_dir(bench.path())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&stock.stdout);
    assert!(
        stock.status.success(),
        "{said}{}",
        String::from_utf8_lossy(&stock.stderr)
    );
    assert_eq!(
        said.trim(),
        "[1.0, 2.0, 3.0, 4.0]\nrefused ../x.so\nrefused /etc/passwd"
    );
}

/// A client as TVM's own documentation writes one.
const CLIENT: &str = "
import sys
import numpy as np
import tvm
from tvm import rpc, te

session = rpc.connect_tracker('127.0.0.1', int(sys.argv[1])).request('own', session_timeout=30)
a = te.placeholder((4,), name='a')
function = te.create_prim_func([a, te.compute((4,), lambda i: a[i] + 1)])
tvm.compile(function, target='llvm').export_library('add.so')
session.upload('add.so')
module = session.load_module('add.so')
device = session.cpu(0)
x = tvm.runtime.tensor(np.arange(4, dtype='float32'), device)
y = tvm.runtime.tensor(np.zeros(4, dtype='float32'), device)
module['main'](x, y)
assert module.time_evaluator('main', device, number=3)(x, y).mean > 0
print([float(v) for v in y.numpy()])
for name in ('../x.so', '/etc/passwd'):
    try:
        session.load_module(name)
        print('LOADED', name)
    except Exception as error:
        assert 'leads out of' in str(error), error
        print('refused', name)
";

#[test]
fn the_simulated_accelerator_of_another_machine_says_what_that_of_this_one_does() {
    let bench = Bench::new();
    let own = Own::start(&bench, &["--key", "vta"]);
    let job = |out: &'static str, more: &[&'static str]| {
        let args = ["--modelname", "mlp", "--target", "pynq", "--out", out];
        let said = bench.run(&[&args[..], more].concat());
        said.done();
        read_rows(&bench.path().join(out).join("rows.csv")).unwrap()
    };
    let port: &'static str = own.port().leak();
    let there = job(
        "there",
        &["--host", "127.0.0.1", "--port", port, "--key", "vta"],
    );
    let here = job("here", &[]);
    assert!(there.iter().any(|row| row.status == Status::Simulated));
    for (there, here) in there.iter().zip(&here) {
        assert_eq!(
            (there.status, there.time_median_ns),
            (here.status, here.time_median_ns)
        );
        // What runs on the CPU side alone is simulated nowhere.
        let is_simulated = there.status == Status::Simulated;
        assert_eq!(
            (there.server.is_some(), &here.server),
            (is_simulated, &None)
        );
    }
}

#[test]
fn a_gpu_behind_stock_and_own_servers_is_measured_and_an_unlike_one_refused() {
    if !installed::has_packages("tornado", "a GPU of another machine") {
        return;
    }
    let Some(gpu) = StandInGpu::new() else {
        return;
    };
    let bench = Bench::new();
    bench.file("relu.onnx", relu(&[64, 1024]));
    let port = free_port();
    let _tracker = tracker(port);
    let _stock = stock_server_around(port, "stock", |command| gpu.around(command, &[]));
    let tracker_address = format!("127.0.0.1:{port}");
    let args = ["--tracker", &tracker_address, "--key", "own"];
    let _own = Own::start_around(&bench, &args, |command| gpu.around(command, &[]));
    wait_for_servers(&bench, port, "stock", 1);
    wait_for_servers(&bench, port, "own", 1);
    let at = port.to_string();
    let run = |key: &str, target: &str, out: &str| {
        let model = ["--modelsource", "onnx", "--modelname", "relu.onnx"];
        let job = ["--target", target, "--out", out, "--budget", "5ms"];
        let remote = ["--host", "127.0.0.1", "--port", &at, "--key", key];
        bench.run(&[&model[..], &job, &remote].concat())
    };
    for key in ["stock", "own"] {
        let said = run(key, "cuda -arch=sm_80", key);
        let text = said.done();
        assert!(
            text.contains(&format!("the cuda device of {key}")),
            "{text}"
        );
        let rows = read_rows(&bench.path().join(key).join("rows.csv")).unwrap();
        for row in &rows {
            assert_eq!(
                (row.status, row.cache_state),
                (Status::Measured, Some(CacheState::Hot)),
                "{:?}",
                row.reason
            );
            assert!(row.server.is_some() && row.registers_per_thread.is_some());
            // Each of the stand-in's events lies a quarter of a millisecond after the one before.
            assert!(
                row.time_median_ns
                    .is_some_and(|ns| ns > 0.0 && ns <= 250_000.0)
            );
        }
        assert!(text.contains("the model's output was checked"), "{text}");
    }
    let unlike = run("own", "cuda -arch=sm_90", "unlike");
    let said = unlike.stdout.clone() + &unlike.stderr;
    assert!(
        said.contains("is sm_80 and runs no code for sm_90"),
        "{said}"
    );
    run("own", "cuda", "unknown").failed(2, &["-arch=sm_87"]);
}

#[test]
fn servers_that_are_killed_cost_no_point_and_double_none() {
    let bench = Bench::new();
    let port = free_port().to_string();
    let serve = |port: &str| Own::start(&bench, &["--key", "k", "--port", port]);
    let mut own = serve(&port);
    let run = [
        "--modelname",
        "mlp",
        "--sweep",
        "quick",
        "--cache",
        "hot,flushed",
        "--threads",
        "1",
        "--whole-model",
        "skip",
        "--max-failed",
        "100%",
        "--host",
        "127.0.0.1",
        "--port",
        &port,
        "--key",
        "k",
        "--out",
        "run",
    ];
    let mut run = bench.start(&run);
    for round in 0..3 {
        run.wait_for_lines(if round == 0 { "measure 3" } else { "measure" }, 1);
        drop(own);
        own = serve(&port);
    }
    let (code, said) = run.end();
    assert_eq!(code, Some(0), "{said}");
    let rows = read_rows(&bench.path().join("run/rows.csv")).unwrap();
    let names: std::collections::BTreeSet<_> = rows.iter().map(|row| &row.point_id).collect();
    assert_eq!(names.len(), rows.len());
    for row in &rows {
        let lost = row.reason.as_deref().unwrap_or_default();
        assert!(
            !lost.contains("connection") && row.status != Status::Crashed,
            "{lost}"
        );
    }
    let measured = rows
        .iter()
        .find(|row| row.status == Status::Measured)
        .unwrap();
    let replayed = bench.run(&["replay", &measured.row_id, "--run", "run"]);
    // A busy machine may be slower now, but it is the same one.
    assert!(
        replayed.stdout.contains("ratio") && !replayed.stdout.contains("another machine"),
        "{}{}",
        replayed.stdout,
        replayed.stderr
    );
    drop(own);
}

#[test]
fn a_server_outlives_clients_that_mean_ill() {
    let bench = Bench::new();
    let mut own = Own::start(&bench, &["--key", "k", "--session-timeout", "2s"]);
    let magic = 0x000F_F271_i32.to_le_bytes();
    let greeting = |key: &str| {
        [
            &magic[..],
            &(key.len() as i32).to_le_bytes(),
            key.as_bytes(),
        ]
        .concat()
    };
    let mut peer = |bytes: &[u8]| {
        let mut stream = TcpStream::connect(&own.address).unwrap();
        stream.write_all(bytes).unwrap();
        let said = own.wait_for("127.0.0.1:");
        (stream, said)
    };
    let refused: [(&[u8], &str); 5] = [
        (b"GET / HTTP/1.1\r\n\r\n", "refused: wrong magic number"),
        (
            &[magic, [0xff; 4]].concat(),
            "refused: a key of 4294967295 bytes",
        ),
        (&greeting("client:other"), "refused: another key"),
        (b"", "refused: silence"),
        (&greeting("client:k")[..10], "refused: silence"),
    ];
    for (bytes, reason) in refused {
        let (_stream, said) = peer(bytes);
        assert!(said.contains(reason), "{said}");
    }
    // Behind the greeting TVM's own protocol is spoken, in a process that may fail.
    for after in [
        &b"\xff\xff\xff\xff\xff\xff\xff\x7f garbage"[..],
        &[0; 64],
        b"",
    ] {
        let (mut stream, said) = peer(&[&greeting("client:k"), after].concat());
        assert!(said.contains("session of"), "{said}");
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        assert!(answer.starts_with(&magic), "{answer:?}");
    }
    let run = [
        "--modelname",
        "mlp",
        "--whole-model",
        "skip",
        "--host",
        "127.0.0.1",
        "--port",
        &own.port(),
        "--key",
        "k",
    ];
    bench
        .measure(
            &[
                &run[..],
                &["--out", "after", "--counters", "perf:page-faults"],
            ]
            .concat(),
        )
        .done();
    let rows = read_rows(&bench.path().join("after/rows.csv")).unwrap();
    let asked = |row: &opdata::Row| row.counters.is_some();
    assert!(
        rows.iter().all(asked),
        "counts of the server, or why there are none"
    );
    assert!(own.started.group.is_running());
}

#[test]
fn servers_that_mean_ill_are_refused_by_name() {
    let bench = Bench::new();
    let magic = 0x000F_F271_i32.to_le_bytes();
    let cases: [(Vec<u8>, &str); 5] = [
        (b"HTTP/1.1 400".to_vec(), "it greets with [48, 54, 54, 50]"),
        (
            [magic, [0xff, 0xff, 0xff, 0x7f]].concat(),
            "a key of 2147483647 bytes",
        ),
        ([magic, [0xff; 4]].concat(), "a key of -1 bytes"),
        (
            (0x000F_F273_i32).to_le_bytes().to_vec(),
            "it has another key",
        ),
        (Vec::new(), "silence"),
    ];
    for (answer, reason) in cases {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port().to_string();
        std::thread::spawn(move || {
            let mut held = Vec::new();
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                let mut magic = [0; 4];
                let _ = stream.read_exact(&mut magic);
                // To a tracker's client it is no tracker.
                if i32::from_le_bytes(magic) == 0x000F_F271 {
                    let _ = stream.write_all(&answer);
                    held.push(stream);
                }
            }
        });
        let run = [
            "--modelname",
            "mlp",
            "--host",
            "127.0.0.1",
            "--port",
            &port,
            "--key",
            "k",
        ];
        bench
            .run(&run)
            .failed(1, &["is not a server of the key k", reason]);
    }
}

#[test]
fn what_is_wrong_with_another_machine_is_said() {
    let bench = Bench::new();
    let port = free_port().to_string();
    let mlp = ["--modelname", "mlp", "--host", "127.0.0.1", "--port"];
    let cases: [(&[&str], i32, &str); 7] = [
        (&["0"], 2, "--port 0 (command line)"),
        (&["nine"], 2, "--port nine (command line)"),
        (
            &[&port, "--threads", "max"],
            2,
            "the cores of another machine are not known",
        ),
        (&[&port, "--cache", "model"], 2, "no such cache state"),
        (
            &[&port, "--target", "cuda"],
            2,
            "the architecture of another machine's GPU is not known here",
        ),
        (
            &[&port, "--compile-only"],
            2,
            "nothing is run with --compile-only",
        ),
        (
            &[&port, "--key", "k"],
            1,
            "no tracker answers at 127.0.0.1:",
        ),
    ];
    for (args, code, message) in cases {
        bench
            .run(&[&mlp[..], args].concat())
            .failed(code, &[message]);
    }
    bench
        .run(&["list", "devices", "--host", "127.0.0.1", "--port", &port])
        .failed(1, &["no tracker answers"]);
    bench
        .run(&["serve-device", "--key", "k", "--tracker", "nowhere"])
        .failed(2, &["is no HOST:PORT"]);
}
