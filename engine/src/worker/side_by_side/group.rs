//! A few calls, timed alone and while all of them run.
//!
//! A call runs again and again on buffers of its own, on a thread that is bound to its processors. While the calls run
//! together, only batches count that lie within the time in which all of them ran.

use std::collections::HashSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Barrier, Mutex};
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use opdata::CacheState;
use opdata::contract::CallRef;
use tvm_bridge::{Kernel, Tensor};

use super::lanes::Job;
use super::trace::arguments_of;
use super::{Model, SideBySide};
use crate::device::{Conditions, Program};
use crate::protocol::{GroupMember, GroupSpec, GroupTimes, MemberTimes};
use crate::schedule::ScheduleSpec;
use crate::worker::arguments::compare_outputs;
use crate::worker::shared::Shared;

/// Minimum time of a batch of calls: the clock's own cost is below a hundredth of it.
const BATCH: Duration = Duration::from_micros(20);
/// Rounds in which operators run beside a stream of copies.
const PROBES: u32 = 3;
/// Bytes of the stream: more than caches hold.
const STREAM_BYTES: usize = 64 << 20;
/// Bytes that it copies at a time.
const STRIPE: usize = 256 << 10;
/// Factor on the timing of calls on a shared processor: the system's time slices take milliseconds each.
const SLICES: u32 = 20;

/// An action that is repeated.
type Action = Arc<dyn Fn() -> anyhow::Result<()> + Send + Sync>;

/// An action that is timed.
#[derive(Clone)]
struct Looped {
    call: Action,
    /// Calls of a batch.
    number: u32,
}

/// Begin and end of a batch, nanoseconds after the start, and its calls.
type Batch = (f64, f64, u32);

impl SideBySide {
    /// Times calls alone and at the same time.
    pub(super) fn group(
        &mut self,
        shared: &mut Shared,
        spec: &GroupSpec,
    ) -> anyhow::Result<GroupTimes> {
        let calls = self.copies(shared, &spec.members)?;
        let session = shared.session.as_mut();
        session.prepare(&Conditions::new(1, CacheState::Hot))?;
        let before = session.slowdown()?;
        let mut union: Vec<usize> = spec
            .members
            .iter()
            .flat_map(|m| m.processors.clone())
            .collect();
        union.sort_unstable();
        union.dedup();
        let span = Duration::from_nanos(spec.span_ns);
        let stream = Looped {
            call: copying(),
            number: 1,
        };
        let mut members = vec![MemberTimes::default(); calls.len()];
        // The first round warms caches and pools up.
        for round in 0..=spec.rounds {
            let mut alone = Vec::new();
            let mut wide = Vec::new();
            for (member, call) in spec.members.iter().zip(&calls) {
                alone.push(self.time(&[(member.processors.clone(), call.clone())], span)?[0]);
                wide.push(self.time(&[(union.clone(), call.clone())], span)?[0]);
            }
            let together: Vec<_> = spec
                .members
                .iter()
                .map(|m| m.processors.clone())
                .zip(calls.iter().cloned())
                .collect();
            let together = self.time(&together, span)?;
            if (1..=PROBES).contains(&round) {
                for (place, member) in spec.members.iter().enumerate() {
                    // The stream needs a processor that the operator leaves free.
                    let other = union.iter().find(|p| !member.processors.contains(p));
                    let Some(&other) = other else { continue };
                    let streams = (vec![other], stream.clone());
                    let own = (member.processors.clone(), calls[place].clone());
                    let undisturbed = self.time(std::slice::from_ref(&streams), span)?[0];
                    let both = self.time(&[own, streams], span)?;
                    members[place].beside_stream.push(both[0] / alone[place]);
                    members[place].of_stream.push(both[1] / undisturbed);
                }
            }
            if round > 0 {
                for (place, member) in members.iter_mut().enumerate() {
                    member.alone_ns.push(alone[place]);
                    member.all_threads_ns.push(wide[place]);
                    member.together_ns.push(together[place]);
                }
            }
        }
        Ok(GroupTimes {
            members,
            slowdown: before.max(session.slowdown()?),
        })
    }

    /// Each call with buffers of its own, and enough calls a batch for the clock.
    fn copies(&mut self, shared: &Shared, members: &[GroupMember]) -> anyhow::Result<Vec<Looped>> {
        let mut looped = Vec::new();
        for member in members {
            let CallRef(model, call) = member.call;
            let of = self
                .models
                .get(model)
                .context("a model that was not loaded")?;
            ensure!(
                call < of.traced.calls.len(),
                "call {call} of model {model} does not exist"
            );
            let arguments = arguments_of(&of.loaded, &of.traced, call)?;
            let kernel = match &member.schedule {
                None => of.own_kernel(call)?.clone(),
                Some(schedule) => of.scheduled(shared, call, schedule, &arguments)?,
            };
            let prepared = kernel.prepare(arguments);
            let once = Looped {
                call: Arc::new(move || Ok(prepared.run()?)),
                number: 1,
            };
            let ns = self.time(&[(member.processors.clone(), once.clone())], BATCH * 10)?[0];
            let number = (BATCH.as_nanos() as f64 / ns.max(1.0))
                .ceil()
                .clamp(1.0, 1e6) as u32;
            looped.push(Looped { number, ..once });
        }
        Ok(looped)
    }

