//! A whole model: its operators as rows that were never measured, and the sum of their times.
//!
//! Operators are taken as the default schedules run them, inside a model. An operator that the training data has a
//! measurement of counts with it, all others with the predicted time. The sum leaves nothing out: an operator of an
//! unknown kind counts with its estimate. The coverage is the share of the sum from kinds in the training data.

use std::collections::BTreeSet;

use opdata::{CacheState, DeviceKind, Row};
use oplearn::data::{QueryKey, points};
use oplearn::features::Point;
use oplearn::features::machine::MachineFacts;
use opmodels::graph::Operator;
use opmodels::{Graph, describe};
use serde::Serialize;

use super::answer::{Answer, Detail, Knowledge};
use super::blank::blank;
use crate::error::{Error, Result};
use crate::eval::whole::PartSpread;
use crate::model::trained::Trained;

/// One operator of a model.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct OperatorAnswer {
    /// Name of the fused operator.
    pub name: String,
    /// Kind.
    pub kind: String,
    /// Shapes of inputs and outputs, window, and stride where it is not 1.
    pub shapes: String,
    /// Layers of the model that call it, in the order of their first calls.
    pub layers: Vec<String>,
    /// Calls in the model.
    pub count: u64,
    /// Time of all calls, ns.
    pub total_ns: f64,
    /// Share of the sum of all operators, 0 to 1.
    pub share: f64,
    /// One call inside the model.
    pub answer: Answer,
}

/// A whole model.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct NetworkAnswer {
    /// The model.
    pub model: String,
    /// Its batch size.
    pub batch: u64,
    /// Threads.
    pub threads: u64,
    /// Expected time of the whole, ns.
    pub time_ns: f64,
    /// Lower end of the interval, ns; missing if the model could not be calibrated.
    pub low_ns: Option<f64>,
    /// Upper end.
    pub high_ns: Option<f64>,
    /// Level of the interval, 0 to 1.
    pub level: f64,
    /// Time between the operators, ns.
    pub between_ns: f64,
    /// Whole over the sum of operators, as learned from whole models.
    pub factor: f64,
    /// Number of whole models that the factor was fitted to.
    pub factor_models: usize,
    /// Share of the sum from kinds in the training data, 0 to 1.
    pub coverage: f64,
    /// Share of the sum from operators that were themselves measured, 0 to 1.
    pub measured: f64,
    /// The operators, longest first.
    pub operators: Vec<OperatorAnswer>,
}

/// An operator inside a model.
struct Inside {
    /// The expected time, ns: the centre of its distribution. Sums add these.
    centre_ns: f64,
    answer: Answer,
}

/// The row of an operator that was never measured.
pub fn row(operator: &Operator, graph: &Graph, threads: u64, device_kind: DeviceKind) -> Row {
    let mut row = Row {
        model_name: Some(graph.model.clone()),
        batch: Some(graph.batch),
        workload_hash: Some(operator.workload_hash()),
        threads: Some(threads),
        cache_state: Some(CacheState::Model),
        ..blank(&operator.name, operator.kind.name(), device_kind)
    };
    describe(operator, &mut row);
    row
}

/// The attributes that distinguish an operator from others of its kind: shapes, window and stride.
fn shapes(row: &Row) -> String {
    let shapes: Vec<String> = [&row.input_shapes, &row.output_shapes]
        .into_iter()
        .flatten()
        .map(ToString::to_string)
        .collect();
    let window = row.kernel.as_ref().map(|k| format!(", window {k}"));
    // The description of an operator leaves out a stride of 1.
    let stride = row
        .stride
        .as_ref()
        .filter(|s| s.0.iter().any(|step| *step != 1));
    let stride = stride.map(|s| format!(", stride {s}"));
    [Some(shapes.join(" → ")), window, stride]
        .into_iter()
        .flatten()
        .collect()
}

