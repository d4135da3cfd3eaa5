//! The chosen schedule of an operator: a template and its knobs, open to the templates of any device.

use opdata::Decisions;
use opdata::contract::knobs::Algorithm;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use tvm_bridge::Schedule;

/// A template with its knobs.
///
/// The knobs are typed where the template is, in its device's folder; here they are the JSON that rows, plans and points
/// files hold: `{"template": "spatial", "vector_length": 16, …}`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Choice {
    /// Name of the template.
    pub template: String,
    /// Its knobs by name.
    #[serde(flatten)]
    pub knobs: Map<String, Value>,
}

impl Choice {
    /// Template of an operator as TVM's operator library wrote it.
    pub const UNSCHEDULED: &'static str = "unscheduled";
    /// Template of a sample of MetaSchedule's space.
    pub const SAMPLED: &'static str = "sampled";
    /// Name of the template for a recorded trace.
    pub const RECORDED: &'static str = "recorded";
    /// Template of a convolution by another algorithm than the direct one.
    pub const CONVOLUTION: &'static str = "convolution";

    /// An operator as TVM's operator library wrote it.
    pub fn unscheduled() -> Choice {
        Choice::bare(Choice::UNSCHEDULED)
    }

    /// The choice for a recorded trace.
    pub fn recorded() -> Choice {
        Choice::bare(Choice::RECORDED)
    }

    /// A sample of MetaSchedule's space, and the number of samples refused before it; 0 adds no knob.
    pub fn sampled(decisions: &Decisions, refused: u64) -> Choice {
        let mut choice = Choice::new(Choice::SAMPLED, decisions);
        if refused > 0 {
            choice.knobs.insert("refused".to_owned(), refused.into());
        }
        choice
    }

    /// A template with knobs that serialise as a JSON object; anything else counts as no knobs.
    pub fn new(template: &str, knobs: &impl Serialize) -> Choice {
        let knobs = match serde_json::to_value(knobs) {
            Ok(Value::Object(knobs)) => knobs,
            _ => Map::new(),
        };
        Choice {
            knobs,
            ..Choice::bare(template)
        }
    }

    /// The knobs as the type that the template has for them.
    ///
    /// # Errors
    /// Fails if a knob is missing or has another type.
    pub fn knobs<T: DeserializeOwned>(&self) -> Result<T, serde_json::Error> {
        serde_json::from_value(Value::Object(self.knobs.clone()))
    }

    /// Whether it has no template of a device: as written, sampled or recorded.
    pub fn is_without_template(&self) -> bool {
        [Self::UNSCHEDULED, Self::SAMPLED, Self::RECORDED].contains(&self.template.as_str())
    }

    /// Whether the schedule starts from another program than the operator's, so that its trace applies to that one alone.
    pub fn rewrites_program(&self) -> bool {
        let is_schedule = |name: &Value| name == Algorithm::Pixels.word();
        self.template == Self::CONVOLUTION && !self.knobs.get("algorithm").is_some_and(is_schedule)
    }

    fn bare(template: &str) -> Choice {
        Choice {
            template: template.to_owned(),
            knobs: Map::new(),
        }
    }
}

/// A scheduled operator.
#[derive(Debug)]
pub struct Scheduled {
    /// The schedule, with its trace.
    pub schedule: Schedule,
    /// The chosen schedule.
    pub choice: Choice,
}

/// The error of a template that does not fit an operator.
pub fn unfit(reason: &str) -> tvm_bridge::Error {
    tvm_bridge::Error::Unexpected {
        call: "schedule template".to_owned(),
        reason: reason.to_owned(),
    }
}
