//! Inputs of the commands that place or schedule models: measured rows, a predictor for the rest, and the models'
//! graphs.

use std::path::{Path, PathBuf};

use opinstall::Home;
use oplearn::data::{RowSet, Source};
use opmodels::Source as ModelSource;
use opmodels::{Graph, ImportRequest, Importer};

use crate::error::Result;
use crate::model::Trained;
use crate::place::build::Predictor;

/// The rows of the runs that are named, or of all runs here.
pub fn rows(named: &[PathBuf]) -> anyhow::Result<RowSet> {
    let runs = Path::new(opdata::RUNS);
    let mut data = Vec::new();
    for word in named {
        data.push(Source::Dataset(opdata::named_run(word, runs)?));
    }
    if data.is_empty() && runs.is_dir() {
        data.push(Source::Dataset(runs.to_owned()));
    }
    Ok(RowSet::read(&data)?)
}

/// A trained model, if there is one, for a machine.
pub fn predictor<'a>(
    trained: Option<&'a Trained>,
    machine: Option<&str>,
) -> Result<Option<Predictor<'a>>> {
    let of = |trained: &'a Trained| {
        Ok(Predictor {
            trained,
            machine: trained.machine(machine)?,
        })
    };
    trained.map(of).transpose()
}

/// The graphs of models, as lists of models name them.
pub fn graphs(source: ModelSource, models: &[String]) -> anyhow::Result<Vec<Graph>> {
    let importer = Importer::new(&Home::find()?, None)?;
    let import = |model: &String| {
        let request = ImportRequest::named(source, model);
        Ok(importer.import(&request, &mut |_| {})?.graph)
    };
    models.iter().map(import).collect()
}
