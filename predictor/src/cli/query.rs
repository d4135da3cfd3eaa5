//! `oppredict query`: one operator at each requested combination of threads and batch sizes.

use super::args::QueryArgs;
use super::model_path;
use super::show::show;
use crate::query::answer::Detail;
use crate::query::whatif::WhatIf;
use crate::render::query as render;

/// Asks and prints.
pub fn run(args: &QueryArgs) -> anyhow::Result<()> {
    let trained = model_path::load(args.using.model.as_deref())?;
    super::check_target(args.using.target.as_deref(), trained.facts.device_kind)?;
    let extents =
        |dims: &Option<opdata::Dims>| dims.as_ref().map_or_else(Vec::new, |d| d.0.clone());
    let what = WhatIf {
        op: args.op.clone(),
        input: args.input.0.clone(),
        output: args.output.as_ref().map(|d| d.0.clone()),
        kernel: extents(&args.kernel),
        channels: args.channels,
        stride: extents(&args.stride),
        padding: args.padding.as_ref().map(|d| d.0.clone()),
        groups: args.groups,
        threads: args.threads.to_vec(),
        batch: args.batch.to_vec(),
        level: args.using.level,
        machine: args.using.machine.clone(),
    };
    let machine = trained.machine(args.using.machine.as_deref())?;
    let lines = what.ask(&trained, Detail::Full)?;
    show(args.using.json, &lines, |style| {
        render::query(&args.op, &lines, args.explain, style)
            + &render::origin(&trained.facts, machine, args.using.level)
    })
}
