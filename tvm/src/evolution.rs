//! MetaSchedule's evolutionary search over the design space of a function, with a cost model and measurements of the caller's.
//!
//! TVM samples, mutates and selects schedules. All settings except the population's size are those of its Python
//! package (`tvm.s_tir.meta_schedule.search_strategy.EvolutionarySearch`, TVM 0.27). Schedules come in batches
//! ([`Evolution::generate`]); their times go back ([`Evolution::tell`]).

use tvm_ffi::{Any, AnyView};

use crate::call::{Obj, array, boolean, call, elements, field, int, none, packed, text};
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::ir::PrimFunc;
use crate::space::Prepared;
use crate::target::Target;
use crate::tensor::Tensor;
use crate::trace::Trace;

/// Predicts scores of schedules by their features, in their order: the higher, the faster.
pub type Predict = Box<dyn Fn(&[Vec<f32>]) -> Vec<f64>>;

/// The length of a search, and its population.
#[derive(Debug, Clone, Copy)]
pub struct Size {
    /// Maximum number of schedules.
    pub trials: usize,
    /// Schedules of a batch.
    pub batch: usize,
    /// Schedules that are bred for a batch (TVM's Python package: 512).
    pub population: usize,
    /// Threads that breed.
    pub threads: usize,
}

/// A schedule that the search proposes.
#[derive(Debug, Clone)]
pub struct Bred {
    /// Its trace.
    pub trace: Trace,
    /// TVM's features of it: of each of 164, the sum and the largest over the stores.
    pub features: Vec<f32>,
}

/// A search.
pub struct Evolution {
    strategy: Obj,
    context: Obj,
    database: Obj,
    workload: Obj,
    target: Target,
    arguments: Obj,
    extractor: Obj,
    /// The candidates of the last batch.
    batch: Vec<Obj>,
}

fn name(function: &str) -> String {
    format!("s_tir.meta_schedule.{function}")
}

fn float(value: f64) -> Obj {
    Obj(Any::from(value))
}

impl Evolution {
    /// A search; `predict` is asked on this thread.
    ///
    /// # Errors
    /// Fails if TVM has no rules for the target's device, or a rule fails on the function.
    pub fn new(
        function: &PrimFunc,
        target: &Target,
        seed: u64,
        size: Size,
        predict: Predict,
    ) -> Result<Evolution> {
        let function = function.with_symbol(crate::ir::ENTRY)?;
        let strategy = call(
            &name("SearchStrategyEvolutionarySearch"),
            &[
                &int(size.population as i64),
                &float(0.2),
                &int(50),
                &int(5),
                &int(4),
                &float(0.85),
                &int(10),
                &float(0.05),
            ],
        )?;
        let prepared = Prepared::for_search(&function, target, seed, &strategy, size.threads)?;
        let database = call(&name("DatabaseMemoryDatabase"), &[&text("structural")])?;
        let workload = call(
            &name("DatabaseCommitWorkload"),
            &[&database, &prepared.module.handle],
        )?;
        let extractor = call(
            &name("FeatureExtractorPerStoreFeature"),
            &[&int(5), &int(10), &int(64), &boolean(false)],
        )?;
        let model = cost_model(&extractor, predict)?;
        call(
            &name("SearchStrategyPreTuning"),
            &[
                &strategy,
                &int(size.trials as i64),
                &int(size.batch as i64),
                &prepared.sketches,
                &database,
                &model,
            ],
        )?;
        Ok(Evolution {
            strategy,
            context: prepared.context,
            database,
            workload,
            target: target.clone(),
            arguments: call(&name("ArgInfoFromPrimFunc"), &[&function.handle])?,
            extractor,
            batch: Vec::new(),
        })
    }

    /// The next batch; empty when the search is at its end.
    ///
    /// # Errors
    /// Fails if TVM does.
    pub fn generate(&mut self) -> Result<Vec<Bred>> {
        let made = call(
            &name("SearchStrategyGenerateMeasureCandidates"),
            &[&self.strategy],
        )?;
        if made.0.type_index() == none().0.type_index() {
            return Ok(Vec::new());
        }
        self.batch = elements(&made)?;
        let features = features(&self.extractor, &self.context, &made)?;
        let bred = self
            .batch
            .iter()
            .zip(features)
            .map(|(candidate, features)| {
                Ok(Bred {
                    trace: Trace::exactly(&trace_of(candidate)?)?,
                    features,
                })
            });
        bred.collect()
    }

    /// Times of the last batch's schedules, in their order and in any unit. `None` for those that failed.
    ///
    /// # Errors
    /// Fails if TVM does.
    pub fn tell(&mut self, times: &[Option<f64>]) -> Result<()> {
        let mut results = Vec::new();
        for (candidate, time) in self.batch.iter().zip(times) {
            let (seconds, problem) = match time {
                Some(time) => {
                    let time = call("ir.FloatImm", &[&text("float64"), &float(*time), &none()])?;
                    (array([&time])?, none())
                }
                None => (none(), text("it was not measured")),
            };
            if time.is_some() {
                let record = call(
                    &name("TuningRecord"),
                    &[
                        &trace_of(candidate)?,
                        &self.workload,
                        &seconds,
                        &self.target.handle,
                        &self.arguments,
                    ],
                )?;
                call(
                    &name("DatabaseCommitTuningRecord"),
                    &[&self.database, &record],
                )?;
            }
            results.push(call(&name("RunnerResult"), &[&seconds, &problem])?);
        }
        let (candidates, results) = (array(&self.batch)?, array(&results)?);
        call(
            &name("SearchStrategyNotifyRunnerResults"),
            &[&self.strategy, &candidates, &results],
        )
        .map(drop)
    }
}

