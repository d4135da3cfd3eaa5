//! `oppredict predict`: a whole model operator by operator, or every row of a dataset.

use std::fmt::Write as _;
use std::sync::atomic::{AtomicUsize, Ordering};

use opdata::Row;
use opinstall::Home;
use oplearn::data::{each_batch, points};
use oplearn::features::machine::MachineFacts;
use oplearn::models::Regressor;
use opmodels::{ImportRequest, Importer, Source as ModelSource};
use opreport::output::{Stream, say};
use rayon::prelude::*;

use super::args::{PredictArgs, tell_left_out};
use super::show::show;
use super::{model_path, render};
use crate::model::Trained;
use crate::query::Answer;
use crate::query::answer::Detail;

/// Predicts and prints.
pub fn run(args: &PredictArgs) -> anyhow::Result<()> {
    let trained = model_path::load(args.using.model.as_deref())?;
    super::check_target(args.using.target.as_deref(), trained.facts.device_kind)?;
    match (&args.model_file, &args.model_name) {
        (None, None) if args.fast => rows_fast(args, &trained),
        (None, None) => rows(args, &trained),
        (Some(file), _) => network(args, &trained, ModelSource::ONNX, &file.to_string_lossy()),
        (None, Some(name)) => network(args, &trained, ModelSource::LOCAL, name),
    }
}

fn network(
    args: &PredictArgs,
    trained: &Trained,
    source: ModelSource,
    name: &str,
) -> anyhow::Result<()> {
    let machine = trained.machine(args.using.machine.as_deref())?;
    let importer = Importer::new(&Home::find()?, None)?;
    let batches: Vec<Option<u64>> = if args.batch.is_empty() {
        vec![None]
    } else {
        args.batch.iter().copied().map(Some).collect()
    };
    let detail = if args.explain {
        Detail::Full
    } else {
        Detail::Short
    };
    for &threads in args.threads.iter() {
        trained.check_threads(threads, machine)?;
    }
    let mut answers = Vec::new();
    for batch in batches {
        let request = ImportRequest {
            batch,
            seqlen: args.seqlen,
            ..ImportRequest::new(source, name)
        };
        let imported = importer.import(&request)?;
        for &threads in args.threads.iter() {
            answers.push(trained.network(
                &imported.graph,
                threads,
                machine,
                args.using.level,
                detail,
            )?);
        }
    }
    show(args.using.json, &answers, || {
        render::networks(&answers, args.operators, args.explain)
            + &render::origin(&trained.facts, machine, args.using.level)
    })
}

/// The machine named, or the only one; rows of others have no machine that the model knows, and its features are
/// missing then.
fn known_machine(args: &PredictArgs, trained: &Trained) -> MachineFacts {
    trained
        .machine(args.using.machine.as_deref())
        .map_or_else(|_| MachineFacts::named("unknown"), Clone::clone)
}

/// Rows that are answered together: enough for all cores, and little memory whatever the file's size.
const TOGETHER: usize = 16_384;
/// Rows that are written by one task.
const WRITTEN: usize = 512;

/// Every row of datasets as CSV: row, prediction, interval, and the measured time where there is one.
fn rows(args: &PredictArgs, trained: &Trained) -> anyhow::Result<()> {
    let machine = known_machine(args, trained);
    let device = trained.facts.device_kind;
    let (foreign, answered) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let header =
        "row_id,op_name,threads,predicted_ns,low_ns,high_ns,knowledge,extrapolates,measured_ns";
    table(args, header, |rows, text| {
        // Rows of the model's device are answered; what others take it cannot know.
        for some in rows.chunk_by(|a, b| (a.device_kind == device) == (b.device_kind == device)) {
            if some[0].device_kind != device {
                foreign.fetch_add(some.len(), Ordering::Relaxed);
                for row in some {
                    foreign_line(text, row)?;
                }
                continue;
            }
            answered.fetch_add(some.len(), Ordering::Relaxed);
            let answers = trained.answer_rows(some, &machine, args.using.level, Detail::Short)?;
            for (row, answer) in some.iter().zip(&answers) {
                line(text, row, answer)?;
            }
        }
        Ok(())
    })?;
    let (foreign, answered) = (foreign.into_inner(), answered.into_inner());
    if foreign > 0 && answered == 0 {
        anyhow::bail!(
            "none of the {foreign} rows is of {device}, which the model predicts for; name another model with --model"
        );
    }
    if foreign > 0 {
        say(&format!(
            "{foreign} of {} rows are of other devices than {device}, which the model predicts for: no prediction",
            foreign + answered
        ));
    }
    if let Some(share) = trained.facts.disturbed.filter(|share| *share > 0.0) {
        say(&format!("the model: {}", render::disturbed(share)));
    }
    Ok(())
}

