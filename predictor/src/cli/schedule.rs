//! `oppredict schedule`: which operators of models run at the same time.

use opdata::Row;
use opdata::contract::pairs::read_all_pairs;
use opdata::contract::{Expected, GRAPH_SCHEDULE_FORMAT, GraphSchedule};
use oplearn::interference::Slowdowns;
use opmodels::ImportRequest;
use serde::Serialize;

use super::args::ScheduleArgs;
use super::costs;
use super::show::show;
use crate::model::file;
use crate::place::build::Measured;
use crate::render::schedule::{Facts, scheduled as scheduled_text};
use crate::schedule::build::{Times, described, inside_models, problem, undisturbed};
use crate::schedule::{Scheduled, schedule};

/// The answer as JSON.
#[derive(Serialize)]
struct Answer<'a> {
    models: &'a [String],
    threads: u32,
    times: &'a Times,
    interference: String,
    #[serde(flatten)]
    scheduled: &'a Scheduled,
    taken: &'a str,
}

/// Schedules and prints.
pub fn run(args: &ScheduleArgs) -> anyhow::Result<()> {
    if let Some(out) = &args.out {
        opdata::check_output(out)?;
    }
    let rows = inside_models(&costs::rows(&args.data)?.rows);
    let trained = args.model.as_deref().map(file::load).transpose()?;
    let predictor = costs::predictor(trained.as_ref(), args.machine.as_deref())?;
    let slowdowns = match &trained {
        Some(trained) if args.pairs.is_empty() => Slowdowns::of_kept(trained.interference.clone())?,
        _ => Slowdowns::of_pairs(&read_all_pairs(&args.pairs)?)?,
    };
    let interference = slowdowns.about();
    let graphs = costs::graphs(args.model_source, &args.models)?;
    let of = |rows: &[Row]| {
        let measured = Measured::of_rows(rows, args.machine.as_deref())?;
        let predictor = predictor.as_ref();
        problem(&graphs, args.threads, &measured, predictor, &slowdowns)
    };
    let (problem, times) = of(&rows)?;
    let (least, _) = of(&undisturbed(&rows))?;
    let scheduled = schedule(&problem, &least, args.time_limit);
    let taken = match &args.take {
        None => scheduled.chosen,
        Some(name) => scheduled
            .outcomes
            .iter()
            .position(|outcome| outcome.name == name.as_str())
            .ok_or_else(|| {
                let names: Vec<&str> = scheduled.outcomes.iter().map(|o| o.name).collect();
                opreport::Misuse(format!("--take {name}: there are {}", names.join(", ")))
            })?,
    };
    let outcome = &scheduled.outcomes[taken];
    if let Some(out) = &args.out {
        GraphSchedule {
            format: GRAPH_SCHEDULE_FORMAT,
            models: described(&graphs),
            threads: args.threads,
            executor: outcome.executor,
            stages: outcome.stages.clone(),
            expected: Some(Expected {
                sequential_ns: scheduled.outcomes[0].predicted_ns,
                scheduled_ns: outcome.predicted_ns,
            }),
        }
        .save(out)?;
    }
    let answer = Answer {
        models: &args.models,
        threads: args.threads,
        times: &times,
        interference,
        scheduled: &scheduled,
        taken: outcome.name,
    };
    show(args.json, &answer, |style| {
        let command = command(args);
        let facts = Facts {
            models: &args.models,
            threads: args.threads,
            times: &times,
            interference: &answer.interference,
            taken,
            is_named: args.take.is_some(),
            out: args.out.as_deref().map(|out| (out, command.as_str())),
        };
        scheduled_text(&facts, &scheduled, style)
    })
}

/// The command that runs the schedule.
fn command(args: &ScheduleArgs) -> String {
    let mut words = "opcollect run-graph".to_owned();
    for (number, text) in args.models.iter().enumerate() {
        let named = ImportRequest::named(args.model_source, text);
        match (number, named.seqlen) {
            (0, Some(seqlen)) => {
                words.push_str(&format!(" --modelname {} --seqlen {seqlen}", named.model));
            }
            (0, None) => words.push_str(&format!(" --modelname {}", named.model)),
            _ => words.push_str(&format!(" --with {text}")),
        }
    }
    if let Some(out) = &args.out {
        words.push_str(&format!(" --schedule {}", out.display()));
    }
    words
}
