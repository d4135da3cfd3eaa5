//! Single operators in the worker: checked, then timed, one at a time.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow};
use tvm_bridge::Tensor;

use super::arguments::{Arguments, compare_outputs};
use super::build::{Builder, Ready};
use super::shared::{Replies, Shared};
use crate::device::{AreEqual, Kernel, SimulatedRun, Simulation};
use crate::interference::load::LoadMeter;
use crate::interference::remeasure::slowdown_before;
use crate::measure::check::Comparison;
use crate::measure::counters::passes::{Calls, budget, count};
use crate::measure::counters::{Counted, Opened, Program, Requested, simulate};
use crate::measure::sampling::{Caches, Pruned, Taken, take, take_if_pruned, time_calls};
use crate::measure::{CacheControl, Timer};
use crate::protocol::{KernelSpec, MeasureSpec, Measured, QuietMoment, Spent};
use crate::schedule::Space;
use crate::stats::{Nanos, StopReason};

/// Kernels that were built, and the resources to measure them.
pub(super) struct Bench {
    builder: Builder,
    kernels: HashMap<u64, Ready>,
    /// The arguments of the last operator measured: its points follow each other.
    current: Option<Current>,
    /// Simulators' counts by kernel: the same at all conditions.
    simulated: HashMap<u64, Counted>,
}

struct Current {
    arguments: Arguments,
    references: Vec<Tensor>,
    /// Outputs that were right, where comparing others with them is cheaper than with the references.
    right: Option<(Vec<Tensor>, Comparison)>,
    /// Sources of counters, for all points of the operator. Opened after the first samples, so that each thread of the
    /// pool exists already; none of them counts while samples are taken.
    opened: Option<Opened>,
}

impl Current {
    fn new(shared: &Shared, builder: &Builder, spec: &KernelSpec) -> anyhow::Result<Current> {
        Ok(Current {
            arguments: Arguments::new(spec, shared.session.tensors(), shared.setup.seed)?,
            references: builder.reference_of(shared, spec)?,
            right: None,
            opened: None,
        })
    }
}

/// Compares outputs with the reference, unless they are equal to others that were right.
fn check(
    found: &[Tensor],
    references: &[Tensor],
    reduction_length: u64,
    right: &mut Option<(Vec<Tensor>, Comparison)>,
    equal: Option<AreEqual>,
) -> anyhow::Result<Comparison> {
    if let (Some((outputs, comparison)), Some(equal)) = (&*right, &equal)
        && equal(found, outputs)?
    {
        return Ok(*comparison);
    }
    let comparison = compare_outputs(found, references, reduction_length)?;
    if equal.is_some() && comparison.agrees() {
        let copies = found.iter().map(Tensor::duplicate);
        *right = Some((copies.collect::<tvm_bridge::Result<_>>()?, comparison));
    }
    Ok(comparison)
}

impl Bench {
    pub fn new() -> Bench {
        Bench {
            builder: Builder::new(),
            kernels: HashMap::new(),
            current: None,
            simulated: HashMap::new(),
        }
    }

    /// Builds kernels on `jobs` threads, answering as they are done.
    pub fn build(&mut self, shared: &Shared, specs: &[KernelSpec], jobs: usize, replies: &Replies) {
        let ready = self.builder.build(shared, specs, jobs, replies);
        self.kernels
            .extend(ready.into_iter().map(|r| (r.spec.id, r)));
    }

