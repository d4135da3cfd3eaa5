//! Recipes: what a kernel's schedule is to be, and making it.
//!
//! A schedule spec is decided before anything is compiled and names the schedule for ever: the default, knobs of the template
//! space, a sample of MetaSchedule's space by its seed, or a recorded trace. It is what a point's identity is made of.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use opdata::Decisions;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tvm_bridge::{DesignSpace, PrimFunc, Schedule, Target, Trace};

use super::{Choice, Scheduled, VectorUnit, default_schedule, with_choice};

/// What a schedule is to be.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "space", rename_all = "snake_case")]
pub enum ScheduleSpec {
    /// What the operator's structure suggests.
    Default,
    /// Knobs of the template space.
    Template {
        /// The knobs.
        choice: Choice,
    },
    /// A sample of MetaSchedule's space.
    Metaschedule {
        /// Its seed.
        seed: u64,
    },
    /// A recorded trace, of this tool or of a MetaSchedule database.
    Trace {
        /// TVM's JSON of the trace.
        trace: Value,
    },
}

impl ScheduleSpec {
    /// The space's name in the dataset.
    pub fn space(&self) -> &'static str {
        match self {
            ScheduleSpec::Default => "default",
            ScheduleSpec::Template { .. } => "template",
            ScheduleSpec::Metaschedule { .. } => "metaschedule",
            ScheduleSpec::Trace { .. } => "trace",
        }
    }

    /// The schedule spec as text: equal for equal schedule specs.
    pub fn key(&self) -> String {
        serde_json::to_value(self).map_or_else(|_| String::new(), |v| v.to_string())
    }
}

/// Makes schedules by schedule specs; keeps what is costly to find out about a function.
#[derive(Debug)]
pub struct Scheduler {
    unit: VectorUnit,
    target: Target,
    seed: u64,
    designs: Mutex<HashMap<String, Arc<DesignSpace>>>,
}

impl Scheduler {
    /// For schedules on `unit`; `seed` is recorded in their traces.
    pub fn new(unit: VectorUnit, target: Target, seed: u64) -> Scheduler {
        Scheduler {
            unit,
            target,
            seed,
            designs: Mutex::default(),
        }
    }

    /// Schedules `function`, which is known by `symbol`.
    ///
    /// # Errors
    /// The schedule spec does not fit the function.
    pub fn make(
        &self,
        symbol: &str,
        function: &PrimFunc,
        schedule_spec: &ScheduleSpec,
    ) -> tvm_bridge::Result<Scheduled> {
        match schedule_spec {
            ScheduleSpec::Default => default_schedule(function, self.unit, self.seed),
            ScheduleSpec::Template { choice } => {
                with_choice(function, self.unit, self.seed, choice)
            }
            ScheduleSpec::Metaschedule { seed } => {
                let schedule = self.designs(symbol, function)?.sample(*seed)?;
                let choice = Choice::Sampled(Decisions::of_trace(&schedule.trace()?.0));
                Ok(Scheduled { schedule, choice })
            }
            ScheduleSpec::Trace { trace } => {
                let schedule = Schedule::new(function, self.seed)?;
                schedule.apply(&Trace(trace.clone()))?;
                Ok(Scheduled {
                    schedule,
                    choice: Choice::Recorded,
                })
            }
        }
    }

    fn designs(&self, symbol: &str, function: &PrimFunc) -> tvm_bridge::Result<Arc<DesignSpace>> {
        let known = |s: &Self| s.designs.lock().ok()?.get(symbol).cloned();
        if let Some(found) = known(self) {
            return Ok(found);
        }
        // Two threads may make the same space at once; it comes out the same.
        let made = Arc::new(DesignSpace::generate(function, &self.target, self.seed)?);
        if let Ok(mut designs) = self.designs.lock() {
            designs.insert(symbol.to_owned(), made.clone());
        }
        Ok(made)
    }
}
