//! MetaSchedule's design space of a function: TVM's own rules for the target, sampled here.
//!
//! Post-order apply runs TVM's default rules for the target's device: inlining, rfactor, multi-level tiling,
//! parallel-vectorise-unroll or thread binding, random compute location. It gives a few sketches; a sample is a sketch
//! replayed with fresh random decisions and TVM's postprocessors, as MetaSchedule's `replay-trace` strategy does it. The
//! same seed gives the same sample.
//!
//! The plain LLVM rules are taken for every CPU. Those for VNNI, AVX-512 or dot-product CPUs add tensor intrinsics of
//! 8-bit integers, which need TVM's Python package. On CUDA products of half precision get the rules for tensor cores.

use tvm_ffi::{Any, AnyView, Function};

use crate::call::{Obj, array, boolean, call, elements, field, int, map, none, text, value};
use crate::device::DeviceKind;
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::inspect::Access;
use crate::ir::{IrModule, PrimFunc, type_key};
use crate::outline::{BlockLimits, Outline};
use crate::schedule::Schedule;
use crate::target::Target;
use crate::tensorize::register_cuda;

/// The sketches of one function.
#[derive(Debug, Clone)]
pub struct DesignSpace {
    function: PrimFunc,
    sketches: Vec<Sketch>,
    postprocessors: Vec<Obj>,
    attempts: u64,
    /// Limits that refuse most samples, if the device has them.
    limits: Option<BlockLimits>,
}

/// A way to write a function, its decisions open.
#[derive(Debug, Clone)]
struct Sketch {
    /// A trace without decisions.
    steps: Obj,
    /// Threads and shared memory as computed from its tiles. `None` if they do not determine them, or without limits.
    outline: Option<Outline>,
}

/// TVM's rules for a kind of device, and the cost of sampling them.
#[derive(Debug, Clone, Copy)]
struct Rules {
    /// Ending of the names of TVM's functions that make rules and postprocessors.
    name: &'static str,
    /// How often a sample may be refused by a postprocessor before the seed is given up.
    attempts: u64,
}

impl Rules {
    fn of(function: &PrimFunc, target: &Target) -> Result<Rules> {
        match target.device_kind() {
            DeviceKind::Cpu => Ok(Rules {
                name: "LLVM",
                attempts: 16,
            }),
            // Limits of threads, registers and shared memory refuse 70 to 98 % of the samples.
            DeviceKind::Cuda => Ok(Rules {
                // If the intrinsics are not available, the plain rules are used.
                name: match multiplies_halves(function)? && register_cuda().is_ok() {
                    true => "CUDATensorCore",
                    false => "CUDA",
                },
                attempts: 600,
            }),
            other => Err(Error::unexpected(
                "DesignSpace::generate",
                format!("MetaSchedule has no rules for {other}"),
            )),
        }
    }
}

/// Whether a function sums products of half precision in a way that the rules for tensor cores can take. Where single
/// precision sums are rounded to halves in the same function, they store fragments of one type into a buffer of the
/// other. No sample can then be lowered.
fn multiplies_halves(function: &PrimFunc) -> Result<bool> {
    let schedule = Schedule::new(function, 0)?;
    let (mut multiplies, mut rounds) = (false, false);
    for block in schedule.blocks()? {
        let info = schedule.info(&block)?;
        let is = |dtype| move |access: &Access| access.dtype == Some(dtype);
        let halves = info.reads.iter().all(is(DType::Float16));
        multiplies |= info.is_reduction() && info.reads.len() == 2 && halves;
        rounds |=
            info.reads.iter().any(is(DType::Float32)) && info.writes.iter().any(is(DType::Float16));
    }
    Ok(multiplies && !rounds)
}

/// A function with TVM's rules for it, ready to be sampled or searched.
pub(crate) struct Prepared {
    /// TVM's context of a search.
    pub context: Obj,
    /// The module that holds the function as [`crate::ir::ENTRY`].
    pub module: IrModule,
    /// The schedules that the rules make.
    pub sketches: Obj,
    postprocessors: Obj,
    /// Keeps the function's own buffers from being transformed.
    _root: Obj,
}

