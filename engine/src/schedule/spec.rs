//! Schedule specs: what a kernel's schedule is to be, and making it.
//!
//! A schedule spec is decided before anything is compiled, and names the schedule for good. It is the default, knobs of
//! the template space, a sample of MetaSchedule's space by its seed, or a recorded trace. A point's identity is
//! computed from it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use opdata::Decisions;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tvm_bridge::{DesignSpace, PrimFunc, Schedule, Target, Trace};

use super::choice::{Choice, Scheduled};
use super::space::Space;
use super::template::{Templates, default_schedule, plain, with_choice};

/// The specification of a schedule.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "space", rename_all = "snake_case")]
pub enum ScheduleSpec {
    /// The default schedule for the operator's structure.
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
    templates: Box<dyn Templates>,
    target: Target,
    seed: u64,
    designs: Mutex<HashMap<String, Arc<DesignSpace>>>,
}

impl Scheduler {
    /// Makes schedules by `templates` on `target`; `seed` is recorded in their traces.
    pub fn new(templates: Box<dyn Templates>, target: Target, seed: u64) -> Scheduler {
        Scheduler {
            templates,
            target,
            seed,
            designs: Mutex::default(),
        }
    }

    /// The space around the default schedule of `function`.
    ///
    /// # Errors
    /// Fails if TVM does.
    pub fn space(&self, function: &PrimFunc) -> tvm_bridge::Result<Space> {
        self.templates.space(plain(function)?.as_ref())
    }

    /// The default schedule of `function`.
    ///
    /// # Errors
    /// Fails if TVM cannot start a schedule of the function at all.
    pub fn default_schedule(&self, function: &PrimFunc) -> tvm_bridge::Result<Scheduled> {
        default_schedule(function, self.templates.as_ref(), self.seed)
    }

    /// Schedules `function`, which is known by `symbol`.
    ///
    /// # Errors
    /// Fails if the schedule spec does not fit the function.
    pub fn make(
        &self,
        symbol: &str,
        function: &PrimFunc,
        schedule_spec: &ScheduleSpec,
    ) -> tvm_bridge::Result<Scheduled> {
        match schedule_spec {
            ScheduleSpec::Default => self.default_schedule(function),
            ScheduleSpec::Template { choice } => {
                with_choice(function, self.templates.as_ref(), self.seed, choice)
            }
            ScheduleSpec::Metaschedule { seed } => {
                let sample = self
                    .designs(symbol, plain(function)?.as_ref())?
                    .sample(*seed)?;
                let schedule = sample.schedule;
                let decisions = Decisions::of_trace(&schedule.trace()?.0);
                let choice = Choice::sampled(&decisions, sample.refused);
                Ok(Scheduled { schedule, choice })
            }
            ScheduleSpec::Trace { trace } => {
                // The operator's own loops are measured without any transformation.
                let schedule = if *trace == as_is() {
                    Schedule::new(function, self.seed)?
                } else {
                    Schedule::new(plain(function)?.as_ref(), self.seed)?
                };
                schedule.apply(&Trace(trace.clone()))?;
                Ok(Scheduled {
                    schedule,
                    choice: Choice::recorded(),
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

/// The trace that changes nothing.
pub fn as_is() -> Value {
    serde_json::json!([[], []])
}

#[cfg(test)]
mod tests {
    use opdata::{CacheState, PointKey, point_id};

    use super::*;

    /// Choices as rows have held them since version 0.1.0, and the ids of their points then.
    const RECORDED: [(&str, &str); 7] = [
        (
            r#"{"cache_tile":[["oh",2]],"cache_write":"none","epilogue":"outer","fused_outer":2,"level_order":"reduction_between","loop_order":["n","oc"],"padding":"near","parallel_extent":8,"reduction_tile":[["ic",8]],"template":"contraction","tile":[["ow",4]],"unroll":9,"vector_axis":"oc","vector_blocks":2,"vector_length":16}"#,
            "a8a0f30702c6b230",
        ),
        (
            r#"{"cache_tile":[],"cache_write":"local","epilogue":"tile","fused_outer":2,"level_order":"tiles_outside","loop_order":["n","oc"],"padding":"root","parallel_extent":null,"reduction_tile":[],"template":"contraction","tile":[],"unroll":9,"vector_axis":null,"vector_blocks":2,"vector_length":16}"#,
            "6174b0ddc67e73a8",
        ),
        (
            r#"{"parallel_extent":null,"template":"rows","vector_length":16}"#,
            "ef10cc9e05947301",
        ),
        (
            r#"{"parallel_extent":4,"template":"spatial","unroll":2,"vector_length":8}"#,
            "fc8bafa301fda15c",
        ),
        (r#"{"template":"unscheduled"}"#, "e22515d5b6504d81"),
        (r#"{"template":"recorded"}"#, "8dfbf52aa483aca4"),
        (
            r#"{"categories":[],"compute_locations":[],"template":"sampled","tiles":[[1,2,3,4]]}"#,
            "cc50cfd2688dc47a",
        ),
    ];

    #[test]
    fn choices_of_older_rows_are_read_and_their_points_keep_their_ids() {
        let target = r#"{"kind":"llvm","mcpu":"znver5","num-cores":2}"#;
        for (json, id) in RECORDED {
            let choice: Choice = serde_json::from_str(json).unwrap();
            assert_eq!(serde_json::to_value(&choice).unwrap().to_string(), json);
            let schedule = ScheduleSpec::Template { choice }.key();
            let key = PointKey {
                workload: "4fb4db8abd5b77bd",
                schedule: &schedule,
                target,
                threads: 2,
                cache: CacheState::Model,
                seed: 0,
            };
            assert_eq!(point_id(&key), id, "{json}");
        }
    }

    #[test]
    fn choices_without_a_template_serialise_as_ever() {
        let decisions = Decisions {
            tiles: vec![vec![1, 2, 3, 4]],
            ..Decisions::default()
        };
        let made = [
            Choice::unscheduled(),
            Choice::recorded(),
            Choice::sampled(&decisions, 0),
        ];
        for (choice, (json, _)) in made.iter().zip(&RECORDED[4..]) {
            assert!(choice.is_without_template());
            assert_eq!(serde_json::to_value(choice).unwrap().to_string(), *json);
        }
    }
}