impl Trained {
    /// Predicts a whole model at a number of threads.
    ///
    /// # Errors
    /// Fails if the model has seen searches of schedules alone, without default schedules, or if XGBoost's library
    /// fails.
    pub fn network(
        &self,
        graph: &Graph,
        threads: u64,
        machine: &MachineFacts,
        level: f64,
        detail: Detail,
    ) -> Result<NetworkAnswer> {
        self.check_schedules(graph)?;
        let rows: Vec<Row> = graph
            .operators
            .iter()
            .map(|operator| row(operator, graph, threads, self.facts.device_kind))
            .collect();
        let answers = self.inside(&rows, machine, level, detail)?;
        let totals: Vec<f64> = answers
            .iter()
            .zip(&graph.operators)
            .map(|(answer, operator)| answer.centre_ns * operator.count as f64)
            .collect();
        let sum: f64 = totals.iter().sum();
        let share = |wanted: fn(Knowledge) -> bool| -> f64 {
            let of = totals.iter().zip(&answers);
            // `sum` would return −0 for an empty iterator.
            of.filter(|(_, inside)| wanted(inside.answer.knowledge))
                .fold(0.0, |share, (total, _)| share + total / sum)
        };
        let calls: u64 = graph.operators.iter().map(|o| o.count).sum();
        let between_ns = self.facts.whole.between(threads, calls as f64);
        let measured = share(|knowledge| knowledge == Knowledge::Measured);
        let coverage = share(|knowledge| knowledge != Knowledge::UnknownKind);
        // Measured operators have no error in common that a factor could take away.
        let factor = self.facts.whole.at(Some(threads)) * (1.0 - measured) + measured;
        let time_ns = sum * factor + between_ns;
        let answers: Vec<Answer> = answers.into_iter().map(|inside| inside.answer).collect();
        let (low_ns, high_ns) = self.sum_interval(time_ns, &totals, &answers, level, measured);
        let layers = graph.layers();
        let layers_of = |operator: &Operator| -> Vec<String> {
            let own = layers.get(operator.symbol.as_str()).into_iter().flatten();
            own.map(|layer| (*layer).to_owned()).collect()
        };
        let mut operators: Vec<OperatorAnswer> = answers
            .into_iter()
            .zip(totals.iter().zip(graph.operators.iter().zip(&rows)))
            .map(|(answer, (total, (operator, row)))| OperatorAnswer {
                name: operator.name.clone(),
                kind: row.op_kind.clone(),
                shapes: shapes(row),
                layers: layers_of(operator),
                count: operator.count,
                total_ns: *total,
                share: total / sum,
                answer,
            })
            .collect();
        operators.sort_by(|a, b| b.total_ns.total_cmp(&a.total_ns));
        Ok(NetworkAnswer {
            model: graph.model.clone(),
            batch: graph.batch,
            threads,
            time_ns,
            low_ns,
            high_ns,
            level,
            between_ns,
            factor,
            factor_models: self.facts.whole.models,
            coverage,
            measured,
            operators,
        })
    }

    /// Refuses a model trained on schedule searches alone, such as a tuner's logs. Most schedules in them are slow, and
    /// the default one is missing. Sums over a network would be many times too long.
    fn check_schedules(&self, graph: &Graph) -> Result<()> {
        let facts = &self.facts;
        // Tables of libraries have one time for each workload and number of threads.
        let cases = facts.workloads * facts.threads.len().max(1);
        if !self.known.is_empty() || facts.samples <= 2 * cases {
            return Ok(());
        }
        let kinds: BTreeSet<&str> = graph.operators.iter().map(|o| o.kind.name()).collect();
        let strangers: Vec<&str> = kinds
            .into_iter()
            .filter(|kind| !facts.kinds.contains_key(*kind))
            .collect();
        let strangers = match strangers.is_empty() {
            true => String::new(),
            false => format!(", and nothing of {}", strangers.join(", ")),
        };
        Err(Error::Query(format!(
            "{} cannot be predicted: the model knows {} tries of {} workloads by tuners or sweeps, none with the default \
             schedule that a whole model runs{strangers}; train it with rows that opcollect measured of whole models for {} \
             among the data",
            graph.model, facts.samples, facts.workloads, facts.device_kind
        )))
    }