    /// The time of one call of each lane, while all lanes run for at least `span`.
    ///
    /// Another process may delay one lane until the others have finished. Then all lanes run again, for twice as long.
    fn time(&mut self, calls: &[(Vec<usize>, Looped)], span: Duration) -> anyhow::Result<Vec<f64>> {
        /// Maximum number of runs.
        const RUNS: u32 = 8;
        let counted = Counted::of(calls);
        let span = match counted {
            Counted::Median => span,
            Counted::Mean => span * SLICES,
        };
        for run in 0..RUNS {
            let batches = self.run_together(calls, span * 2_u32.pow(run))?;
            if let Some(times) = times(&batches, counted) {
                return Ok(times);
            }
        }
        bail!("other processes kept the calls from running at the same time, in {RUNS} runs")
    }

    /// The batches of each lane, while all run for `span` at least.
    fn run_together(
        &mut self,
        calls: &[(Vec<usize>, Looped)],
        span: Duration,
    ) -> anyhow::Result<Vec<Vec<Batch>>> {
        let start = Arc::new(Barrier::new(calls.len()));
        let begin = Instant::now();
        let batches: Vec<Arc<Mutex<Vec<Batch>>>> = calls.iter().map(|_| Arc::default()).collect();
        // Every lane goes on until all lanes have run their minimum number of batches.
        let left = Arc::new(AtomicUsize::new(calls.len()));
        let jobs = calls
            .iter()
            .zip(&batches)
            .map(|((processors, looped), own)| {
                let (looped, own) = (looped.clone(), Arc::clone(own));
                let (start, left) = (Arc::clone(&start), Arc::clone(&left));
                let job: Job = Box::new(move || {
                    let made = run_until(&looped, span, begin, &start, &left);
                    if let (Ok(made), Ok(mut own)) = (&made, own.lock()) {
                        own.clone_from(made);
                    }
                    made.map(drop)
                });
                (processors.clone(), job)
            });
        let jobs = jobs.collect();
        self.lanes.run(jobs)?;
        let made = batches
            .iter()
            .map(|own| own.lock().map(|own| own.clone()).unwrap_or_default());
        Ok(made.collect())
    }
}

impl Model {
    /// The kernel that the model itself calls.
    fn own_kernel(&self, call: usize) -> anyhow::Result<&Kernel> {
        let traced = &self.traced.calls[call];
        let none = || {
            format!(
                "{} is a view of its input and calls no kernel",
                traced.symbol
            )
        };
        traced.kernel.as_ref().with_context(none)
    }

    /// The kernel of a call with another schedule, checked against the model's own kernel on these arguments.
    fn scheduled(
        &self,
        shared: &Shared,
        call: usize,
        schedule: &ScheduleSpec,
        arguments: &[Tensor],
    ) -> anyhow::Result<Kernel> {
        let traced = &self.traced.calls[call];
        let symbol = traced.symbol.as_str();
        // Compiling inherits this thread's processors.
        shared.session.release()?;
        let function = self.module.prim_func(symbol)?;
        let scheduled = shared.scheduler.make(symbol, &function, schedule)?.schedule;
        let compiler = shared.session.compiler();
        let lowered = compiler.lower(&scheduled.module()?)?;
        let most = shared.setup.max_statements;
        ensure!(
            lowered.statements(most)? <= most,
            "the schedule unrolls into more than {most} statements"
        );
        let hash = scheduled.function()?.structural_hash()?;
        let compiled = lowered.compile(Program { symbol, hash })?;
        let kernel = compiled.kernel.context("a kernel of another device")?;
        let operator = self
            .loaded
            .graph
            .operator(symbol)
            .context("an unknown operator")?;
        let outputs = |kernel: &Kernel| -> anyhow::Result<Vec<Tensor>> {
            let own = arguments
                .iter()
                .map(Tensor::duplicate)
                .collect::<tvm_bridge::Result<Vec<_>>>()?;
            kernel.bind(&own).call()?;
            Ok(own[traced.reads.len()..].to_vec())
        };
        let (found, expected) = (outputs(&kernel)?, outputs(self.own_kernel(call)?)?);
        let comparison = compare_outputs(&found, &expected, operator.reduction_length())?;
        match comparison.complaint() {
            None => Ok(kernel),
            Some(complaint) => bail!("{symbol} with another schedule: {complaint}"),
        }
    }
}

