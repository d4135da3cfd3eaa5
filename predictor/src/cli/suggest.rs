//! `oppredict suggest`: a plan of the measurements to make next.

use std::num::NonZeroUsize;

use opdata::DeviceKind;
use oplearn::data::{Dataset, Machines};
use oplearn::features::machine::MachineFacts;
use oplearn::models::ensemble::Ensemble;
use oplearn::models::{FitOptions, members_for};
use opmodels::{ImportRequest, Source as ModelSource};
use serde_json::json;

use super::args::SuggestArgs;
use super::show::show;
use crate::model::file;
use crate::render;
use crate::suggest::candidates::Candidates;
use crate::suggest::choose::Limits;
use crate::suggest::{Request, SuggestError, duration, plan, suggest};

/// With fewer samples nothing is learned that could guide a choice.
const LEAST_SAMPLES: usize = 10;

/// Chooses, writes the plan, and prints what it should bring.
pub fn run(args: &SuggestArgs) -> anyhow::Result<()> {
    let mut rows = args.data.rows()?;
    // Plans are for the collector, which measures on processors.
    rows.rows.retain(|row| row.device_kind == DeviceKind::CPU);
    let candidates = candidates(args)?;
    let machines = machines(args, &candidates);
    let dataset = Dataset::new(&rows, &machines)?;
    dataset.require(LEAST_SAMPLES, "choosing measurements")?;
    let machine = machine(&candidates, &dataset)?;
    let ensemble = match &args.model {
        Some(path) => {
            let trained = file::load(path)?;
            if !trained.facts.machines.iter().any(|m| m.id == machine.id) {
                let known: Vec<&str> = trained
                    .facts
                    .machines
                    .iter()
                    .map(|m| m.id.as_str())
                    .collect();
                return Err(SuggestError::ForeignModel {
                    machine: machine.id.clone(),
                    known: known.join(", "),
                }
                .into());
            }
            trained.ensemble
        }
        None => {
            let fit = FitOptions {
                seed: args.random.seed,
                members: members_for(&dataset, &dataset.all()),
                ..FitOptions::default()
            };
            Ensemble::fit(&dataset, &dataset.all(), &fit)?
        }
    };
    let limits = Limits {
        budget_ns: args.budget.as_nanos() as f64,
        points: args.count.map_or(usize::MAX, NonZeroUsize::get),
    };
    let suggestion = suggest(&Request {
        rows: &rows,
        dataset: &dataset,
        ensemble: &ensemble,
        machine,
        candidates: &candidates,
        limits,
        seed: args.random.seed,
    })?;
    let about = format!(
        "{} of {} candidates, about {}: chosen by oppredict suggest from {} measured points",
        suggestion.chosen,
        suggestion.candidates,
        duration(suggestion.cost_ns),
        dataset.samples.len()
    );
    // Only runs name their machine; the target of a log does not identify one.
    let fingerprint = rows
        .facts
        .contains_key(&machine.id)
        .then_some(machine.id.as_str());
    let written = plan::write(
        &args.out,
        &candidates,
        &suggestion.order,
        fingerprint,
        &about,
    )?;
    let object = json!({"suggestion": suggestion, "plans": written});
    show(args.json, &object, |style| {
        render::suggest::suggestion(&suggestion, &written, style)
    })
}

fn candidates(args: &SuggestArgs) -> Result<Candidates, SuggestError> {
    let mut candidates = Candidates::default();
    for folder in &args.candidates {
        candidates.add_listed(folder)?;
    }
    let named = args
        .model_names
        .iter()
        .map(|name| (args.model_source, name.clone()));
    let files = args
        .model_files
        .iter()
        .map(|file| (ModelSource::ONNX, file.to_string_lossy().into_owned()));
    for (source, name) in named.chain(files) {
        for batch in args.batch.or_none() {
            let request = ImportRequest {
                batch,
                seqlen: args.seqlen,
                ..ImportRequest::new(source, name.clone())
            };
            candidates.add_model(&request, &args.threads, DeviceKind::CPU)?;
        }
    }
    Ok(candidates)
}

/// Machines of the candidates, with their folders.
fn listed(candidates: &Candidates) -> impl Iterator<Item = (&std::path::Path, &str)> {
    candidates.points.iter().filter_map(|candidate| {
        let folder = candidates.jobs[candidate.job].folder.as_deref()?;
        Some((folder, candidate.row.env_hash.as_deref()?))
    })
}

/// The machines to learn from: by default only the candidates' own.
fn machines(args: &SuggestArgs, candidates: &Candidates) -> Machines {
    match (args.data.machines(), listed(candidates).next()) {
        (Machines::Single, Some((_, machine))) => Machines::Named(machine.to_owned()),
        (given, _) => given,
    }
}

/// The machine that the candidates are to be measured on.
fn machine<'d>(candidates: &Candidates, dataset: &'d Dataset) -> anyhow::Result<&'d MachineFacts> {
    let names = || -> Vec<&str> { dataset.machines.iter().map(|m| m.id.as_str()).collect() };
    let mut found = None;
    for (folder, name) in listed(candidates) {
        let machine = dataset.machines.iter().find(|m| m.id == name);
        let other = machine.is_none() || found.is_some_and(|f: &MachineFacts| f.id != name);
        if other {
            return Err(SuggestError::OtherMachine {
                folder: folder.to_owned(),
                candidates: name.to_owned(),
                rows: names().join(", "),
            }
            .into());
        }
        found = machine;
    }
    match (found, dataset.machines.as_slice()) {
        (Some(machine), _) | (None, [machine]) => Ok(machine),
        (None, _) => anyhow::bail!(
            "the rows are of several machines ({}), and one is to measure; choose it with --machine NAME",
            names().join(", ")
        ),
    }
}
