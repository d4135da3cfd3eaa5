//! Traces of a profile: Perfetto's protocol buffers, and the JSON that Chrome and most viewers read.
//!
//! Both have the same tracks: runs, operators, steps of the virtual machine and tasks of each thread of the pool. It also has counters of memory,
//! of arithmetic and of counted events (means of a call, from other runs). Times begin with the first run that was recorded.

use opengine::protocol::ProfiledCycle;
use opreport::trace::{Arguments, Order, TrackState, Writer};
use serde_json::{Value, json};

use super::ProfiledModel;
use super::summary::{Class, GroupBy, Line, SortBy, summary, threads_seen};

/// Names of slices' arguments; those of counters follow.
#[rustfmt::skip]
const KEYS: &[&str] = &[
    "shapes", "hash", "kind", "layer", "flops", "bytes", "allocated_bytes", "freed_bytes",
    "live_bytes", "gflops_per_s", "step",
];
const STEP: usize = 10;

/// A slice of a track.
struct Slice<'a> {
    begin_ns: u64,
    end_ns: u64,
    name: &'a str,
    arguments: Vec<(usize, Value)>,
}

/// A track with its slices in the order of their begins, outer ones first.
struct Track<'a> {
    name: String,
    slices: Vec<Slice<'a>>,
}

/// A counter with its values in the order of time.
struct Counter {
    name: String,
    values: Vec<(u64, f64)>,
}

/// The content of a trace.
struct Content<'a> {
    title: String,
    /// Names of arguments.
    keys: Vec<String>,
    tracks: Vec<Track<'a>>,
    counters: Vec<Counter>,
}

/// The cycle as a Perfetto trace.
pub fn perfetto(model: &ProfiledModel, cycle: &ProfiledCycle) -> Vec<u8> {
    let lines = lines(model, cycle);
    let content = content(model, cycle, &lines);
    let mut writer = Writer::new(1, 1 << 16, &content.keys);
    let root = writer.track(&content.title, None, Order::Explicit, false);
    let places = 0..;
    for (track, place) in content.tracks.iter().zip(places) {
        let mut state = writer.track(&track.name, Some(root.id), Order::Ranked(place), false);
        nested(&mut writer, &mut state, &track.slices);
    }
    for counter in &content.counters {
        let state = writer.track(&counter.name, Some(root.id), Order::Free, true);
        for (time, value) in &counter.values {
            writer.count(&state, *time as i64, *value);
        }
    }
    writer.out.0
}

