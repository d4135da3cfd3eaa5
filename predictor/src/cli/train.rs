//! `oppredict train`.

use std::collections::BTreeSet;

use anyhow::Context;
use opdata::DeviceKind;
use opdata::contract::pairs::read_all_pairs;
use oplearn::Error;
use oplearn::data::{Dataset, RowSet};
use oplearn::interference::Slowdowns;
use oplearn::models::FitOptions;

use super::args::TrainArgs;
use super::show::show;
use super::watch::Shown;
use crate::model::{TrainOptions, file, train};
use crate::render;

/// Trains a model and writes its file.
pub fn run(args: &TrainArgs) -> anyhow::Result<()> {
    if let Some(folder) = args.out.parent().filter(|f| !f.as_os_str().is_empty()) {
        std::fs::create_dir_all(folder)
            .with_context(|| format!("cannot create {}", folder.display()))?;
    }
    opdata::check_output(&args.out)?;
    let mut rows = args.data.rows()?;
    let device_kind = device_kind(&mut rows, args.device)?;
    let dataset = Dataset::new(&rows, &args.data.machines())?;
    drop(rows);
    let options = TrainOptions {
        fit: FitOptions {
            seed: args.random.seed,
            ..FitOptions::default()
        },
    };
    let slowdowns = Slowdowns::of_pairs(&read_all_pairs(&args.pairs)?)?;
    let mut trained = train(&dataset, device_kind, &options, &Shown::new())?;
    trained.interference = slowdowns.kept();
    file::save(&trained, &args.out)?;
    show(args.json, &trained.facts.summary(), |style| {
        render::train::facts(&trained.facts, &args.out, style)
    })
}

/// The kind of device to train for; rows of other kinds are left out.
fn device_kind(rows: &mut RowSet, wanted: Option<DeviceKind>) -> anyhow::Result<DeviceKind> {
    let kinds: BTreeSet<DeviceKind> = rows
        .rows
        .iter()
        .filter(|row| row.status.has_time())
        .map(|row| row.device_kind)
        .collect();
    let kind = match (wanted, kinds.len()) {
        (Some(kind), _) => kind,
        (None, 0) => {
            return Err(Error::NoSamples {
                rows: rows.rows.len(),
                measured: 0,
                unusable: 0,
                left_out: rows.left_out.keys().cloned().collect(),
            }
            .into());
        }
        (None, 1) => kinds.into_iter().next().unwrap_or(DeviceKind::CPU),
        (None, _) => {
            let names: Vec<&str> = kinds.iter().map(|k| k.as_str()).collect();
            anyhow::bail!(
                "the rows are of several kinds of device ({}), and a model is for one: choose it with --device",
                names.join(", ")
            );
        }
    };
    rows.rows.retain(|row| row.device_kind == kind);
    Ok(kind)
}
