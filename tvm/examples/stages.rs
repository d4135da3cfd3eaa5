//! Prints what the stages from a schedule to a running kernel cost, for each of LLVM's two JIT engines.
//!
//! `cargo run --release -p tvm-bridge --example stages` (`.venv/bin` on PATH). The table in `docs/decisions.md` is this
//! program's output.

use std::time::{Duration, Instant};

use tvm_bridge::compile::{Asserts, compile};
use tvm_bridge::{Libraries, PrimFunc, Result, Schedule, StageTimes, Target};

const ROUNDS: usize = 15;

fn main() -> Result<()> {
    let start = Instant::now();
    Libraries::load()?;
    println!("load libraries  {:7.2} ms", ms(start.elapsed()));
    let json = include_str!("../tests/fixtures/conv2d_relu.json");
    let function = PrimFunc::from_json(json)?;
    let cpu = tvm_bridge::target::host_cpu()?;
    for jit in ["mcjit", "orcjit"] {
        for level in [2, 3] {
            let description = serde_json::json!({ "kind": "llvm", "mcpu": cpu, "num-cores": 2, "jit": jit, "opt-level": level });
            let target = Target::new(&description)?;
            let mut schedule_times = Vec::new();
            let mut stage_times = Vec::new();
            for _ in 0..ROUNDS {
                let start = Instant::now();
                let module = tiled(&function)?.module()?;
                schedule_times.push(start.elapsed());
                stage_times.push(compile(&module, &target, Asserts::Dropped)?.times);
            }
            let stage =
                |pick: fn(&StageTimes) -> Duration| median(stage_times.iter().map(pick).collect());
            println!(
                "{jit:7} O{level}  schedule {:6.2}  lower {:6.2}  codegen {:6.2}  jit {:6.2} ms",
                ms(median(schedule_times)),
                ms(stage(|t| t.lower)),
                ms(stage(|t| t.codegen)),
                ms(stage(|t| t.jit)),
            );
        }
    }
    Ok(())
}

fn tiled(function: &PrimFunc) -> Result<Schedule> {
    let s = Schedule::new(function, 7)?;
    s.compute_inline(&s.block("T_add")?)?;
    let conv = s.block("conv2d")?;
    s.set_scope(&conv, 0, "local")?;
    let l = s.loops(&conv)?;
    let f = s.split(&l[1], &[None, Some(16)])?;
    let x = s.split(&l[3], &[None, Some(7)])?;
    s.reorder(&[&f[0], &l[2], &x[0], &l[4], &l[5], &l[6], &x[1], &f[1]])?;
    s.reverse_compute_at(&s.block("relu").or_else(|_| s.block("compute"))?, &x[0])?;
    let outer = s.fuse(&[&f[0], &l[2]])?;
    s.parallel(&outer)?;
    s.unroll(&x[1])?;
    s.vectorize(&f[1])?;
    s.decompose_reduction(&conv, &l[4])?;
    Ok(s)
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort();
    times[times.len() / 2]
}

fn ms(d: Duration) -> f64 {
    d.as_secs_f64() * 1e3
}
