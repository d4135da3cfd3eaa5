//! `metaschedule`: TVM's evolutionary search over its own design space, with this program's measurements. The cost
//! model is this program's too: gradient-boosted trees over TVM's features of the programs.

use std::cell::RefCell;
use std::collections::HashMap;
use std::path::PathBuf;
use std::rc::Rc;

use anyhow::Context as _;
use opengine::schedule::ScheduleSpec;
use oplearn::xgboost::Booster;
use rand::{Rng as _, SeedableRng as _};
use rand_pcg::Pcg64Mcg;
use serde_json::Value;
use tvm_bridge::Target;
use tvm_bridge::evolution::{Bred, Evolution, Size};

use super::grid::Point;
use super::learned::{predict, train};
use super::tuner::{History, SearchState, Tuner};
use crate::operator_ir;

/// Schedules with a time before the first model.
const LEAST: usize = 16;
/// Schedules bred for a batch: a quarter of TVM's number. Breeding 512 takes longer than measuring a batch here.
const POPULATION: usize = 128;
/// Number of trees.
const ROUNDS: u32 = 60;

/// The function that is searched.
#[derive(Debug, Clone)]
pub(super) struct Origin {
    /// Folder of the import.
    pub import: PathBuf,
    /// Name of the function.
    pub symbol: String,
    /// TVM's dictionary of the target.
    pub target: Value,
    /// Maximum number of schedules.
    pub trials: usize,
    /// Threads of the search.
    pub threads: usize,
}

/// The search of one operator.
pub(super) struct MetaSchedule {
    origin: Origin,
    evolution: Option<Evolution>,
    model: Rc<RefCell<Model>>,
    /// The batch before, by the keys of its schedules.
    batch: Vec<(String, Bred)>,
}

/// The model, and its training data.
struct Model {
    features: Vec<Vec<f32>>,
    costs: Vec<f32>,
    booster: Option<Booster>,
    random: Pcg64Mcg,
}

impl Model {
    /// Scores by predicted costs; at random before there is a model.
    fn scores(&mut self, rows: &[Vec<f32>]) -> Vec<f64> {
        let costs = self
            .booster
            .as_ref()
            .and_then(|booster| predict(booster, rows).ok());
        match costs {
            Some(costs) => costs.iter().map(|cost| f64::from(-cost).exp()).collect(),
            None => rows.iter().map(|_| self.random.random()).collect(),
        }
    }

    fn train(&mut self, seed: u64) -> anyhow::Result<()> {
        if self.costs.len() >= LEAST {
            let booster = train(
                &self.features,
                &self.costs,
                "reg:squarederror",
                ROUNDS,
                seed,
            )?;
            self.booster = Some(booster);
        }
        Ok(())
    }
}

impl MetaSchedule {
    pub fn new(origin: Origin, seed: u64) -> MetaSchedule {
        MetaSchedule {
            origin,
            evolution: None,
            model: Rc::new(RefCell::new(Model {
                features: Vec::new(),
                costs: Vec::new(),
                booster: None,
                random: Pcg64Mcg::seed_from_u64(seed),
            })),
            batch: Vec::new(),
        }
    }

    /// Reports the times of the last batch to the search and the model.
    fn learn(&mut self, history: &History, seed: u64) -> anyhow::Result<()> {
        let Some(evolution) = &mut self.evolution else {
            return Ok(());
        };
        let trials = history
            .trials
            .iter()
            .map(|trial| (trial.key.as_str(), trial.cost));
        let costs: HashMap<&str, Option<f64>> = trials.collect();
        let mut model = self.model.borrow_mut();
        let mut times = Vec::new();
        for (key, bred) in self.batch.drain(..) {
            let cost = costs.get(key.as_str()).copied().flatten();
            times.push(cost.map(f64::exp));
            if let Some(cost) = cost {
                model.features.push(bred.features);
                model.costs.push(cost as f32);
            }
        }
        evolution.tell(&times)?;
        model.train(seed)
    }

    fn begin(&self, n: usize, seed: u64) -> anyhow::Result<Evolution> {
        let Origin {
            import,
            symbol,
            target,
            trials,
            threads,
        } = &self.origin;
        let function = operator_ir::module(import)?.prim_func(symbol)?;
        let model = Rc::clone(&self.model);
        let predict = move |rows: &[Vec<f32>]| model.borrow_mut().scores(rows);
        let target = Target::new(target)?;
        let size = Size {
            trials: *trials,
            batch: n,
            population: POPULATION,
            threads: *threads,
        };
        Evolution::new(&function, &target, seed, size, Box::new(predict))
            .with_context(|| format!("MetaSchedule's search of {symbol}"))
    }
}

impl Tuner for MetaSchedule {
    fn propose(&mut self, _: &mut SearchState<'_>, _: usize) -> anyhow::Result<Vec<Point>> {
        Ok(Vec::new())
    }

    fn schedules(
        &mut self,
        search: &mut SearchState<'_>,
        n: usize,
    ) -> anyhow::Result<Vec<(Point, ScheduleSpec)>> {
        let seed = search.random.random();
        self.learn(search.history, seed)?;
        let mut evolution = match self.evolution.take() {
            Some(evolution) => evolution,
            None => self.begin(n, seed)?,
        };
        let batch = evolution.generate()?;
        self.evolution = Some(evolution);
        let spec = |bred: &Bred| ScheduleSpec::Trace {
            trace: bred.trace.0.clone(),
        };
        let specs: Vec<ScheduleSpec> = batch.iter().map(spec).collect();
        let keys = specs.iter().map(ScheduleSpec::key);
        self.batch = keys.zip(batch).collect();
        // Its schedules are no points of the grid.
        Ok(specs.into_iter().map(|spec| (Point::new(), spec)).collect())
    }

    fn leaves_the_grid(&self) -> bool {
        true
    }
}
