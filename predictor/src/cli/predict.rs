//! `oppredict predict`: a whole model operator by operator, or every row of a dataset.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};

use opdata::Row;
use opinstall::Home;
use oplearn::data::each_batch;
use oplearn::features::machine::MachineFacts;
use opmodels::{ImportRequest, Importer, Source as ModelSource};
use opreport::Misuse;
use opreport::output::{Stream, say};
use rayon::prelude::*;

use super::args::{PredictArgs, SourceArgs, report_left_out};
use super::model_path;
use super::show::show;
use crate::model::Trained;
use crate::query::Answer;
use crate::query::answer::Detail;
use crate::render;

/// Predicts and prints.
pub fn run(args: &PredictArgs) -> anyhow::Result<()> {
    let trained = model_path::load(args.using.model.as_deref())?;
    super::check_target(args.using.target.as_deref(), trained.facts.device_kind)?;
    if args.devices.devices.is_some() && args.compare.is_none() {
        return Err(Misuse(
            "--devices: figures of a log's machines are read with --compare alone; leave it out"
                .to_owned(),
        )
        .into());
    }
    if let Some(runs) = &args.compare {
        return compare(args, runs, &trained);
    }
    match (&args.model_file, &args.model_name) {
        (None, None) => rows(args, &trained),
        (Some(file), _) => network(args, &trained, ModelSource::ONNX, &file.to_string_lossy()),
        (None, Some(name)) => network(args, &trained, args.model_source, name),
    }
}