/// Copies one stripe after the other of a large buffer. The mutual slowdown of an operator and these copies predicts
/// how it shares a machine with others (the bubble of Mars et al., "Bubble-Up", MICRO 2011).
fn copying() -> Action {
    let half = STREAM_BYTES / 2;
    let buffer = Mutex::new((vec![1_u8; STREAM_BYTES], 0));
    Arc::new(move || {
        let Ok(mut buffer) = buffer.lock() else {
            bail!("the stream's buffer is lost");
        };
        let (bytes, next) = &mut *buffer;
        let (from, to) = bytes.split_at_mut(half);
        to[*next..*next + STRIPE].copy_from_slice(&from[*next..*next + STRIPE]);
        *next = (*next + STRIPE) % half;
        Ok(())
    })
}

/// Runs batches until `span` is over and every lane has made its least number.
fn run_until(
    looped: &Looped,
    span: Duration,
    begin: Instant,
    start: &Barrier,
    left: &AtomicUsize,
) -> anyhow::Result<Vec<Batch>> {
    /// Fewest batches of a lane.
    const LEAST: usize = 5;
    let now = || begin.elapsed().as_nanos() as f64;
    let mut batches = Vec::with_capacity(1024);
    let mut done = false;
    start.wait();
    let first = Instant::now();
    loop {
        let from = now();
        for _ in 0..looped.number {
            if let Err(error) = (looped.call)() {
                // The others must not wait for this one.
                if !done {
                    left.fetch_sub(1, Ordering::Relaxed);
                }
                return Err(error);
            }
        }
        batches.push((from, now(), looped.number));
        if !done && batches.len() >= LEAST && first.elapsed() >= span {
            done = true;
            left.fetch_sub(1, Ordering::Relaxed);
        }
        if done && left.load(Ordering::Relaxed) == 0 {
            return Ok(batches);
        }
    }
}

/// The batches of a lane that count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Counted {
    /// Their median: each lane has processors of its own, and the median is robust against other processes.
    Median,
    /// All of their time: lanes take turns on a processor, and the time in which others run counts.
    Mean,
}

impl Counted {
    fn of(calls: &[(Vec<usize>, Looped)]) -> Counted {
        let all: Vec<usize> = calls
            .iter()
            .flat_map(|(own, _)| own.iter().copied())
            .collect();
        let distinct: HashSet<usize> = all.iter().copied().collect();
        match distinct.len() == all.len() {
            true => Counted::Median,
            false => Counted::Mean,
        }
    }
}

/// The time of a call of each lane over the batches within the time that all lanes share; nothing if they share none.
fn times(lanes: &[Vec<Batch>], counted: Counted) -> Option<Vec<f64>> {
    let from = lanes
        .iter()
        .filter_map(|lane| lane.first())
        .map(|b| b.0)
        .fold(0.0, f64::max);
    let until = lanes
        .iter()
        .filter_map(|lane| lane.last())
        .map(|batch| batch.1)
        .fold(f64::INFINITY, f64::min);
    let of = |lane: &Vec<Batch>| {
        let mut within = lane
            .iter()
            .filter(|(begin, end, _)| *begin >= from && *end <= until);
        match counted {
            Counted::Median => {
                let each = within.map(|(begin, end, calls)| (end - begin) / f64::from(*calls));
                opdata::stats::median(each)
            }
            Counted::Mean => {
                let first = within.next()?;
                let (last, calls) = within
                    .fold((first, f64::from(first.2)), |(_, calls), batch| {
                        (batch, calls + f64::from(batch.2))
                    });
                Some((last.1 - first.0) / calls)
            }
        }
    };
    lanes.iter().map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_batches_count_during_which_all_lanes_ran() {
        // The first lane starts at 0 and slows down while the second runs, from 10 to 50.
        let first = vec![
            (0.0, 10.0, 1),
            (10.0, 30.0, 1),
            (30.0, 50.0, 1),
            (50.0, 60.0, 1),
        ];
        let second = vec![(10.0, 20.0, 5), (20.0, 50.0, 5)];
        let lanes = [first.clone(), second];
        assert_eq!(times(&lanes, Counted::Median), Some(vec![20.0, 4.0]));
        assert_eq!(times(&lanes, Counted::Mean), Some(vec![20.0, 4.0]));
        let apart = [first, vec![(100.0, 110.0, 1)]];
        assert_eq!(times(&apart, Counted::Median), None);
    }

    #[test]
    fn the_time_of_others_counts_on_a_shared_processor() {
        // Two lanes take turns: a batch of 5 calls runs in 50 without a switch, the next waits 100 for the other lane.
        let slices = |from: f64| {
            let one = |k: u32| {
                let begin = from + f64::from(k) * 200.0;
                [(begin, begin + 50.0, 5), (begin + 50.0, begin + 200.0, 5)]
            };
            (0..5).flat_map(one).collect::<Vec<Batch>>()
        };
        let lanes = [slices(0.0), slices(0.0)];
        assert_eq!(times(&lanes, Counted::Mean), Some(vec![20.0, 20.0]));
    }
}
