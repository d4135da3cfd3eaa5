//! Plots of reports, one SVG file each.

use std::path::Path;

use anyhow::Context;
use oplearn::data::Dataset;
use opreport::svg::{Axis, Mark, Scale, Series, plot};

use crate::correlate::KindReport;
use crate::eval::Report;
use crate::turning::Sweep;

fn axis(label: &str, scale: Scale) -> Axis {
    Axis {
        label: label.to_owned(),
        scale,
    }
}

fn write(folder: &Path, name: &str, svg: &str) -> anyhow::Result<()> {
    std::fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    // Names hold shapes and knobs; keep what every file system takes.
    let path = folder.join(format!("{}.svg", opdata::safe_file_name(name, 120)));
    opdata::write_atomically(&path, svg.as_bytes())?;
    Ok(())
}

/// Predicted against measured, and residuals, by kind.
pub fn eval(folder: &Path, dataset: &Dataset, report: &Report) -> anyhow::Result<()> {
    let series = |value: fn(f64, f64) -> f64| -> Vec<Series> {
        report
            .by_kind
            .keys()
            .map(|kind| Series {
                name: kind.clone(),
                mark: Mark::Dots,
                points: report
                    .points
                    .iter()
                    .filter(|p| dataset.samples[p.index].kind == *kind)
                    .map(|p| (p.measured.exp2() / 1e6, value(p.measured, p.predicted)))
                    .collect(),
            })
            .collect()
    };
    let measured = axis("measured, ms", Scale::Log);
    let title = format!("{}: predicted against measured", report.split);
    let predicted = plot(
        &title,
        &measured,
        &axis("predicted, ms", Scale::Log),
        &series(|_, predicted| predicted.exp2() / 1e6),
    );
    write(folder, "predicted", &predicted)?;
    let residuals = plot(
        &format!("{}: residuals", report.split),
        &measured,
        &axis("log2(predicted ÷ measured)", Scale::Linear),
        &series(|measured, predicted| predicted - measured),
    );
    write(folder, "residuals", &residuals)
}

/// Partial dependences of each kind.
pub fn partial(folder: &Path, kinds: &[KindReport]) -> anyhow::Result<()> {
    for kind in kinds {
        for factor in kind.factors.iter().filter(|f| !f.partial.is_empty()) {
            let series = Series {
                name: kind.kind.clone(),
                mark: Mark::Line,
                points: factor
                    .partial
                    .iter()
                    .map(|d| (f64::from(d.value), d.factor))
                    .collect(),
            };
            let svg = plot(
                &format!("{}: predicted time by {}", kind.kind, factor.factor),
                &axis(&factor.factor, Scale::Linear),
                &axis("time over its mean", Scale::Linear),
                &[series],
            );
            write(folder, &format!("{}-{}", kind.kind, factor.factor), &svg)?;
        }
    }
    Ok(())
}

/// Every sweep.
pub fn turning(folder: &Path, sweeps: &[Sweep]) -> anyhow::Result<()> {
    for sweep in sweeps {
        let series = Series {
            name: sweep.device.clone(),
            mark: Mark::Line,
            points: sweep
                .x
                .iter()
                .copied()
                .zip(sweep.time.iter().copied())
                .collect(),
        };
        let svg = plot(
            &format!("{} over {}", sweep.name, sweep.axis),
            &axis(&sweep.axis, Scale::Linear),
            &axis("time", Scale::Log),
            &[series],
        );
        write(
            folder,
            &format!("{}-{}-{}", sweep.device, sweep.name, sweep.axis),
            &svg,
        )?;
    }
    Ok(())
}
