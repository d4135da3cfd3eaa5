//! `oppredict place`: where operators go that run side by side.

use std::path::Path;

use opreport::svg::{Bar, gantt};
use opreport::trace::{Order, Writer};
use serde::Serialize;

use super::args::PlaceArgs;
use super::costs;
use super::show::show;
use crate::model::file;
use crate::place::build::{Measured, Sources, problem};
use crate::place::problem::Problem;
use crate::place::{Outcome, Placed, devices, place, timeline};
use crate::render;

/// The answer as JSON.
#[derive(Serialize)]
struct Answer<'a> {
    devices: Vec<&'a str>,
    jobs: Vec<&'a str>,
    sources: &'a Sources,
    #[serde(flatten)]
    placed: &'a Placed,
}

/// Places and prints.
pub fn run(args: &PlaceArgs) -> anyhow::Result<()> {
    let devices = devices::read(
        &args.devices,
        args.table.as_deref(),
        args.energy_weight > 0.0,
    )?;
    let rows = costs::rows(&args.data)?;
    let measured = Measured::of_rows(&rows.rows, args.machine.as_deref())?;
    let trained = args.model.as_deref().map(file::load).transpose()?;
    let predictor = costs::predictor(trained.as_ref(), args.machine.as_deref())?;
    let graphs = costs::graphs(args.model_source, &args.models)?;
    let (problem, sources) = problem(
        &graphs,
        devices,
        &measured,
        predictor.as_ref(),
        args.energy_weight,
    )?;
    let placed = place(&problem, args.random.seed, args.time_limit)?;
    if let Some(folder) = &args.plots {
        for outcome in &placed.outcomes {
            charts(folder, &problem, outcome)?;
        }
    }
    let answer = Answer {
        devices: problem
            .devices
            .iter()
            .map(|device| device.name.as_str())
            .collect(),
        jobs: problem.jobs.iter().map(|job| job.name.as_str()).collect(),
        sources: &sources,
        placed: &placed,
    };
    show(args.json, &answer, |style| {
        render::place::placed(&problem, &sources, &placed, style)
    })
}

/// Writes a placement as a Gantt chart and as a trace.
fn charts(folder: &Path, problem: &Problem, outcome: &Outcome) -> anyhow::Result<()> {
    std::fs::create_dir_all(folder)
        .map_err(|error| anyhow::anyhow!("cannot make {}: {error}", folder.display()))?;
    let mut slots = timeline::of_placement(problem, &outcome.placement);
    slots.sort_by(|a, b| a.begin_ns.total_cmp(&b.begin_ns));
    let lanes: Vec<&str> = problem
        .devices
        .iter()
        .map(|device| device.name.as_str())
        .collect();
    let bars: Vec<Bar<'_>> = slots
        .iter()
        .map(|slot| Bar {
            lane: slot.device,
            begin: slot.begin_ns / 1e6,
            end: slot.end_ns / 1e6,
            name: &problem.jobs[slot.job].name,
            colour: problem.jobs[slot.job].model,
        })
        .collect();
    let file = opdata::safe_file_name(&outcome.name, 60);
    let svg = gantt(&outcome.name, "ms", &lanes, &bars);
    opdata::write_atomically(&folder.join(format!("{file}.svg")), svg.as_bytes())?;
    let mut writer = Writer::new::<&str>(1, 0, &[]);
    for (device, lane) in lanes.iter().enumerate() {
        let mut track = writer.track(lane, None, Order::Ranked(device as i32), false);
        for slot in slots.iter().filter(|slot| slot.device == device) {
            let name = &problem.jobs[slot.job].name;
            writer.begin(&mut track, slot.begin_ns as i64, name, None, |_, _| {});
            writer.end(&mut track, slot.end_ns as i64);
        }
    }
    opdata::write_atomically(&folder.join(format!("{file}.pftrace")), &writer.out.0)?;
    Ok(())
}
