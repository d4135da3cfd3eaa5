//! `oppredict turning`.

use opdata::{Traces, read_rows_with};

use super::args::TurningArgs;
use super::plots;
use super::show::show;
use crate::render;
use crate::turning::factors::Points;
use crate::turning::{Options, analyse, knob, sweep};

/// Analyses sweeps and prints.
pub fn run(args: &TurningArgs) -> anyhow::Result<()> {
    let (mut sweeps, mut rows) = (Vec::new(), Vec::new());
    for path in &args.files {
        // A dataset says so by its first column; a CSV file of sweeps has another header.
        match read_rows_with(path, Traces::Skip) {
            Ok(read) => rows.extend(read),
            Err(error) if path.is_dir() => return Err(error.into()),
            Err(_) => sweeps.extend(sweep::read(path)?),
        }
    }
    let points = Points::new(&rows);
    if let Some(name) = &args.knob {
        let steps = knob::steps(&points, name);
        if steps.is_empty() {
            anyhow::bail!(
                "no two rows differ in {name} alone; the factors of these rows: {}",
                Vec::from_iter(points.names()).join(", ")
            );
        }
        let found = serde_json::json!({ "knob": name, "steps": steps });
        return show(args.json, &found, |style| {
            render::turning::knob(name, &steps, style)
        });
    }
    sweeps.extend(points.sweeps());
    if sweeps.is_empty() {
        anyhow::bail!(
            "no operator was measured at {} or more values of one factor, all else equal; sweep one with opcollect --sweep \
             threads (or tile, split), or compare two values with --knob",
            sweep::LEAST_POINTS
        );
    }
    let analysis = analyse(&sweeps, Options { more: args.more });
    if let Some(folder) = &args.plots {
        plots::turning(folder, &sweeps)?;
    }
    show(args.json, &analysis, |style| {
        render::turning::turning(&analysis, style)
    })
}