fn trace_of(candidate: &Obj) -> Result<Obj> {
    call(
        "s_tir.schedule.ScheduleGetTrace",
        &[&field(candidate, "sch")?],
    )
}

/// TVM's cost model over a callback.
fn cost_model(extractor: &Obj, predict: Predict) -> Result<Obj> {
    const NAME: &str = "the cost model";
    let extractor = extractor.clone();
    let predict = move |arguments: &[AnyView<'_>]| {
        let [context, candidates, scores] = arguments else {
            return Err(format!("{} arguments of {NAME}", arguments.len()));
        };
        let (context, candidates) = (Obj(Any::from(*context)), Obj(Any::from(*candidates)));
        let rows = features(&extractor, &context, &candidates).map_err(|e| e.to_string())?;
        let predicted = predict(&rows);
        let to: *mut std::ffi::c_void = scores.try_as().ok_or("no place for scores")?;
        if predicted.len() != rows.len() {
            return Err(format!(
                "{} scores of {} schedules",
                predicted.len(),
                rows.len()
            ));
        }
        // SAFETY: TVM passes the address of an array of as many doubles as there are candidates, which lives during the
        // call (`PyCostModelNode::Predict`).
        unsafe { std::ptr::copy_nonoverlapping(predicted.as_ptr(), to.cast(), predicted.len()) };
        Ok(Any::new())
    };
    let predict = Obj(Any::from(packed(NAME.to_owned(), predict)));
    let nothing = || Obj(Any::from(packed(NAME.to_owned(), |_| Ok(Any::new()))));
    let (load, save, update) = (nothing(), nothing(), nothing());
    call(
        &name("CostModelPyCostModel"),
        &[&load, &save, &update, &predict],
    )
}

/// Features of candidates: of each of TVM's, the sum and the largest over the stores of the program.
fn features(extractor: &Obj, context: &Obj, candidates: &Obj) -> Result<Vec<Vec<f32>>> {
    const NAME: &str = "FeatureExtractorExtractFrom";
    let tensors = call(&name(NAME), &[extractor, context, candidates])?;
    let pool = |tensor: &Obj| {
        let tensor = Tensor::from_obj(tensor)
            .filter(|tensor| tensor.dtype() == DType::Float64 && tensor.shape().len() == 2)
            .ok_or_else(|| Error::unexpected(NAME, "no matrix of numbers"))?;
        let width = tensor.shape()[1] as usize;
        let bytes = tensor.bytes()?;
        let values: Vec<f32> = bytes
            .chunks_exact(8)
            .map(|b| f64::from_le_bytes(b.try_into().unwrap_or_default()) as f32)
            .collect();
        let mut pooled = vec![0.0_f32; width * 2];
        for row in values.chunks_exact(width.max(1)) {
            for (at, value) in row.iter().enumerate() {
                pooled[at] += value;
                pooled[width + at] = pooled[width + at].max(*value);
            }
        }
        Ok(pooled)
    };
    elements(&tensors)?.iter().map(pool).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schedule::Schedule;

    /// Batches are full, schedules differ, and measured ones are bred from.
    #[test]
    fn a_search_proposes_new_schedules_and_takes_their_times() {
        let path = format!("{}/tests/fixtures/matmul.json", env!("CARGO_MANIFEST_DIR"));
        let function = PrimFunc::from_json(&std::fs::read_to_string(path).unwrap()).unwrap();
        let target = Target::llvm("x86-64-v3", 2).unwrap();
        let asked = std::rc::Rc::new(std::cell::Cell::new(0));
        let count = std::rc::Rc::clone(&asked);
        let predict = move |rows: &[Vec<f32>]| {
            count.set(count.get() + rows.len());
            rows.iter().map(|row| f64::from(row[0])).collect()
        };
        let size = Size {
            trials: 12,
            batch: 4,
            population: 24,
            threads: 1,
        };
        let search = Evolution::new(&function, &target, 1, size, Box::new(predict));
        let mut search = search.unwrap();
        let mut seen = std::collections::BTreeSet::new();
        for _ in 0..3 {
            let batch = search.generate().unwrap();
            assert_eq!(batch.len(), 4);
            for bred in &batch {
                assert!(seen.insert(bred.trace.0.to_string()), "proposed twice");
                assert_eq!(bred.features.len(), 328);
                let schedule = Schedule::new(&function, 0).unwrap();
                schedule.apply(&bred.trace).unwrap();
            }
            search
                .tell(&[Some(1.0), None, Some(2.0), Some(3.0)])
                .unwrap();
        }
        assert!(asked.get() > 24, "{} asked", asked.get());
        assert!(search.generate().unwrap().is_empty());
    }
}