fn network(
    args: &PredictArgs,
    trained: &Trained,
    source: ModelSource,
    name: &str,
) -> anyhow::Result<()> {
    let machine = trained.machine(args.using.machine.as_deref())?;
    // Checked before the import, which takes seconds.
    for &threads in args.threads.iter() {
        trained.check_threads(threads, machine)?;
    }
    let importer = Importer::new(&Home::find()?, None)?;
    let detail = Detail::of(args.explain);
    let mut answers = Vec::new();
    for batch in args.batch.or_none() {
        let request = ImportRequest {
            batch,
            seqlen: args.seqlen,
            ..ImportRequest::new(source, name)
        };
        let imported = importer.import(&request, &mut |_| {})?;
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
    show(args.using.json, &answers, |style| {
        render::query::networks(&answers, args.operators, args.explain, style)
            + &render::query::origin(&trained.facts, machine, args.using.level)
    })
}

/// Measured rows against what the model predicts of them.
fn compare(args: &PredictArgs, runs: &[PathBuf], trained: &Trained) -> anyhow::Result<()> {
    let source = SourceArgs {
        data: runs.to_vec(),
        ..args.source.clone()
    };
    let mut rows = source.read()?;
    args.devices.add_to(&mut rows)?;
    let comparison = trained.compare(&rows, args.using.level)?;
    show(args.using.json, &comparison, |style| {
        render::compare::comparison(&comparison, args.operators, style)
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

const HEADER: &str =
    "row_id,op_name,threads,predicted_ns,low_ns,high_ns,knowledge,extrapolates,measured_ns";

/// Writes the lines of rows and counts them.
struct Lines<'a> {
    trained: &'a Trained,
    machine: MachineFacts,
    level: f64,
    /// Rows of other kinds of device than the model's.
    foreign: AtomicUsize,
    /// Rows with a prediction.
    answered: AtomicUsize,
}

impl Lines<'_> {
    /// Adds the lines of some rows. The model only answers rows of its own kind of device.
    fn add(&self, rows: &[Row], text: &mut String) -> anyhow::Result<()> {
        let device = self.trained.facts.device_kind;
        for some in rows.chunk_by(|a, b| (a.device_kind == device) == (b.device_kind == device)) {
            if some[0].device_kind != device {
                self.foreign.fetch_add(some.len(), Ordering::Relaxed);
                for row in some {
                    foreign_line(text, row)?;
                }
                continue;
            }
            self.answered.fetch_add(some.len(), Ordering::Relaxed);
            let answers =
                self.trained
                    .answer_rows(some, &self.machine, self.level, Detail::Short)?;
            for (row, answer) in some.iter().zip(&answers) {
                line(text, row, answer)?;
            }
        }
        Ok(())
    }
}

/// Every row of datasets as CSV: row, prediction, interval, and the measured time where there is one.
fn rows(args: &PredictArgs, trained: &Trained) -> anyhow::Result<()> {
    let device = trained.facts.device_kind;
    let lines = Lines {
        trained,
        machine: known_machine(args, trained),
        level: args.using.level,
        foreign: AtomicUsize::new(0),
        answered: AtomicUsize::new(0),
    };
    table(args, HEADER, |rows, text| lines.add(rows, text))?;
    let (foreign, answered) = (lines.foreign.into_inner(), lines.answered.into_inner());
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
        render::query::knowledge(answer.knowledge),
    )?;
    for (place, outside) in answer.extrapolates.iter().enumerate() {
        let before = if place == 0 { "" } else { " " };
        write!(text, "{before}{}", outside.feature)?;
    }
    writeln!(text, ",{}", number(row.time_median_ns))
}

/// Prints a header and the lines that `answer` writes of all rows, in order and on all cores.
fn table(
    args: &PredictArgs,
    header: &str,
    answer: impl Fn(&[Row], &mut String) -> anyhow::Result<()> + Sync,
) -> anyhow::Result<()> {
    let mut out = Stream::stdout();
    // Printed with the first rows, so that nothing is printed if no file can be read.
    let mut header = Some(format!("{header}\n"));
    let mut print = |rows: &mut Vec<Row>| -> anyhow::Result<()> {
        let texts: Vec<String> = rows
            .par_chunks(WRITTEN)
            .map(|some| {
                let mut text = String::new();
                answer(some, &mut text).map(|()| text)
            })
            .collect::<anyhow::Result<_>>()?;
        rows.clear();
        for text in header.take().into_iter().chain(texts) {
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
    report_left_out(&left_out);
    Ok(out.finish()?)
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use opdata::DeviceKind;
    use oplearn::data::{Dataset, Machines, RowSet};
    use oplearn::models::FitOptions;
    use oplearn::testing::dense_row;

    use super::*;
    use crate::cli::args::{Args, Command};
    use crate::model::{TrainOptions, file, train};

    /// Products measured with 1 and 2 threads.
    fn measured() -> Vec<Row> {
        let row = |number: u64| {
            let mut row = dense_row(1, 16 * (1 + number / 2), 256, "{}");
            row.row_id = format!("run.{number:06}");
            row.point_id = number.to_string();
            row.workload_hash = Some((number / 2).to_string());
            row.threads = Some(1 + number % 2);
            row.time_median_ns = Some(1000.0 * (1 + number / 2) as f64 / (1 + number % 2) as f64);
            row
        };
        (0..40).map(row).collect()
    }

    fn trained() -> Trained {
        let set = RowSet::from(measured());
        let dataset = Dataset::new(&set, &Machines::Single).unwrap();
        let options = TrainOptions {
            fit: FitOptions::default(),
        };
        train(&dataset, DeviceKind::CPU, &options, &()).unwrap()
    }

    /// `oppredict predict` with this model and these arguments.
    fn predict(trained: &Trained, arguments: &[&str]) -> anyhow::Result<()> {
        let folder = tempfile::tempdir().unwrap();
        let model = folder.path().join("cpu.opm");
        file::save(trained, &model).unwrap();
        let model = model.to_str().unwrap();
        let all = [&["oppredict", "predict", "--model", model], arguments].concat();
        let Command::Predict(args) = Args::try_parse_from(all)?.command else {
            panic!("another command");
        };
        run(&args)
    }

    #[test]
    fn more_threads_than_anybody_knows_of_are_refused_before_the_import() {
        let trained = trained();
        for threads in ["64", "1,64", "3"] {
            let refused = predict(
                &trained,
                &["--modelname", "no-such-model", "--threads", threads],
            )
            .unwrap_err()
            .to_string();
            assert!(
                refused.contains("the model was trained on 1, 2 threads"),
                "{refused}"
            );
        }
        let known = predict(
            &trained,
            &["--modelname", "no-such-model", "--threads", "2"],
        );
        assert!(known.unwrap_err().to_string().contains("no-such-model"));
    }

    #[test]
    fn rows_of_another_device_have_no_prediction() {
        let trained = trained();
        let mut rows: Vec<Row> = measured().into_iter().take(3).collect();
        rows[1].device_kind = DeviceKind::CUDA;
        rows[1].threads = None;
        let lines = Lines {
            trained: &trained,
            machine: MachineFacts::named("unknown"),
            level: 0.9,
            foreign: AtomicUsize::new(0),
            answered: AtomicUsize::new(0),
        };
        let mut text = String::new();
        lines.add(&rows, &mut text).unwrap();
        let lines_of_text: Vec<Vec<&str>> = text.lines().map(|l| l.split(',').collect()).collect();
        assert_eq!(lines_of_text.len(), 3);
        for (line, foreign) in lines_of_text.iter().zip([false, true, false]) {
            assert_eq!(line.len(), HEADER.split(',').count());
            assert_eq!(line[6] == "other_device", foreign, "{line:?}");
            assert_eq!(line[3].is_empty(), foreign, "{line:?}");
        }
        assert_eq!(
            (lines.foreign.into_inner(), lines.answered.into_inner()),
            (1, 2)
        );
    }

    #[test]
    fn a_file_of_another_device_alone_is_refused() {
        let mut rows = measured();
        for row in &mut rows {
            row.device_kind = DeviceKind::CUDA;
        }
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("cuda.csv");
        let lines = rows.iter().flat_map(opdata::formats::csv::line);
        let text: Vec<u8> = opdata::formats::csv::header()
            .into_iter()
            .chain(lines)
            .collect();
        std::fs::write(&file, text).unwrap();
        let refused = predict(&trained(), &[file.to_str().unwrap()]).unwrap_err();
        assert!(
            refused
                .to_string()
                .contains("none of the 40 rows is of cpu"),
            "{refused}"
        );
    }
}