    /// Checks and times one kernel.
    pub fn measure(
        &mut self,
        shared: &mut Shared,
        point: &MeasureSpec,
    ) -> anyhow::Result<Measured> {
        let mut watch = Stopwatch::start();
        let mut spent = Spent::default();
        let ready = self
            .kernels
            .get(&point.id)
            .ok_or_else(|| anyhow!("kernel {} was not built", point.id))?;
        let spec = &ready.spec;
        let is_current = |c: &Current| c.arguments.symbol == spec.symbol;
        if !self.current.as_ref().is_some_and(is_current) {
            // Drops the old arguments before new ones are made, because memory may have room for one set of a large
            // operator only.
            self.current = None;
            self.current = Some(Current::new(shared, &self.builder, spec)?);
        }
        let Current {
            arguments,
            references,
            right,
            opened,
        } = self.current.as_mut().context("no arguments")?;
        let session = &mut shared.session;
        session.prepare(&point.at)?;
        spent.prepare_ns = watch.lap();
        let load = LoadMeter::start();
        let now = session.slowdown()?;
        spent.reference_kernel_ns = watch.lap();
        let waited = match point.quiet {
            QuietMoment::Ignored => None,
            QuietMoment::Preferred | QuietMoment::Required => session.wait_for_quiet(now)?,
        };
        spent.wait_ns = watch.lap();
        let before = slowdown_before(point.quiet == QuietMoment::Required, now, waited)?;

        arguments.poison_outputs()?;
        let kernel = Kernel {
            symbol: &spec.symbol,
            choice: &ready.choice,
        };
        let request = &shared.setup.counters;
        let open = (!request.is_none()).then(|| session.counters());
        let counters = open.map(|open| (move || open(request), &mut *opened));
        let equal = session.equality();
        let (timer, caches) = session.instruments(kernel, &point.at);
        let bound = ready.kernel.bind(&arguments.tensors);
        let first = time_calls(timer, 1, || bound.call())?;
        drop(bound);
        let length = spec.reduction_length;
        let comparison = check(arguments.outputs(), references, length, right, equal)?;
        spent.check_ns = watch.lap();
        let by_simulator = ready.simulation.as_ref().map(Simulation::run);
        let result = match comparison.agrees() {
            true if by_simulator.is_some() => by_simulator.as_ref().map(Timed::simulated),
            true => Some(Timed::take(
                point,
                ready,
                arguments,
                (timer, caches),
                first,
                counters,
                (&mut watch, &mut spent),
            )?),
            false => None,
        };
        spent.counters_ns += watch.lap();
        let (state, server) = (session.state(), session.server());
        // This machine's load does not disturb another one.
        let other_cpu_share = load.other_cpu_share().filter(|_| server.is_none());
        let slowdown = before.max(session.slowdown()?);
        spent.reference_kernel_ns += watch.lap();
        let (taken, mut counted) = match result {
            None => (None, None),
            Some(timed) => (Some(timed.taken), timed.counted),
        };
        if let (Some(taken), Some(counted), Some(opened)) = (&taken, &mut counted, opened) {
            // Simulators take the processor for seconds, so they run after everything that is timed.
            let known = self.simulated.entry(point.id);
            let one_thread = taken.median() * point.at.threads;
            let simulators = &opened.simulators;
            counted.add(known.or_insert_with(|| simulated(shared, ready, simulators, one_thread)));
        }
        Ok(Measured {
            id: point.id,
            comparison,
            taken,
            slowdown,
            other_cpu_share,
            state,
            simulated: by_simulator,
            counted: counted.map(Box::new),
            server,
            spent: Spent {
                counters_ns: spent.counters_ns + watch.lap(),
                ..spent
            },
        })
    }

    /// Forgets kernels; their code is freed.
    pub fn forget(&mut self, ids: &[u64]) {
        for id in ids {
            self.kernels.remove(id);
            self.simulated.remove(id);
        }
    }
}

/// Measures the duration of one step after the other.
struct Stopwatch(Instant);

impl Stopwatch {
    fn start() -> Stopwatch {
        Stopwatch(Instant::now())
    }

    /// Nanoseconds since the lap before.
    fn lap(&mut self) -> u64 {
        let before = std::mem::replace(&mut self.0, Instant::now());
        self.0.duration_since(before).as_nanos() as u64
    }
}

/// The result of timing a kernel.
struct Timed {
    taken: Taken,
    /// `None` if nothing was to be counted, or the kernel was pruned.
    counted: Option<Counted>,
}

/// The counts of simulators for a kernel.
fn simulated(
    shared: &Shared,
    ready: &Ready,
    simulators: &[Requested],
    one_thread: Duration,
) -> Counted {
    let mut counted = Counted::default();
    if simulators.is_empty() {
        return counted;
    }
    let symbol = &ready.spec.symbol;
    // The schedule that was measured. Its modules are not kept, because most kernels are never requested again.
    let module = shared.module.prim_func(symbol).and_then(|function| {
        let schedule_spec = &ready.spec.schedule_spec;
        let scheduled = shared.scheduler.make(symbol, &function, schedule_spec)?;
        scheduled.schedule.module()
    });
    match module {
        Ok(module) => {
            let program = Program {
                name: format!("{symbol}-{}", ready.spec.id),
                module: &module,
                target: &shared.target,
                arguments: &ready.spec.arguments,
                seed: shared.setup.seed,
                one_thread,
                keep: shared.setup.keep_kernels.as_deref(),
            };
            simulate(simulators, &program, &mut counted);
        }
        Err(error) => {
            let reason = error.to_string();
            let refused = simulators.iter().flat_map(|s| s.counters.refused(&reason));
            counted.counts.extend(refused);
        }
    }
    counted
}

impl Timed {
    /// Samples of a kernel whose calls are not counted.
    fn uncounted(taken: Taken) -> Timed {
        Timed {
            taken,
            counted: None,
        }
    }

