//! From recorded times to the lines of the table.
//!
//! Times are means over the recorded runs, in nanoseconds for one run of the model, so that they add up. The lines' own
//! times make the sum. The rest of the whole is the virtual machine's interpreter between two calls. A line's own time
//! is its total less that of the calls inside it.

use std::collections::{BTreeSet, HashMap};

use clap::ValueEnum;
use opdata::roofline::{Standing, Work};
use opengine::protocol::{ProfiledArgument, ProfiledCall, ProfiledCycle};
use opengine::stats::{MIN_FOR_INTERVAL, median_interval_ranks};
use opmodels::graph::layers::layers;
use opmodels::graph::{InputRole, Operator};
use serde::Serialize;
use tvm_bridge::DType;

use super::ProfiledModel;

/// Keys to group calls by.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum GroupBy {
    /// Nothing: call by call
    Call,
    /// The function
    #[default]
    Operator,
    /// The operator's computation
    Kind,
    /// The operator and the shape of its input
    Shape,
    /// The layer of the source model
    Layer,
}

/// Keys to sort lines by; numbers from the largest.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum SortBy {
    /// Own time
    #[default]
    #[value(name = "self")]
    Own,
    /// Time with the calls inside
    Total,
    /// Name
    Name,
    /// Calls
    Count,
    /// Own time of one call
    Mean,
    /// Bytes allocated
    Allocated,
    /// Bytes freed
    Freed,
    /// Bytes alive
    Live,
    /// Floating-point operations
    Flops,
    /// Order of the program
    Program,
}

/// The part of the program that does a line's work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Class {
    /// An operator of the model.
    Operator,
    /// A step of the virtual machine: allocation, copies, shape checks.
    Machine,
}

/// A line: one call, or several that were put together.
#[derive(Debug, Clone, PartialEq)]
pub struct Line {
    /// Name of the operator or the machine's function, or of the group.
    pub name: String,
    /// The part of the program that does its work.
    pub class: Class,
    /// The operator's kind, if all calls agree.
    pub kind: Option<String>,
    /// The layer of the source model, if all calls agree.
    pub layer: Option<String>,
    /// Shapes of the arguments, if all calls agree.
    pub shapes: Option<String>,
    /// Hash of the operator's computation, if all calls agree.
    pub hash: Option<String>,
    /// Calls in a run.
    pub count: u64,
    /// Own time in a run, nanoseconds.
    pub own_ns: f64,
    /// Time in a run with the calls inside, nanoseconds.
    pub total_ns: f64,
    /// Whether its own time is missing: a simulator has no time for work off its device.
    pub untimed: bool,
    /// Shortest and longest own time of one call in one run, nanoseconds.
    pub extremes_ns: (f64, f64),
    /// Bytes that calls are the first to use, in a run.
    pub allocated_bytes: u64,
    /// Bytes that calls are the last to use, in a run.
    pub freed_bytes: u64,
    /// Maximum bytes of live tensors while one of the calls ran.
    pub live_bytes: u64,
    /// Floating-point operations in a run. `None` for the machine's steps.
    pub flops: Option<u64>,
    /// Compulsory traffic in a run, bytes. `None` for the machine's steps.
    pub bytes: Option<u64>,
    /// Share of the threads' time that they spent in tasks (0 to 1); none without parallel loops.
    pub busy_share: Option<f64>,
    /// Its position under the roofs, if they were calibrated.
    pub standing: Option<Standing>,
    /// Own counts in a run, in the order of [`ProfiledModel::counted`].
    pub counts: Vec<f64>,
    /// Place of the first call.
    first: usize,
    /// Traffic and arithmetic in a type that was calibrated.
    float_flops: u64,
    busy_ns: f64,
}

/// One cycle of a profile as a table.
#[derive(Debug, Clone, PartialEq)]
pub struct Summary {
    /// The lines, sorted.
    pub lines: Vec<Line>,
    /// Sum of all calls' own times in a run, nanoseconds.
    pub sum_ns: f64,
    /// Time of a run from outside, watched, nanoseconds.
    pub total_ns: f64,
    /// Runs that were recorded.
    pub runs: usize,
    /// Number of the first of them in the job, from 0.
    pub first_step: u64,
    /// Maximum bytes of live tensors, without weights and inputs.
    pub peak_bytes: u64,
}

