//! A what-if table: one operator at every combination of batch sizes and numbers of threads.

use opdata::DeviceKind;
use serde::{Deserialize, Serialize};

use super::answer::{Answer, Detail};
use super::operator::OperatorQuery;
use crate::error::{Error, Result};
use crate::model::trained::Trained;

/// The question.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(
    deny_unknown_fields,
    expecting = "an object with op, input and the operator's other attributes"
)]
pub struct WhatIf {
    /// Kind of the operator.
    pub op: String,
    /// Shape of the input, channels first.
    pub input: Vec<u64>,
    /// Shape of the output, for kinds whose output does not follow from the input; the input's shape if missing.
    #[serde(default)]
    pub output: Option<Vec<u64>>,
    /// Extents of the window.
    #[serde(default)]
    pub kernel: Vec<u64>,
    /// Output channels, or columns of a product.
    #[serde(default)]
    pub channels: Option<u64>,
    /// Strides.
    #[serde(default)]
    pub stride: Vec<u64>,
    /// Padding on each side.
    #[serde(default)]
    pub padding: Option<Vec<u64>>,
    /// Groups.
    #[serde(default = "one")]
    pub groups: u64,
    /// Numbers of threads; 1 if empty.
    #[serde(default)]
    pub threads: Vec<u64>,
    /// Batch sizes in place of the input's own.
    #[serde(default)]
    pub batch: Vec<u64>,
    /// Level of the intervals, 0 to 1.
    #[serde(default = "ninety")]
    pub level: f64,
    /// The machine, where the model knows several.
    #[serde(default)]
    pub machine: Option<String>,
}

fn one() -> u64 {
    1
}

fn ninety() -> f64 {
    0.9
}

/// One line of the table.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Line {
    /// Batch, the first extent of the input.
    pub batch: u64,
    /// Threads, where the device has them.
    pub threads: Option<u64>,
    /// The prediction.
    #[serde(flatten)]
    pub answer: Answer,
}

impl WhatIf {
    /// Lines that the table has.
    pub fn lines(&self) -> usize {
        self.threads
            .len()
            .max(1)
            .saturating_mul(self.batch.len().max(1))
    }

    /// Asks a model, with the given amount of detail.
    ///
    /// # Errors
    /// Fails if a shape does not fit the operator, a number is 0 or absurd, the machine is not known, or XGBoost's
    /// library fails.
    pub fn ask(&self, trained: &Trained, detail: Detail) -> Result<Vec<Line>> {
        if !(self.level > 0.0 && self.level < 1.0) {
            return Err(Error::Query(
                "the level of an interval is between 0 and 1".to_owned(),
            ));
        }
        if self.threads.contains(&0) || self.batch.contains(&0) {
            return Err(Error::Query(
                "threads and batch sizes are above 0".to_owned(),
            ));
        }
        let machine = trained.machine(self.machine.as_deref())?;
        for &threads in &self.threads {
            trained.check_threads(threads, machine)?;
        }
        let queries = self.queries(trained);
        let rows = queries
            .iter()
            .map(OperatorQuery::row)
            .collect::<Result<Vec<_>>>()?;
        let answers = trained.answer_rows(&rows, machine, self.level, detail)?;
        Ok(queries
            .iter()
            .zip(answers)
            .map(|(query, answer)| Line {
                batch: query.input.first().copied().unwrap_or(1),
                threads: query.threads,
                answer,
            })
            .collect())
    }

    fn queries(&self, trained: &Trained) -> Vec<OperatorQuery> {
        let device_kind = trained.facts.device_kind;
        let threads: Vec<Option<u64>> = match device_kind {
            DeviceKind::CPU if self.threads.is_empty() => vec![Some(1)],
            DeviceKind::CPU => self.threads.iter().copied().map(Some).collect(),
            _ => vec![None],
        };
        let own = self.input.first().copied().unwrap_or(1);
        let batches = if self.batch.is_empty() {
            vec![own]
        } else {
            self.batch.clone()
        };
        let mut queries = Vec::new();
        for &batch in &batches {
            for &threads in &threads {
                let mut input = self.input.clone();
                if let Some(first) = input.first_mut() {
                    *first = batch;
                }
                queries.push(OperatorQuery {
                    op: self.op.clone(),
                    input,
                    output: self.output.clone().map(|mut output| {
                        if let (Some(first), false) = (output.first_mut(), self.batch.is_empty()) {
                            *first = batch;
                        }
                        output
                    }),
                    kernel: self.kernel.clone(),
                    channels: self.channels,
                    stride: self.stride.clone(),
                    padding: self.padding.clone(),
                    groups: self.groups,
                    threads,
                    cache: trained.facts.usual_cache,
                    device_kind,
                });
            }
        }
        queries
    }
}