/// The line of a row that the model cannot answer, because it is of another kind of device.
fn foreign_line(text: &mut String, row: &Row) -> std::fmt::Result {
    let threads = row.threads.map_or_else(String::new, |t| t.to_string());
    let measured = row
        .time_median_ns
        .map_or_else(String::new, |t| format!("{t:.1}"));
    writeln!(
        text,
        "{},{},{threads},,,,other_device,,{measured}",
        row.row_id, row.op_name
    )
}

fn line(text: &mut String, row: &Row, answer: &Answer) -> std::fmt::Result {
    let number = |value: Option<f64>| value.map_or_else(String::new, |v| format!("{v:.1}"));
    write!(text, "{},{},", row.row_id, row.op_name)?;
    if let Some(threads) = row.threads {
        write!(text, "{threads}")?;
    }
    write!(
        text,
        ",{:.1},{},{},{},",
        answer.time_ns,
        number(answer.low_ns),
        number(answer.high_ns),
        render::knowledge(answer.knowledge),
    )?;
    for (place, outside) in answer.extrapolates.iter().enumerate() {
        let before = if place == 0 { "" } else { " " };
        write!(text, "{before}{}", outside.feature)?;
    }
    writeln!(text, ",{}", number(row.time_median_ns))
}

/// Every row of datasets as CSV, by the fast stand-in: row and time only.
fn rows_fast(args: &PredictArgs, trained: &Trained) -> anyhow::Result<()> {
    if trained.is_adapted() {
        anyhow::bail!(
            "the model was adapted to another machine, for which it has no fast stand-in; leave --fast out"
        );
    }
    let machine = known_machine(args, trained);
    let device = trained.facts.device_kind;
    table(args, "row_id,predicted_ns", |rows, text| {
        if let Some(foreign) = rows.iter().find(|row| row.device_kind != device) {
            anyhow::bail!(
                "row {} is of {}, and the model predicts for {device}; leave --fast out for a prediction of the others",
                foreign.row_id,
                foreign.device_kind
            );
        }
        let points = points(rows, &machine);
        let times = trained.fast.predict(&points.iter().collect::<Vec<_>>())?;
        for (row, time) in rows.iter().zip(times) {
            let time_ns = (time + trained.facts.unseen.shifts.of(&row.op_kind)).exp2();
            writeln!(text, "{},{time_ns:.1}", row.row_id)?;
        }
        Ok(())
    })
}

/// Prints a header and what `answer` writes of all rows, in their order and on all cores.
fn table(
    args: &PredictArgs,
    header: &str,
    answer: impl Fn(&[Row], &mut String) -> anyhow::Result<()> + Sync,
) -> anyhow::Result<()> {
    let mut out = Stream::stdout();
    out.write(format!("{header}\n").as_bytes())?;
    let mut print = |rows: &mut Vec<Row>| -> anyhow::Result<()> {
        let texts: Vec<String> = rows
            .par_chunks(WRITTEN)
            .map(|some| {
                let mut text = String::new();
                answer(some, &mut text).map(|()| text)
            })
            .collect::<anyhow::Result<_>>()?;
        rows.clear();
        for text in texts {
            out.write(text.as_bytes())?;
        }
        Ok(())
    };
    let mut waiting = Vec::new();
    let left_out = each_batch(&args.source.sources()?, |rows| {
        waiting.append(rows);
        if waiting.len() >= TOGETHER {
            print(&mut waiting)?;
        }
        Ok::<_, anyhow::Error>(())
    })?;
    print(&mut waiting)?;
    tell_left_out(&left_out);
    Ok(out.finish()?)
}
