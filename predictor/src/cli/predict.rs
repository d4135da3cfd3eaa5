//! `oppredict predict`: a whole model operator by operator, or every row of a dataset.

use std::io::Write;

use opmodels::{Home, ImportRequest, Source as ModelSource, import};

use super::args::PredictArgs;
use super::{model_path, render};
use crate::data::{RowSet, points};
use crate::features::machine::MachineFacts;
use crate::models::Regressor;
use crate::query::Trained;
use crate::query::answer::Detail;

/// Predicts and prints.
pub fn run(args: &PredictArgs) -> anyhow::Result<()> {
    let trained = model_path::load(args.using.model.as_deref())?;
    super::check_target(args.using.target.as_deref(), trained.facts.device_kind)?;
    match (&args.model_file, &args.model_name) {
        (None, None) if args.fast => rows_fast(args, &trained),
        (None, None) => rows(args, &trained),
        (Some(file), _) => network(args, &trained, ModelSource::Onnx, &file.to_string_lossy()),
        (None, Some(name)) => network(args, &trained, ModelSource::Local, name),
    }
}

fn network(
    args: &PredictArgs,
    trained: &Trained,
    source: ModelSource,
    name: &str,
) -> anyhow::Result<()> {
    let machine = trained.machine(args.using.machine.as_deref())?;
    let home = Home::find()?;
    let (registry, tooling, cache) = (home.registry()?, home.tooling(None), home.cache());
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
    let mut answers = Vec::new();
    for batch in batches {
        let request = ImportRequest {
            batch,
            seqlen: args.seqlen,
            ..ImportRequest::new(source, name)
        };
        let imported = import(&request, &registry, &tooling, &cache)?;
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
    if args.using.json {
        println!("{}", serde_json::to_string_pretty(&answers)?);
    } else {
        print!("{}", render::networks(&answers, args.operators));
    }
    Ok(())
}

/// Every row of datasets as CSV, by the fast stand-in: row and time only.
fn rows_fast(args: &PredictArgs, trained: &Trained) -> anyhow::Result<()> {
    let set = RowSet::read(&args.source.sources()?)?;
    let machine = known_machine(args, trained);
    let points = points(&set.rows, &machine);
    let times = trained.fast.predict(&points.iter().collect::<Vec<_>>())?;
    let mut out = std::io::BufWriter::new(std::io::stdout().lock());
    writeln!(out, "row_id,predicted_ns")?;
    for (row, time) in set.rows.iter().zip(times) {
        let time_ns = (time + trained.facts.shifts.of(&row.op_kind)).exp2();
        writeln!(out, "{},{time_ns:.1}", row.row_id)?;
    }
    out.flush()?;
    Ok(())
}

/// The machine named, or the only one; rows of others have no machine that the model knows, and its features are
/// missing then.
fn known_machine(args: &PredictArgs, trained: &Trained) -> MachineFacts {
    trained
        .machine(args.using.machine.as_deref())
        .map_or_else(|_| MachineFacts::named("unknown"), Clone::clone)
}

/// Every row of datasets as CSV: row, prediction, interval, and the measured time where there is one.
fn rows(args: &PredictArgs, trained: &Trained) -> anyhow::Result<()> {
    let set = RowSet::read(&args.source.sources()?)?;
    let machine = known_machine(args, trained);
    let points = points(&set.rows, &machine);
    let kinds: Vec<&str> = set.rows.iter().map(|row| row.op_kind.as_str()).collect();
    let answers = trained.answer(&points, &kinds, args.using.level, Detail::Short)?;
    let mut out = std::io::BufWriter::new(std::io::stdout().lock());
    writeln!(
        out,
        "row_id,op_name,threads,predicted_ns,low_ns,high_ns,knowledge,extrapolates,measured_ns"
    )?;
    let number = |value: Option<f64>| value.map_or_else(String::new, |v| format!("{v:.1}"));
    for (row, answer) in set.rows.iter().zip(&answers) {
        writeln!(
            out,
            "{},{},{},{:.1},{},{},{},{},{}",
            row.row_id,
            row.op_name,
            row.threads.map_or_else(String::new, |t| t.to_string()),
            answer.time_ns,
            number(answer.low_ns),
            number(answer.high_ns),
            render::knowledge(answer.knowledge),
            answer
                .extrapolates
                .iter()
                .map(|o| o.feature)
                .collect::<Vec<_>>()
                .join(" "),
            number(row.time_median_ns),
        )?;
    }
    out.flush()?;
    Ok(())
}