/// Writes slices that lie inside each other or side by side.
fn nested(writer: &mut Writer, track: &mut TrackState, slices: &[Slice<'_>]) {
    let mut open: Vec<u64> = Vec::new();
    for slice in slices {
        while open.last().is_some_and(|end| *end <= slice.begin_ns) {
            let end = open.pop().unwrap_or_default();
            writer.end(track, end as i64);
        }
        writer.begin(
            track,
            slice.begin_ns as i64,
            slice.name,
            None,
            |track, out| {
                let mut arguments = Arguments { track, out };
                for (key, value) in &slice.arguments {
                    match (value.as_str(), value.as_i64(), value.as_f64()) {
                        (Some(text), ..) => arguments.text(*key, text),
                        (_, Some(number), _) => arguments.int(*key, number),
                        (.., number) => arguments.float(*key, number.unwrap_or_default()),
                    }
                }
            },
        );
        open.push(slice.end_ns);
    }
    while let Some(end) = open.pop() {
        writer.end(track, end as i64);
    }
}

/// The cycle as Chrome's JSON; times are in microseconds there.
pub fn chrome(model: &ProfiledModel, cycle: &ProfiledCycle) -> Value {
    const PROCESS: u32 = 1;
    let lines = lines(model, cycle);
    let content = content(model, cycle, &lines);
    let us = |ns: u64| ns as f64 / 1e3;
    let named = |kind: &str, thread: usize, name: &str| json!({ "ph": "M", "pid": PROCESS, "tid": thread, "name": kind, "args": { "name": name } });
    let mut events = vec![named("process_name", 0, &content.title)];
    for (track, thread) in content.tracks.iter().zip(1..) {
        events.push(named("thread_name", thread, &track.name));
        events.push(json!({
            "ph": "M", "pid": PROCESS, "tid": thread, "name": "thread_sort_index",
            "args": { "sort_index": thread },
        }));
        events.extend(track.slices.iter().map(|slice| {
            json!({
                "ph": "X", "pid": PROCESS, "tid": thread, "name": slice.name, "cat": track.name,
                "ts": us(slice.begin_ns), "dur": us(slice.end_ns.saturating_sub(slice.begin_ns)),
                "args": arguments_json(&content.keys, &slice.arguments),
            })
        }));
    }
    for counter in &content.counters {
        events.extend(counter.values.iter().map(|(time, value)| {
            json!({
                "ph": "C", "pid": PROCESS, "name": counter.name, "ts": us(*time),
                "args": { "value": value },
            })
        }));
    }
    json!({ "displayTimeUnit": "ns", "traceEvents": events })
}

fn arguments_json(keys: &[String], arguments: &[(usize, Value)]) -> Value {
    let entries = arguments.iter();
    let entries = entries.map(|(key, value)| (keys[*key].clone(), value.clone()));
    Value::Object(entries.collect())
}

/// A line for each call, in the order of the program.
fn lines(model: &ProfiledModel, cycle: &ProfiledCycle) -> Vec<Line> {
    summary(model, cycle, GroupBy::Call, SortBy::Program).lines
}

fn content<'a>(model: &ProfiledModel, cycle: &ProfiledCycle, lines: &'a [Line]) -> Content<'a> {
    let zero = cycle.steps.first().map_or(0, |step| step.span.0);
    let at = |ns: u64| ns.saturating_sub(zero);
    let runs = cycle
        .steps
        .iter()
        .zip(cycle.first_step..)
        .map(|(step, number)| Slice {
            begin_ns: at(step.span.0),
            end_ns: at(step.span.1),
            name: "run",
            arguments: vec![(STEP, json!(number))],
        });
    let mut tracks = vec![Track {
        name: "runs".to_owned(),
        slices: runs.collect(),
    }];
    for (class, name) in [(Class::Operator, "operators"), (Class::Machine, "VM steps")] {
        let slices = cycle.steps.iter().flat_map(|step| {
            lines
                .iter()
                .zip(&step.calls)
                .filter(|(line, _)| line.class == class && !line.untimed)
                .map(|(line, span)| Slice {
                    begin_ns: at(span.0),
                    end_ns: at(span.1),
                    name: &line.name,
                    arguments: arguments(line, span.1.saturating_sub(span.0)),
                })
        });
        tracks.push(Track {
            name: name.to_owned(),
            slices: slices.collect(),
        });
    }
    for thread in threads_seen(cycle) {
        tracks.push(pool_thread(thread, cycle, lines, zero));
    }
    let counted = model.counted().map(|(counts, _)| counts.full_name());
    Content {
        title: match &model.simulation {
            None => format!(
                "{} on {}",
                model.graph.model,
                opreport::units::plural(u64::from(model.threads), "thread")
            ),
            Some(_) => format!("{}, simulated: {}", model.graph.model, model.described),
        },
        keys: KEYS
            .iter()
            .map(|key| (*key).to_owned())
            .chain(counted)
            .collect(),
        tracks,
        counters: counters(cycle, lines, zero)
            .into_iter()
            .chain(counts(model, cycle, lines, zero))
            .collect(),
    }
}

/// Tasks of a thread of the pool, each under the name of the operator that started it.
fn pool_thread<'a>(thread: u32, cycle: &ProfiledCycle, lines: &'a [Line], zero: u64) -> Track<'a> {
    let mut slices: Vec<Slice<'a>> = cycle
        .steps
        .iter()
        .flat_map(|step| step.tasks.iter().map(move |task| (step, task)))
        .filter(|(_, task)| task.thread == thread)
        .map(|(step, task)| {
            let begun = step
                .calls
                .partition_point(|(begin, _)| *begin <= task.span.0);
            let line = begun.checked_sub(1).and_then(|call| lines.get(call));
            Slice {
                begin_ns: task.span.0.saturating_sub(zero),
                end_ns: task.span.1.saturating_sub(zero),
                name: line.map_or("task", |line| &line.name),
                arguments: Vec::new(),
            }
        })
        .collect();
    slices.sort_by_key(|slice| slice.begin_ns);
    Track {
        name: format!("pool thread {thread}"),
        slices,
    }
}

