//! `oppredict turning`.

use opdata::{Traces, read_rows_with};

use super::args::TurningArgs;
use super::plots;
use super::show::show;
use crate::render;
use crate::turning::{Options, Surfaces, analyse, knob, sweep};

/// Analyses sweeps and prints.
pub fn run(args: &TurningArgs) -> anyhow::Result<()> {
    let (mut sweeps, mut rows) = (Vec::new(), Vec::new());
    let mut surfaces = Surfaces::default();
    for path in &args.files {
        // A dataset says so by its first column; a CSV file of sweeps has another header.
        match read_rows_with(path, Traces::Skip) {
            Ok(read) => rows.extend(read),
            Err(error) if path.is_dir() => return Err(error.into()),
            Err(_) => sweeps.extend(sweep::read(path, &mut surfaces)?),
        }
    }
    if let Some(name) = &args.knob {
        let steps = knob::steps(&rows, name);
        if steps.is_empty() {
            anyhow::bail!(
                "no two rows differ in the knob {name} alone; knobs are in the column schedule_knobs of swept rows"
            );
        }
        let found = serde_json::json!({ "knob": name, "steps": steps });
        return show(args.json, &found, |style| {
            render::turning::knob(name, &steps, style)
        });
    }
    sweeps.extend(sweep::of_rows(&rows));
    surfaces.add_rows(&rows);
    let surfaces = surfaces.complete();
    if sweeps.is_empty() && surfaces.is_empty() {
        anyhow::bail!(
            "no operator was measured at {} or more numbers of threads or under enough schedules; sweep them with \
             opcollect --sweep threads (or tile, split, input-size)",
            sweep::LEAST_POINTS
        );
    }
    let analysis = analyse(&sweeps, &surfaces, Options { more: args.more });
    if let Some(folder) = &args.plots {
        plots::turning(folder, &sweeps)?;
        plots::surfaces(folder, &surfaces, &analysis.surfaces)?;
    }
    show(args.json, &analysis, |style| {
        render::turning::turning(&analysis, style) + &render::surfaces::lines(&analysis.surfaces)
    })
}