impl Summary {
    /// Share of a run's time that the calls explain (0 to 1).
    pub fn explained(&self) -> f64 {
        self.sum_ns / self.total_ns
    }

    /// Sums of all lines' counts, in a run.
    pub fn counts(&self) -> Vec<f64> {
        let counters = self.lines.first().map_or(0, |line| line.counts.len());
        let sum = |place| self.lines.iter().filter_map(|l| l.counts.get(place)).sum();
        (0..counters).map(sum).collect()
    }

    /// A line's share of a run's time (0 to 1).
    pub fn share(&self, line: &Line) -> f64 {
        line.own_ns / self.total_ns
    }
}

/// Memory of a model while it runs, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Memory {
    /// Weights and other parameters.
    pub weights_bytes: u64,
    /// Tensors that the user passes in.
    pub inputs_bytes: u64,
    /// Maximum bytes of live results.
    pub activations_bytes: u64,
    /// Bytes of the virtual machine's storages beyond those.
    pub workspace_bytes: u64,
}

impl Memory {
    /// The memory of a profiled model, by its table.
    pub fn of(model: &ProfiledModel, table: &Summary) -> Memory {
        let bytes = |role: InputRole| {
            let inputs = model.graph.inputs.iter().filter(|input| input.role == role);
            let element = |dtype: &str| dtype.parse::<DType>().map_or(0, DType::bytes) as u64;
            let sizes = inputs.map(|i| i.shape.iter().product::<u64>() * element(&i.dtype));
            sizes.sum()
        };
        Memory {
            weights_bytes: bytes(InputRole::Param),
            inputs_bytes: bytes(InputRole::Input),
            activations_bytes: table.peak_bytes,
            workspace_bytes: model
                .profiled
                .storage_bytes
                .saturating_sub(table.peak_bytes),
        }
    }
}

/// The table of a cycle.
pub fn summary(
    model: &ProfiledModel,
    cycle: &ProfiledCycle,
    group_by: GroupBy,
    sort_by: SortBy,
) -> Summary {
    let mut calls = lines_of_calls(model, cycle);
    let sum_ns = calls.iter().map(|line| line.own_ns).sum();
    let peak_bytes = calls.iter().map(|l| l.live_bytes).max().unwrap_or(0);
    if group_by != GroupBy::Call {
        calls = grouped(calls, &model.profiled.calls, group_by);
    }
    for line in &mut calls {
        finish(line, model);
    }
    sort(&mut calls, sort_by);
    let runs = cycle.steps.len();
    let spans = cycle.steps.iter().map(|s| length(s.span));
    Summary {
        lines: calls,
        sum_ns,
        total_ns: spans.sum::<f64>() / runs.max(1) as f64,
        runs,
        first_step: cycle.first_step,
        peak_bytes,
    }
}

/// Overhead of the instrument: the median over pairs of runs of the time with it over that without, less 1. With enough
/// pairs it has the 95 % interval of that median.
pub fn overhead(pairs: &[(f64, f64)]) -> Option<(f64, Option<(f64, f64)>)> {
    let mut ratios: Vec<f64> = pairs.iter().map(|(off, on)| on / off - 1.0).collect();
    ratios.sort_by(f64::total_cmp);
    let median = opdata::stats::median(ratios.clone())?;
    let (low, high, _) = median_interval_ranks(ratios.len());
    let at = |rank: usize| ratios.get(rank.checked_sub(1)?).copied();
    let enough = ratios.len() >= MIN_FOR_INTERVAL;
    let interval = enough.then(|| Some((at(low)?, at(high)?))).flatten();
    Some((median, interval))
}

/// Median time of a run that nobody watches, nanoseconds.
pub fn end_to_end(pairs: &[(f64, f64)]) -> Option<f64> {
    opdata::stats::median(pairs.iter().map(|(off, _)| *off))
}

fn length((begin, end): (u64, u64)) -> f64 {
    end.saturating_sub(begin) as f64
}

