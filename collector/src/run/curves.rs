//! The files of `--ifpartial`: the sum of operators after some trials, as a table and as curves.

use std::collections::BTreeMap;
use std::path::Path;

use opreport::svg::{Axis, Mark, Scale, Series, plot};
use opreport::units;

use crate::report::{Partial, TunedReport};

/// Writes the sums of operators by trials into a run's folder: `tuning.csv` and the curves `tuning.svg`.
///
/// # Errors
/// Fails if a file cannot be written.
pub(super) fn write_curves(folder: &Path, tuned: &[TunedReport]) -> opdata::Result<()> {
    let parts: Vec<&Partial> = tuned.iter().flat_map(|report| &report.partial).collect();
    let mut csv = "tuner,threads,cache_state,trials,operators_sum_ns\n".to_owned();
    let mut curves: BTreeMap<String, Vec<(f64, f64)>> = BTreeMap::new();
    for part in parts {
        let Partial {
            tuner,
            conditions,
            trials,
            sum_ns,
        } = part;
        let (threads, cache) = (conditions.threads, conditions.cache.as_str());
        let sum = sum_ns.map_or_else(String::new, |ns| ns.to_string());
        csv.push_str(&format!("{tuner},{threads},{cache},{trials},{sum}\n"));
        if let Some(ns) = sum_ns {
            let name = format!("{tuner}, {}", units::plural(u64::from(threads), "thread"));
            let curve = curves.entry(name).or_default();
            curve.push((*trials as f64, ns / 1e6));
        }
    }
    let axis = |label: &str| Axis {
        label: label.to_owned(),
        scale: Scale::Linear,
    };
    let series = curves.into_iter().map(|(name, points)| Series {
        name,
        mark: Mark::Line,
        points,
    });
    let svg = plot(
        "Sum of operators by trials",
        &axis("schedules tried of each operator"),
        &axis("sum over all calls, ms"),
        &series.collect::<Vec<_>>(),
    );
    opdata::write_atomically(&folder.join("tuning.csv"), csv.as_bytes())?;
    opdata::write_atomically(&folder.join("tuning.svg"), svg.as_bytes())
}
