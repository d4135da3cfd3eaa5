//! `optorch`: runs a TorchScript model in libtorch and records its operators, for a parent that gives the orders.
//!
//! One order a line on standard input, one answer a line on standard output ([`optorch::protocol`]); ends with its input.

mod kineto;
mod model;

use std::io::{BufRead, Write};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use model::Model;
use optorch::protocol::{Answer, Cycle, Detail, Order, PROTOCOL, RecordSpec};

/// Fewest and most pairs of runs without and with the profiler.
const PAIRS: (usize, usize) = (10, 500);

fn main() -> anyhow::Result<()> {
    let mut model = None;
    for line in std::io::stdin().lock().lines() {
        let order = serde_json::from_str(&line?).context("an order that cannot be read");
        let answer = order.and_then(|order| carry_out(order, &mut model));
        let answer = answer.unwrap_or_else(|error| Answer::Failed {
            message: format!("{error:#}"),
        });
        let mut out = std::io::stdout().lock();
        writeln!(out, "{}", serde_json::to_string(&answer)?)?;
        out.flush()?;
    }
    Ok(())
}

fn carry_out(order: Order, loaded: &mut Option<Model>) -> anyhow::Result<Answer> {
    if let Order::Load(load) = order {
        let model = Model::load(&load)?;
        let error = model.error(&load)?;
        *loaded = Some(model);
        return Ok(Answer::Loaded {
            protocol: PROTOCOL,
            error,
            version: kineto::version(),
        });
    }
    let model = loaded.as_ref().context("no model is loaded")?;
    match order {
        Order::Load(_) => anyhow::bail!("a model is loaded already"),
        Order::Run { runs } => {
            let ns = (0..runs).map(|_| timed(model));
            Ok(Answer::Ran {
                ns: ns.collect::<anyhow::Result<_>>()?,
            })
        }
        Order::Record(asked) => Ok(Answer::Recorded(record(model, &asked)?)),
        Order::Pairs { budget_ns } => Ok(Answer::Pairs {
            pairs: pairs(model, Duration::from_nanos(budget_ns))?,
        }),
    }
}

/// Time of one run in nanoseconds.
fn timed(model: &Model) -> anyhow::Result<u64> {
    let begun = Instant::now();
    let result = model.run()?;
    let ns = begun.elapsed().as_nanos() as u64;
    // Freeing the outputs is not part of the run.
    drop(result);
    Ok(ns)
}

fn record(model: &Model, asked: &RecordSpec) -> anyhow::Result<Cycle> {
    if asked.warmup > 0 {
        let watched = kineto::start(asked.detail)?;
        for _ in 0..asked.warmup {
            model.run()?;
        }
        watched.stop(None)?;
    }
    let recording = kineto::start(asked.detail)?;
    let steps = (0..asked.active).map(|step| {
        let name = format!("ProfilerStep#{}", asked.first_step + u64::from(step));
        let _slice = kineto::Slice::begin(&name);
        timed(model)
    });
    let steps_ns = steps.collect::<anyhow::Result<_>>();
    let events = recording.stop(asked.trace.as_deref())?;
    Ok(Cycle {
        first_step: asked.first_step,
        steps_ns: steps_ns?,
        events,
    })
}

/// Runs without and with the profiler that take turns; which comes first changes from pair to pair.
fn pairs(model: &Model, budget: Duration) -> anyhow::Result<Vec<(f64, f64)>> {
    let begun = Instant::now();
    let mut pairs = Vec::new();
    let watched = || -> anyhow::Result<u64> {
        let recording = kineto::start(Detail::default())?;
        let ns = timed(model);
        recording.stop(None)?;
        ns
    };
    while pairs.len() < PAIRS.0 || (begun.elapsed() < budget && pairs.len() < PAIRS.1) {
        let pair = match pairs.len() % 2 {
            0 => {
                let alone = timed(model)?;
                (alone, watched()?)
            }
            _ => {
                let with = watched()?;
                (timed(model)?, with)
            }
        };
        pairs.push((pair.0 as f64, pair.1 as f64));
    }
    Ok(pairs)
}
