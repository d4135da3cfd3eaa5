//! `oppredict query`: one operator, at every combination of the threads and batch sizes asked for.

use serde::Serialize;

use super::args::QueryArgs;
use super::{model_path, render};
use crate::data::points;
use crate::query::Answer;
use crate::query::answer::Detail;
use crate::query::question::Question;

/// One line of the what-if table.
#[derive(Debug, Clone, Serialize)]
pub struct Line {
    /// Batch, the first extent of the input.
    pub batch: u64,
    /// Threads, where the device has them.
    pub threads: Option<u64>,
    /// The prediction.
    #[serde(flatten)]
    pub answer: Answer,
}

/// Asks and prints.
pub fn run(args: &QueryArgs) -> anyhow::Result<()> {
    let trained = model_path::load(args.using.model.as_deref(), 1)?;
    let machine = trained.machine(args.using.machine.as_deref())?;
    let device_kind = trained.facts.device_kind;
    super::check_target(args.using.target.as_deref(), device_kind)?;
    let threads: Vec<Option<u64>> = match device_kind {
        opdata::DeviceKind::Cpu => args.threads.iter().copied().map(Some).collect(),
        _ => vec![None],
    };
    let input = &args.input.0;
    let batches = if args.batch.is_empty() {
        vec![input.first().copied().unwrap_or(1)]
    } else {
        args.batch.to_vec()
    };
    let mut questions = Vec::new();
    for &batch in &batches {
        for &threads in &threads {
            let mut shape = input.clone();
            if let Some(first) = shape.first_mut() {
                *first = batch;
            }
            questions.push(Question {
                op: args.op.clone(),
                input: shape,
                kernel: args.kernel.as_ref().map_or_else(Vec::new, |d| d.0.clone()),
                channels: args.channels,
                stride: args.stride.as_ref().map_or_else(Vec::new, |d| d.0.clone()),
                padding: args.padding.as_ref().map(|d| d.0.clone()),
                groups: args.groups,
                threads,
                cache: trained.facts.usual_cache,
                device_kind,
            });
        }
    }
    let rows = questions
        .iter()
        .map(Question::row)
        .collect::<Result<Vec<_>, _>>()?;
    let kinds: Vec<&str> = rows.iter().map(|row| row.op_kind.as_str()).collect();
    let answers = trained.answer(
        &points(&rows, machine),
        &kinds,
        args.using.level,
        Detail::Full,
    )?;
    let lines: Vec<Line> = questions
        .iter()
        .zip(answers)
        .map(|(question, answer)| Line {
            batch: question.input.first().copied().unwrap_or(1),
            threads: question.threads,
            answer,
        })
        .collect();
    if args.using.json {
        println!("{}", serde_json::to_string_pretty(&lines)?);
    } else {
        print!("{}", render::query(&args.op, &lines));
    }
    Ok(())
}