/// A line for each call.
fn lines_of_calls(model: &ProfiledModel, cycle: &ProfiledCycle) -> Vec<Line> {
    let calls = &model.profiled.calls;
    let operators: HashMap<&str, (&Operator, String)> = model
        .graph
        .operators
        .iter()
        .map(|o| (o.symbol.as_str(), (o, o.workload_hash())))
        .collect();
    let largest_weight = |call: &ProfiledCall| {
        let inputs = call.arguments.iter().filter_map(|argument| {
            let input = model.graph.inputs.get(argument.input?)?;
            (input.role == InputRole::Param).then_some(input)
        });
        // If several inputs are equally large, the first one counts.
        let largest = inputs
            .rev()
            .max_by_key(|input| input.shape.iter().product::<u64>());
        largest.map(|input| input.name.as_str())
    };
    let layers = layers(calls.iter().map(largest_weight));
    let mut lines: Vec<Line> = calls
        .iter()
        .zip(layers)
        .enumerate()
        .map(|(first, (call, layer))| {
            let operator = operators.get(call.symbol.as_str());
            let counts = model
                .counted()
                .filter_map(|(_, of_calls)| of_calls.get(first));
            Line {
                counts: counts.copied().collect(),
                ..line_of(first, call, layer.to_owned(), operator)
            }
        })
        .collect();
    for step in &cycle.steps {
        let mut own: Vec<f64> = step.calls.iter().map(|span| length(*span)).collect();
        for (call, span) in calls.iter().zip(&step.calls) {
            if let Some(parent) = call.parent {
                own[parent] -= length(*span);
            }
        }
        for ((line, own), span) in lines.iter_mut().zip(own).zip(&step.calls) {
            line.own_ns += own;
            line.total_ns += length(*span);
            line.extremes_ns.0 = line.extremes_ns.0.min(own);
            line.extremes_ns.1 = line.extremes_ns.1.max(own);
        }
        for task in &step.tasks {
            // The innermost call in which the task began: the last one that has begun by then.
            let begun = step
                .calls
                .partition_point(|(begin, _)| *begin <= task.span.0);
            if let Some(line) = begun.checked_sub(1).and_then(|i| lines.get_mut(i)) {
                line.busy_ns += length(task.span);
            }
        }
    }
    let runs = cycle.steps.len().max(1) as f64;
    for line in &mut lines {
        line.untimed = model.simulation.is_some() && line.own_ns == 0.0;
        line.own_ns /= runs;
        line.total_ns /= runs;
        line.busy_ns /= runs;
    }
    lines
}

fn line_of(
    first: usize,
    call: &ProfiledCall,
    layer: String,
    operator: Option<&(&Operator, String)>,
) -> Line {
    let is_float = |o: &Operator| o.args.iter().all(|a| a.dtype == "float32");
    let flops = operator.map(|(o, _)| o.flops + o.flops_epilogue);
    Line {
        name: operator.map_or_else(|| call.symbol.clone(), |(o, _)| o.name.clone()),
        class: match call.symbol.starts_with("vm.") {
            true => Class::Machine,
            false => Class::Operator,
        },
        kind: operator.map(|(o, _)| o.kind.name().to_owned()),
        layer: operator.is_some().then_some(layer),
        shapes: (!call.arguments.is_empty()).then(|| shapes(&call.arguments)),
        hash: operator.map(|(_, hash)| hash.clone()),
        count: 1,
        own_ns: 0.0,
        total_ns: 0.0,
        untimed: false,
        extremes_ns: (f64::INFINITY, 0.0),
        allocated_bytes: call.allocated_bytes,
        freed_bytes: call.freed_bytes,
        live_bytes: call.live_bytes,
        flops,
        bytes: operator.map(|(o, _)| o.bytes_read + o.bytes_written),
        busy_share: None,
        standing: None,
        counts: Vec::new(),
        first,
        float_flops: match operator {
            Some((o, _)) if is_float(o) => flops.unwrap_or(0),
            _ => 0,
        },
        busy_ns: 0.0,
    }
}

/// Shapes of arguments as TVM's tables have them: `float32[1, 3, 224, 224], …`.
fn shapes(arguments: &[ProfiledArgument]) -> String {
    let all: Vec<String> = arguments.iter().map(shape).collect();
    all.join(", ")
}

fn shape(argument: &ProfiledArgument) -> String {
    let extents: Vec<String> = argument.shape.iter().map(i64::to_string).collect();
    format!("{}[{}]", argument.dtype, extents.join(", "))
}

