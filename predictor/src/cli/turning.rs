//! `oppredict turning`.

use opdata::read_rows;

use super::args::TurningArgs;
use super::{plots, render};
use crate::turning::{Options, analyse, sweep};

/// Analyses sweeps and prints.
pub fn run(args: &TurningArgs) -> anyhow::Result<()> {
    let (mut sweeps, mut rows) = (Vec::new(), Vec::new());
    for path in &args.files {
        // A dataset says so by its first column; a CSV file of sweeps has another header.
        let dataset = path.is_dir() || read_rows(path).is_ok();
        if dataset {
            rows.extend(read_rows(path)?);
        } else {
            sweeps.extend(sweep::read(path)?);
        }
    }
    sweeps.extend(sweep::of_rows(&rows));
    if sweeps.is_empty() {
        anyhow::bail!(
            "no operator was measured at {} or more numbers of threads; sweep them with opcollect --threads 1,2,4,…",
            sweep::LEAST_POINTS
        );
    }
    let analysis = analyse(&sweeps, Options { more: args.more });
    if let Some(folder) = &args.plots {
        plots::turning(folder, &sweeps)?;
    }
    if args.json {
        println!("{}", serde_json::to_string_pretty(&analysis)?);
    } else {
        print!("{}", render::turning(&analysis));
    }
    Ok(())
}