/// Memory at every call that changes it, and arithmetic of every operator while it runs.
fn counters(cycle: &ProfiledCycle, lines: &[Line], zero: u64) -> Vec<Counter> {
    let mut memory = Vec::new();
    let mut arithmetic = Vec::new();
    for step in &cycle.steps {
        let operators = lines.iter().zip(&step.calls);
        for (line, (begin, end)) in operators.filter(|(line, _)| line.class == Class::Operator) {
            let (begin, end) = (begin.saturating_sub(zero), end.saturating_sub(zero));
            memory.push((begin, line.live_bytes as f64));
            memory.push((end, line.live_bytes.saturating_sub(line.freed_bytes) as f64));
            if let Some(rate) = rate(line, end.saturating_sub(begin)) {
                arithmetic.push((begin, rate));
                arithmetic.push((end, 0.0));
            }
        }
    }
    vec![
        Counter {
            name: "tensors, bytes".to_owned(),
            values: memory,
        },
        Counter {
            name: "arithmetic, GFLOP/s".to_owned(),
            values: arithmetic,
        },
    ]
}

/// The counts of each call, while it runs.
fn counts(
    model: &ProfiledModel,
    cycle: &ProfiledCycle,
    lines: &[Line],
    zero: u64,
) -> impl Iterator<Item = Counter> {
    model
        .counted()
        .enumerate()
        .map(move |(place, (counts, _))| {
            let mut values = Vec::new();
            for step in &cycle.steps {
                for (line, (begin, end)) in lines.iter().zip(&step.calls) {
                    if let Some(count) = line.counts.get(place) {
                        values.push((begin.saturating_sub(zero), *count));
                        values.push((end.saturating_sub(zero), 0.0));
                    }
                }
            }
            Counter {
                name: format!("{}, {} a call", counts.full_name(), counts.counter.unit),
                values,
            }
        })
}

/// Flop a nanosecond, which is Gflop a second.
fn rate(line: &Line, ns: u64) -> Option<f64> {
    let flops = line.flops.filter(|flops| *flops > 0)?;
    (ns > 0).then(|| flops as f64 / ns as f64)
}

/// The arguments of a call's slice.
fn arguments(line: &Line, ns: u64) -> Vec<(usize, Value)> {
    let texts = [&line.shapes, &line.hash, &line.kind, &line.layer];
    let mut all: Vec<(usize, Value)> = texts
        .into_iter()
        .enumerate()
        .filter_map(|(key, text)| Some((key, json!(text.clone()?))))
        .collect();
    if line.class == Class::Operator {
        let numbers = [
            line.flops,
            line.bytes,
            Some(line.allocated_bytes),
            Some(line.freed_bytes),
            Some(line.live_bytes),
        ];
        let numbers = numbers.into_iter().zip(texts.len()..);
        all.extend(numbers.filter_map(|(n, key)| Some((key, json!(n?)))));
        let place = texts.len() + 5;
        all.extend(rate(line, ns).map(|rate| (place, json!(rate))));
    }
    let counts = (KEYS.len()..).zip(&line.counts);
    all.extend(counts.map(|(key, count)| (key, json!(count))));
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::summary::testing::model;

    #[test]
    fn a_chrome_trace_has_every_call_of_every_run() {
        let model = model();
        let trace = chrome(&model, &model.profiled.cycles[0]);
        let events = trace["traceEvents"].as_array().unwrap();
        let named = |name: &str| {
            events
                .iter()
                .filter(|e| e["name"] == name && e["ph"] == "X")
                .count()
        };
        assert_eq!(named("run"), 2);
        // A slice of the operator, and one of its task on each of two threads, in two runs.
        assert_eq!(named("conv2d_relu"), 2 * 3);
        assert_eq!(named("vm.builtin.alloc_storage"), 2);
        let slice = events.iter().find(|e| e["cat"] == "operators").unwrap();
        assert_eq!(slice["args"]["layer"], "layer1.conv1");
        assert_eq!(slice["dur"], 0.8);
        let counters = events.iter().filter(|e| e["ph"] == "C");
        assert!(counters.clone().any(|e| e["args"]["value"] == 400.0));
        let faults = counters.filter(|e| e["name"] == "perf:page-faults, events a call");
        let faults: Vec<f64> = faults.filter_map(|e| e["args"]["value"].as_f64()).collect();
        assert_eq!(faults, [1.5, 0.0, 12_345.0, 0.0].repeat(2));
        assert_eq!(slice["args"]["perf:page-faults"], 12_345.0);
        assert!(!perfetto(&model, &model.profiled.cycles[0]).is_empty());
    }
}