impl Prepared {
    /// Makes the space for a search by `strategy` with TVM's own mutations of schedules.
    pub(crate) fn for_search(
        function: &PrimFunc,
        target: &Target,
        seed: u64,
        strategy: &Obj,
        threads: usize,
    ) -> Result<Prepared> {
        let rules = Rules::of(function, target)?;
        Prepared::new(function, target, seed, rules, Some(strategy), threads)
    }

    fn new(
        function: &PrimFunc,
        target: &Target,
        seed: u64,
        defaults: Rules,
        strategy: Option<&Obj>,
        threads: usize,
    ) -> Result<Prepared> {
        let made = |what: &str| call(&name(&format!("{what}Default{}", defaults.name)), &[]);
        // TVM's Python package would give operators rules of their own; without it that rule only warns.
        let rules = elements(&made("ScheduleRule")?)?;
        let own = |rule: &&Obj| type_key(rule) != Some("s_tir.meta_schedule.ApplyCustomRule");
        let rules = array(rules.iter().filter(own))?;
        let postprocessors = made("Postproc")?;
        let mutators = match strategy {
            Some(_) => made("Mutator")?,
            None => map([])?,
        };
        let generator = call(
            &name("SpaceGeneratorPostOrderApply"),
            // Rules, postprocessors and mutators must all be given; otherwise TVM takes those of the CPU's extensions.
            &[&none(), &rules, &postprocessors, &mutators],
        )?;
        let module = function.to_module()?;
        // See [`Schedule`]: the rules' schedules would otherwise transform the function itself.
        let root = function.root_block()?;
        let silent = Obj(Any::from(Function::from_packed(|_: &[AnyView<'_>]| {
            Ok(Any::new())
        })));
        let context = call(
            &name("TuneContext"),
            &[
                &module.handle,
                &target.handle,
                &generator,
                strategy.unwrap_or(&none()),
                &text(crate::ir::ENTRY),
                &int(threads as i64),
                &int(Schedule::seed(seed)),
                &silent,
            ],
        )?;
        call(&name("TuneContextInitialize"), &[&context])?;
        let sketches = call(
            &name("SpaceGeneratorGenerateDesignSpace"),
            &[&generator, &module.handle],
        )?;
        Ok(Prepared {
            context,
            module,
            sketches,
            postprocessors,
            _root: root,
        })
    }
}

/// A sample of a design space.
#[derive(Debug)]
pub struct Sample {
    /// The schedule.
    pub schedule: Schedule,
    /// Number of samples that the device's limits refused before.
    pub refused: u64,
}

/// Step between the seeds of attempts: any odd number far from the small steps between callers' seeds.
const NEXT_ATTEMPT: u64 = 0x9e37_79b9;

impl DesignSpace {
    /// The space that TVM's default rules make of `function`.
    ///
    /// # Errors
    /// Fails if a rule fails on the function.
    pub fn generate(function: &PrimFunc, target: &Target, seed: u64) -> Result<DesignSpace> {
        let defaults = Rules::of(function, target)?;
        let prepared = Prepared::new(function, target, seed, defaults, None, 1)?;
        let limits = BlockLimits::of(target.json());
        let sketches = elements(&prepared.sketches)?
            .iter()
            .map(|schedule| Sketch::of(schedule, function, limits.is_some()))
            .collect::<Result<Vec<_>>>()?;
        if sketches.is_empty() {
            return Err(Error::unexpected(
                "SpaceGeneratorGenerateDesignSpace",
                "no sketch",
            ));
        }
        Ok(DesignSpace {
            function: function.clone(),
            sketches,
            postprocessors: elements(&prepared.postprocessors)?,
            attempts: defaults.attempts,
            limits,
        })
    }

    /// Number of sketches.
    pub fn sketches(&self) -> usize {
        self.sketches.len()
    }