    /// Each operator inside a model: as it was measured, or as it is predicted.
    fn inside(
        &self,
        rows: &[Row],
        machine: &MachineFacts,
        level: f64,
        detail: Detail,
    ) -> Result<Vec<Inside>> {
        let points = points(rows, machine);
        let kinds: Vec<&str> = rows.iter().map(|row| row.op_kind.as_str()).collect();
        let all: Vec<&Point> = points.iter().collect();
        // The bias correction is for relative errors of single points; sums want the centre.
        let centres = self.expected(&all, &kinds)?;
        let answers = self.explained(&points, &kinds, &centres, (level, detail))?;
        let known = |row| self.known.get(&QueryKey::of_row(row)?, &machine.id);
        Ok(rows
            .iter()
            .zip(answers)
            .zip(centres.into_iter().zip(&points))
            .map(|((row, mut answer), (expected, point))| {
                let inside = |alone| self.context.time(point, row.threads, alone);
                match known(row) {
                    Some(times) => {
                        let time = times
                            .log2_in_model
                            .unwrap_or_else(|| inside(times.log2_time));
                        answer.measured(time, times);
                        Inside {
                            centre_ns: time.exp2(),
                            answer,
                        }
                    }
                    None => {
                        let time = inside(expected.centre);
                        answer.move_to(answer.time_ns * (time - expected.centre).exp2());
                        Inside {
                            centre_ns: time.exp2(),
                            answer,
                        }
                    }
                }
            })
            .collect())
    }

    /// The interval of a sum, by the errors of whole models and the operators' own intervals. Where too few models were
    /// seen, it is as if all operators erred together, which is the widest it can be. `None` where an operator has
    /// none.
    fn sum_interval(
        &self,
        time_ns: f64,
        totals: &[f64],
        answers: &[Answer],
        level: f64,
        measured: f64,
    ) -> (Option<f64>, Option<f64>) {
        let sum: f64 = totals.iter().sum();
        let spread = totals.iter().zip(answers).map(|(total, answer)| {
            let share = total / sum;
            let ends = [
                answer.time_ns / answer.low_ns?,
                answer.high_ns? / answer.time_ns,
            ];
            let ends = ends.map(|end| end.log2().max(0.0));
            Some(PartSpread { share, ends })
        });
        let Some(parts) = spread.collect::<Option<Vec<PartSpread>>>() else {
            return (None, None);
        };
        let [low, high] = self
            .facts
            .whole
            .ends(level, measured, &parts)
            .unwrap_or_else(|| {
                let together = |end: usize, sign: f64| -> f64 {
                    let sum: f64 = parts
                        .iter()
                        .map(|p| p.share * (sign * p.ends[end]).exp2())
                        .sum();
                    sign * sum.log2()
                };
                [together(0, -1.0), together(1, 1.0)]
            });
        (Some(time_ns * (-low).exp2()), Some(time_ns * high.exp2()))
    }
}

#[cfg(test)]
mod tests {
    use oplearn::data::{Dataset, Machines, RowSet};
    use oplearn::models::FitOptions;
    use oplearn::testing::dense_row;

    use super::*;
    use crate::model::{TrainOptions, train};

    /// A model of six workloads with eight schedules each; the first is of this space.
    fn trained(first: &str) -> Trained {
        let row = |number: u64| {
            let mut row = dense_row(1, 16 * (1 + number / 8), 256, "{}");
            row.row_id = format!("run.{number:06}");
            row.point_id = number.to_string();
            row.workload_hash = Some((number / 8).to_string());
            row.threads = Some(1);
            row.cache_state = Some(CacheState::Hot);
            row.time_median_ns = Some(1000.0 * (1 + number) as f64);
            let space = if number.is_multiple_of(8) {
                first
            } else {
                "autotvm"
            };
            row.schedule_space = Some(space.to_owned());
            row
        };
        let set = RowSet::from((0..48).map(row).collect::<Vec<_>>());
        let dataset = Dataset::new(&set, &Machines::Single).unwrap();
        let options = TrainOptions {
            fit: FitOptions::default(),
        };
        train(&dataset, DeviceKind::CPU, &options, &()).unwrap()
    }

    #[test]
    fn a_model_of_searches_alone_refuses_whole_models() {
        let graph: Graph = serde_json::from_value(serde_json::json!({
            "format": 1, "source": "simple", "model": "pair", "versions": {
                "tvm": "0", "tvm_ffi": "0", "onnx": "0", "python": "3" },
            "batch": 1, "entry": "main", "inputs": [], "outputs": [], "reference": null,
            "operators": [], "calls": [],
        }))
        .unwrap();
        let refused = trained("autotvm").check_schedules(&graph).unwrap_err();
        let expected = "the model knows 48 tries of 6 workloads by tuners or sweeps";
        assert!(refused.to_string().contains(expected), "{refused}");
        assert!(trained("default").check_schedules(&graph).is_ok());
    }
}