    /// The one sample of a simulated time.
    fn simulated(run: &SimulatedRun) -> Timed {
        Timed::uncounted(Taken {
            samples: Nanos::new(run.total_ns).into_iter().collect(),
            number: 1,
            warmup: 0,
            stopped: StopReason::Simulated,
        })
    }

    /// Times a kernel whose first run took `first` and was right; then makes the calls that `counters` count.
    fn take(
        point: &MeasureSpec,
        ready: &Ready,
        arguments: &mut Arguments,
        (timer, caches): (&mut dyn Timer, CacheControl<'_>),
        first: Duration,
        counters: Option<(impl FnOnce() -> Opened, &mut Option<Opened>)>,
        (watch, spent): (&mut Stopwatch, &mut Spent),
    ) -> anyhow::Result<Timed> {
        if let Some(limit_ns) = point.prune_beyond_ns {
            let limit = Duration::from_nanos(limit_ns);
            let bound = ready.kernel.bind(&arguments.tensors);
            let pruned = Pruned { first, limit };
            if let Some(taken) = take_if_pruned(pruned, timer, || bound.call())? {
                return Ok(Timed::uncounted(taken));
            }
        }
        let still;
        let rotation = match caches {
            CacheControl::Rotate { neighbours, .. } => {
                arguments.rotation(ready.spec.reuse, neighbours)?
            }
            CacheControl::Repeat | CacheControl::Evict(_) => {
                still = arguments.still();
                &still
            }
        };
        // Inside the model other operators use the memory of an output before this one writes it again.
        let used_last = || rotation.used_last();
        let all = || rotation.first();
        let mut caches = match caches {
            CacheControl::Rotate {
                activations: Some(place),
                ..
            } => Caches::Placed(place, &used_last),
            CacheControl::Rotate { .. } | CacheControl::Repeat => Caches::Kept,
            CacheControl::Evict(place) => Caches::Placed(place, &all),
        };
        let sets = rotation.arguments();
        let bound: Vec<_> = sets.map(|set| ready.kernel.bind(set)).collect();
        let mut call = || bound[rotation.take_turn()].call();
        spent.prepare_ns += watch.lap();
        let taken = take(point.policy, first, timer, &mut caches, &mut call)?;
        spent.samples_ns = watch.lap();
        let Some((open, opened)) = counters else {
            return Ok(Timed::uncounted(taken));
        };
        let calls = Calls {
            timer,
            number: taken.number,
            typical: taken.median(),
            budget: budget(taken.duration()),
            caches: &mut caches,
        };
        let counted = Some(count(opened.get_or_insert_with(open), calls, &mut call)?);
        Ok(Timed { taken, counted })
    }
}

/// The template spaces of operators, in their order.
///
/// # Errors
/// Fails if an operator is not in the module, or if TVM does.
pub(super) fn spaces(shared: &Shared, symbols: &[String]) -> anyhow::Result<Vec<Space>> {
    symbols
        .iter()
        .map(|symbol| {
            let function = shared.module.prim_func(symbol)?;
            let space = shared.scheduler.space(&function);
            space.with_context(|| format!("the space of {symbol}"))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use tvm_bridge::{DType, Device};

    use super::*;

    #[test]
    fn outputs_are_compared_unless_they_equal_right_ones() {
        let tensor = |value: f32| {
            let bytes = value.to_le_bytes();
            [Tensor::from_bytes(Device::cpu(), &[1], DType::Float32, &bytes).unwrap()]
        };
        let by_bytes = || -> Option<AreEqual> {
            Some(Box::new(|found, known| {
                Ok(found[0].bytes()? == known[0].bytes()?)
            }))
        };
        let (reference, near, wrong) = (tensor(1.0), tensor(1.000_001), tensor(2.0));
        let mut right = None;
        let mut compared = |found, equal| check(found, &reference, 1, &mut right, equal).unwrap();
        assert!(!compared(&wrong, by_bytes()).agrees());
        assert!(!compared(&wrong, by_bytes()).agrees(), "it was not right");
        let first = compared(&near, by_bytes());
        assert!(first.agrees() && first.max_abs_error > 0.0);
        assert_eq!(compared(&near, by_bytes()), first);
        assert_eq!(compared(&reference, by_bytes()).max_abs_error, 0.0);
        assert!(!compared(&wrong, by_bytes()).agrees());
        // Nothing is kept if the device has no comparison of its own.
        let mut right = None;
        check(&near, &reference, 1, &mut right, None).unwrap();
        assert!(right.is_none());
    }
}