    /// The schedule that `seed` draws: the sketches take turns, decisions are random.
    ///
    /// # Errors
    /// Fails if no attempt gave a schedule that the postprocessors accept.
    pub fn sample(&self, seed: u64) -> Result<Sample> {
        let mut refused = Error::unexpected("DesignSpace::sample", "no attempt was made");
        for attempt in 0..self.attempts {
            let seed = seed.wrapping_add(attempt.wrapping_mul(NEXT_ATTEMPT));
            match self.try_sample(seed) {
                Ok(schedule) => {
                    return Ok(Sample {
                        schedule,
                        refused: attempt,
                    });
                }
                Err(error) => refused = error,
            }
        }
        let reason = format!(
            "none of {} samples was accepted; the last: {refused}",
            self.attempts
        );
        Err(Error::unexpected("DesignSpace::sample", reason))
    }

    fn try_sample(&self, seed: u64) -> Result<Schedule> {
        let refused = || {
            Error::unexpected(
                "PostprocApply",
                "a postprocessor refused it: it exceeds what the device allows",
            )
        };
        if self.refused_by_tiles(seed)? {
            return Err(refused());
        }
        let schedule = self.draw(seed)?;
        match self.postprocess(&schedule)? {
            true => Ok(schedule),
            false => Err(refused()),
        }
    }

    fn sketch(&self, seed: u64) -> &Sketch {
        &self.sketches[(seed % self.sketches.len() as u64) as usize]
    }

    /// Whether the tiles of a seed's sample exceed a limit. This finds most refusals for a fraction of the work.
    fn refused_by_tiles(&self, seed: u64) -> Result<bool> {
        match (&self.sketch(seed).outline, self.limits) {
            (Some(outline), Some(limits)) => outline.refuses(&self.function, seed, limits),
            _ => Ok(false),
        }
    }

    /// A sketch with random decisions.
    fn draw(&self, seed: u64) -> Result<Schedule> {
        Schedule::drawn(&self.function, &self.sketch(seed).steps, seed)
    }

    /// Whether TVM's postprocessors take a schedule, which they finish.
    fn postprocess(&self, schedule: &Schedule) -> Result<bool> {
        call("s_tir.schedule.ScheduleEnterPostproc", &[schedule.handle()])?;
        for postprocessor in &self.postprocessors {
            let accepted = call(&name("PostprocApply"), &[postprocessor, schedule.handle()])?;
            if !value::<bool>("PostprocApply", accepted)? {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

impl Sketch {
    /// Makes a sketch of a schedule that the rules made.
    fn of(schedule: &Obj, function: &PrimFunc, limited: bool) -> Result<Sketch> {
        let trace = call("s_tir.schedule.ScheduleGetTrace", &[schedule])?;
        let trace = call("s_tir.schedule.TraceSimplified", &[&trace, &boolean(true)])?;
        let steps = call(
            "s_tir.schedule.Trace",
            &[&field(&trace, "insts")?, &map([])?],
        )?;
        let outline = match limited {
            true => Outline::of(function, &steps)?,
            false => None,
        };
        Ok(Sketch { steps, outline })
    }
}

fn name(function: &str) -> String {
    format!("s_tir.meta_schedule.{function}")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// The postprocessors refuse every sample that is refused early, and few others.
    #[test]
    fn samples_that_are_refused_early_are_refused_by_tvm() {
        let target = json!({
            "kind": "cuda", "arch": "sm_80", "max_threads_per_block": 1024, "thread_warp_size": 32,
            "max_shared_memory_per_block": 49152, "registers_per_block": 65536,
        });
        let host = Target::llvm("x86-64-v3", 1).unwrap();
        let target = Target::with_host(&target, &host).unwrap();
        for name in ["matmul", "conv2d_relu"] {
            let path = format!("{}/tests/fixtures/{name}.json", env!("CARGO_MANIFEST_DIR"));
            let function = PrimFunc::from_json(&std::fs::read_to_string(path).unwrap()).unwrap();
            let space = DesignSpace::generate(&function, &target, 0).unwrap();
            let (mut early, mut refused) = (0, 0);
            for seed in 1..=60 {
                let schedule = space.draw(seed).unwrap();
                let is_early = space.refused_by_tiles(seed).unwrap();
                let is_refused = !space.postprocess(&schedule).unwrap();
                assert!(is_refused || !is_early, "{name}: seed {seed}");
                early += u32::from(is_early);
                refused += u32::from(is_refused);
            }
            assert!(early * 10 > refused * 9, "{name}: {early} of {refused}");
        }
    }
}