/// Lines put together, in the order of their first calls.
fn grouped(lines: Vec<Line>, calls: &[ProfiledCall], group_by: GroupBy) -> Vec<Line> {
    let mut groups: Vec<Line> = Vec::new();
    let mut places: HashMap<(Class, String), usize> = HashMap::new();
    for line in lines {
        let call = &calls[line.first];
        // The machine's steps have neither kind nor layer: they stay apart by function.
        let (key, name) = match (group_by, line.class) {
            (GroupBy::Kind, Class::Operator) => same(line.kind.clone().unwrap_or_default()),
            (GroupBy::Layer, Class::Operator) => same(line.layer.clone().unwrap_or_default()),
            (GroupBy::Shape, Class::Operator) => {
                let input = call.arguments.first().map_or_else(String::new, shape);
                same(format!("{} {input}", line.name))
            }
            _ => (call.symbol.clone(), line.name.clone()),
        };
        match places.get(&(line.class, key.clone())) {
            Some(place) => add(&mut groups[*place], line),
            None => {
                places.insert((line.class, key), groups.len());
                groups.push(Line { name, ..line });
            }
        }
    }
    groups
}

fn same(text: String) -> (String, String) {
    (text.clone(), text)
}

fn add(group: &mut Line, line: Line) {
    let agree = |mine: &mut Option<String>, theirs: Option<String>| {
        if *mine != theirs {
            *mine = None;
        }
    };
    agree(&mut group.kind, line.kind);
    agree(&mut group.layer, line.layer);
    agree(&mut group.shapes, line.shapes);
    agree(&mut group.hash, line.hash);
    group.count += line.count;
    group.untimed &= line.untimed;
    group.own_ns += line.own_ns;
    group.total_ns += line.total_ns;
    group.extremes_ns.0 = group.extremes_ns.0.min(line.extremes_ns.0);
    group.extremes_ns.1 = group.extremes_ns.1.max(line.extremes_ns.1);
    group.allocated_bytes += line.allocated_bytes;
    group.freed_bytes += line.freed_bytes;
    group.live_bytes = group.live_bytes.max(line.live_bytes);
    group.flops = group.flops.zip(line.flops).map(|(a, b)| a + b);
    group.bytes = group.bytes.zip(line.bytes).map(|(a, b)| a + b);
    group.float_flops += line.float_flops;
    group.busy_ns += line.busy_ns;
    for (sum, count) in group.counts.iter_mut().zip(line.counts) {
        *sum += count;
    }
}

/// Computes the figures that follow from a line's sums.
fn finish(line: &mut Line, model: &ProfiledModel) {
    let threads = f64::from(model.threads);
    line.busy_share = (line.busy_ns > 0.0).then(|| line.busy_ns / (line.own_ns * threads));
    let calls = line.count as f64;
    let work = line.bytes.map(|bytes| Work {
        flops: line.float_flops as f64 / calls,
        bytes: bytes as f64 / calls,
        time_ns: line.own_ns / calls,
        threads: model.threads,
        cache: None,
    });
    line.standing = model
        .calibration
        .as_ref()
        .zip(work)
        .and_then(|(calibration, work)| calibration.standing(&work));
}

fn sort(lines: &mut [Line], sort_by: SortBy) {
    let number = |line: &Line| -> f64 {
        match sort_by {
            SortBy::Own => line.own_ns,
            SortBy::Total => line.total_ns,
            SortBy::Count => line.count as f64,
            SortBy::Mean => line.own_ns / line.count as f64,
            SortBy::Allocated => line.allocated_bytes as f64,
            SortBy::Freed => line.freed_bytes as f64,
            SortBy::Live => line.live_bytes as f64,
            SortBy::Flops => line.flops.unwrap_or(0) as f64,
            SortBy::Name | SortBy::Program => 0.0,
        }
    };
    lines.sort_by(|a, b| match sort_by {
        SortBy::Name => (&a.name, a.first).cmp(&(&b.name, b.first)),
        SortBy::Program => a.first.cmp(&b.first),
        _ => number(b)
            .total_cmp(&number(a))
            .then_with(|| a.first.cmp(&b.first)),
    });
}

/// The threads that have run tasks.
pub fn threads_seen(cycle: &ProfiledCycle) -> BTreeSet<u32> {
    let tasks = cycle.steps.iter().flat_map(|step| &step.tasks);
    tasks.map(|task| task.thread).collect()
}

#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
mod tests;
