//! The lines of the table: calls put together, with the times that `torch.profiler` gives.
//!
//! Times and counts are for one run of the model (means over the recorded runs), nanoseconds. What a function of
//! TorchScript does between two operators is in no line. It is the part of a run that the sum of own times lacks.

use std::collections::HashMap;

use crate::kinds::kind;
use crate::protocol::{Cycle, Event, What};
use crate::tree::{Node, nodes};

/// Keys to group calls by.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum GroupBy {
    /// Nothing: every call of a run has a line.
    Call,
    /// The operator.
    #[default]
    Operator,
    /// The operator and the module that it is called in.
    OperatorInModule,
    /// The operator's kind, for operators that the model itself calls.
    Kind,
    /// The operator, for those that the model itself calls.
    Outermost,
    /// The operator and the shapes of its inputs.
    Shape,
    /// The module that it is called in.
    Layer,
}

/// Keys to sort lines by; numbers from the largest.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum SortBy {
    /// Own time.
    #[default]
    Own,
    /// Time with the calls inside.
    Total,
    /// Name.
    Name,
    /// Calls.
    Count,
    /// Time of one call, with the calls inside.
    Mean,
    /// Bytes taken less bytes given back, with the calls inside.
    Memory,
    /// Floating-point operations.
    Flops,
    /// The order of the first calls.
    Program,
}

/// A line: one call, or several that were put together.
#[derive(Debug, Clone, PartialEq)]
pub struct Line {
    /// Name of the operator, or of the group.
    pub name: String,
    /// Shapes of the inputs, if all calls agree.
    pub shapes: Option<String>,
    /// The innermost module that it is called in, if all calls agree.
    pub module: Option<String>,
    /// Calls in a run.
    pub count: f64,
    /// Time in a run without the calls inside.
    pub own_ns: f64,
    /// Time in a run with the calls inside.
    pub total_ns: f64,
    /// Bytes taken less bytes given back in a run, without the calls inside.
    pub own_bytes: f64,
    /// Bytes taken less bytes given back in a run, with the calls inside.
    pub total_bytes: f64,
    /// Time of the GPU's work that it launched in a run, without nested calls.
    pub own_device_ns: f64,
    /// The same with the calls inside.
    pub total_device_ns: f64,
    /// Floating-point operations in a run; 0 if there is no formula.
    pub flops: f64,
}

impl Line {
    /// Time of one call with the calls inside.
    pub fn mean_ns(&self) -> f64 {
        self.total_ns / self.count
    }
}

/// A cycle as a table.
#[derive(Debug, Clone, PartialEq)]
pub struct Summary {
    /// The lines, sorted.
    pub lines: Vec<Line>,
    /// Sum of the operators' own times in a run.
    pub sum_ns: f64,
    /// Time of a run from outside.
    pub total_ns: f64,
    /// Sum of the GPU's work that operators launched in a run. `None` if no GPU took part.
    pub device_ns: Option<f64>,
    /// Runs that were recorded.
    pub runs: usize,
    /// Number of the first of them in the job, from 0.
    pub first_step: u64,
}

impl Summary {
    /// A line's share of the operators' time (0 to 1), as `torch.profiler` gives it.
    pub fn share(&self, ns: f64) -> f64 {
        ns / self.sum_ns
    }

    /// A line's share of the GPU's work (0 to 1). `None` if no GPU took part.
    pub fn device_share(&self, ns: f64) -> Option<f64> {
        self.device_ns.map(|whole| ns / whole)
    }

    /// Share of a run's time that operators take (0 to 1).
    pub fn explained(&self) -> f64 {
        self.sum_ns / self.total_ns
    }
}

/// The table of a cycle.
pub fn summary(cycle: &Cycle, group_by: GroupBy, sort_by: SortBy) -> Summary {
    let nodes = nodes(&cycle.events);
    let runs = cycle.steps_ns.len().max(1);
    let mut groups: Vec<Line> = Vec::new();
    let mut places: HashMap<String, usize> = HashMap::new();
    let mut order: Vec<usize> = (0..nodes.len()).collect();
    order.sort_by_key(|&i| cycle.events[i].start_ns);
    let (mut nth, mut all): (HashMap<&str, usize>, HashMap<&str, usize>) = Default::default();
    let is_call = |i: usize| cycle.events[i].what == What::Operator && !nodes[i].repeats;
    for index in (0..nodes.len()).filter(|&i| is_call(i)) {
        *all.entry(&cycle.events[index].name).or_default() += 1;
    }
    for index in order {
        let (event, node) = (&cycle.events[index], &nodes[index]);
        if !is_call(index) {
            continue;
        }
        // Runs make the same calls: the n-th call of an operator is the same in each.
        let call = nth.entry(&event.name).or_default();
        *call += 1;
        let key = key(event, &cycle.events, &nodes, index, group_by);
        let Some(name) = key else { continue };
        let id = match group_by {
            GroupBy::Call => format!("{name} {}", (*call - 1) % (all[&*event.name] / runs).max(1)),
            GroupBy::Shape => format!("{name} {}", shapes(event)),
            GroupBy::OperatorInModule => format!("{name} {}", layer(event).unwrap_or_default()),
            GroupBy::Layer | GroupBy::Operator | GroupBy::Kind | GroupBy::Outermost => name.clone(),
        };
        let mut line = line(name, event, node, runs as f64);
        if matches!(group_by, GroupBy::Kind | GroupBy::Outermost) {
            // Calls inside have no line of their own here.
            (line.own_ns, line.own_bytes) = (line.total_ns, line.total_bytes);
        }
        match places.get(&id) {
            Some(&place) => add(&mut groups[place], line),
            None => {
                places.insert(id, groups.len());
                groups.push(line);
            }
        }
    }
    for group in &mut groups {
        group.count /= runs as f64;
    }
    sort(&mut groups, sort_by);
    let operators = cycle.events.iter().zip(&nodes);
    let own = operators.filter(|(e, node)| e.what == What::Operator && !node.repeats);
    let own: Vec<&Node> = own.map(|(_, node)| node).collect();
    let has_gpu = cycle.events.iter().any(|event| event.what == What::Kernel);
    let device_ns = own.iter().map(|node| node.own_device_ns).sum::<u64>() as f64;
    Summary {
        lines: groups,
        sum_ns: own.iter().map(|node| node.own_ns).sum::<u64>() as f64 / runs as f64,
        device_ns: has_gpu.then_some(device_ns / runs as f64),
        total_ns: cycle.steps_ns.iter().sum::<u64>() as f64 / runs as f64,
        runs,
        first_step: cycle.first_step,
    }
}

/// The name of the line that a call belongs to. `None` if it is part of another call's line.
fn key(
    event: &Event,
    events: &[Event],
    nodes: &[Node],
    index: usize,
    group_by: GroupBy,
) -> Option<String> {
    match group_by {
        GroupBy::Call | GroupBy::Operator | GroupBy::OperatorInModule | GroupBy::Shape => {
            Some(event.name.clone())
        }
        GroupBy::Layer => Some(layer(event).unwrap_or_else(|| "(no module)".to_owned())),
        GroupBy::Kind | GroupBy::Outermost => {
            let name = match group_by {
                GroupBy::Kind => kind(&event.name),
                _ => &event.name,
            };
            is_outermost(events, nodes, index).then(|| name.to_owned())
        }
    }
}

/// Whether no other operator has called this one.
fn is_outermost(events: &[Event], nodes: &[Node], index: usize) -> bool {
    let parent = nodes[index].parent;
    parent.is_none_or(|parent| events[parent].what != What::Operator)
}

/// The module around a call, as PyTorch names it: `layer1.0.conv1` of `TOP(ResNet)::forward`, `layer1(Sequential)::forward`,
/// `0(BasicBlock)::forward` and `conv1(Conv2d)::forward`; the model's class for calls of its own.
fn layer(event: &Event) -> Option<String> {
    let mut names = modules(event);
    match names.len() {
        0 => None,
        1 => names.pop(),
        _ => Some(names[1..].join(".")),
    }
}

/// The model's class, then the names of the modules around a call, the outermost first.
pub(crate) fn modules(event: &Event) -> Vec<String> {
    let Some((top, inner)) = event.modules.split_first() else {
        return Vec::new();
    };
    let class = top.split(['(', ')']).nth(1).unwrap_or(top);
    let names = inner.iter().filter_map(|module| module.split('(').next());
    std::iter::once(class)
        .chain(names)
        .map(str::to_owned)
        .collect()
}

fn line(name: String, event: &Event, node: &Node, runs: f64) -> Line {
    Line {
        name,
        shapes: (!event.shapes.is_empty()).then(|| shapes(event)),
        module: layer(event),
        // Counted over all runs until the line is complete: fractions would not add up to whole numbers.
        count: 1.0,
        own_ns: node.own_ns as f64 / runs,
        total_ns: event.duration_ns as f64 / runs,
        own_bytes: node.own_bytes as f64 / runs,
        total_bytes: node.total_bytes as f64 / runs,
        own_device_ns: node.own_device_ns as f64 / runs,
        total_device_ns: node.total_device_ns as f64 / runs,
        flops: event.flops as f64 / runs,
    }
}

fn add(group: &mut Line, line: Line) {
    if group.shapes != line.shapes {
        group.shapes = None;
    }
    if group.module != line.module {
        group.module = None;
    }
    group.count += line.count;
    group.own_ns += line.own_ns;
    group.total_ns += line.total_ns;
    group.own_bytes += line.own_bytes;
    group.total_bytes += line.total_bytes;
    group.own_device_ns += line.own_device_ns;
    group.total_device_ns += line.total_device_ns;
    group.flops += line.flops;
}

/// `[1, 64, 56, 56], [64], []`. An argument that is not a tensor is empty. Before the first tensor it is left out,
/// because numbers of other calls may be on TorchScript's stack there.
fn shapes(event: &Event) -> String {
    let tensors = event.shapes.iter().skip_while(|shape| shape.is_empty());
    let all: Vec<String> = tensors.map(|s| format!("{s:?}")).collect();
    all.join(", ")
}

fn sort(lines: &mut [Line], sort_by: SortBy) {
    let number = |line: &Line| match sort_by {
        SortBy::Own => line.own_ns,
        SortBy::Total => line.total_ns,
        SortBy::Count => line.count,
        SortBy::Mean => line.mean_ns(),
        SortBy::Memory => line.total_bytes,
        SortBy::Flops => line.flops,
        SortBy::Name | SortBy::Program => 0.0,
    };
    // Stable: equal lines stay in the order of their first calls.
    match sort_by {
        SortBy::Name => lines.sort_by(|a, b| a.name.cmp(&b.name)),
        _ => lines.sort_by(|a, b| number(b).total_cmp(&number(a))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn operator(name: &str, start_ns: u64, duration_ns: u64) -> Event {
        Event {
            name: name.to_owned(),
            start_ns,
            duration_ns,
            thread: 1,
            shapes: vec![vec![1, duration_ns as i64], vec![]],
            modules: vec![
                "TOP(Net)::forward".to_owned(),
                "head(Sequential)::forward".to_owned(),
                format!("{}(Linear)::forward", start_ns / 1000),
            ],
            ..Event::default()
        }
    }

    /// Two runs of `linear` with `addmm` inside it, and `relu`.
    fn cycle() -> Cycle {
        let function = Event {
            what: What::Function,
            ..operator("forward", 0, 500)
        };
        let run = |at: u64| {
            [
                operator("aten::linear", at + 10, 100),
                operator("aten::addmm", at + 20, 60),
                operator("aten::relu", at + 200, 20),
            ]
        };
        Cycle {
            first_step: 3,
            steps_ns: vec![500, 500],
            events: [function]
                .into_iter()
                .chain(run(0))
                .chain(run(1000))
                .collect(),
        }
    }

    fn names(group_by: GroupBy, sort_by: SortBy) -> Vec<String> {
        let lines = summary(&cycle(), group_by, sort_by).lines;
        lines.into_iter().map(|line| line.name).collect()
    }

    #[test]
    fn own_times_add_up_and_functions_have_no_line() {
        let table = summary(&cycle(), GroupBy::Operator, SortBy::Own);
        let lines: Vec<_> = table
            .lines
            .iter()
            .map(|l| (l.name.as_str(), l.own_ns, l.total_ns, l.count))
            .collect();
        assert_eq!(
            lines,
            [
                ("aten::addmm", 60.0, 60.0, 1.0),
                ("aten::linear", 40.0, 100.0, 1.0),
                ("aten::relu", 20.0, 20.0, 1.0),
            ]
        );
        assert_eq!((table.sum_ns, table.total_ns), (120.0, 500.0));
        assert_eq!(table.share(60.0), 0.5);
    }

    #[test]
    fn kinds_have_the_outermost_calls_alone() {
        let table = summary(&cycle(), GroupBy::Kind, SortBy::Total);
        let lines: Vec<_> = table.lines.iter().map(|l| (&*l.name, l.total_ns)).collect();
        assert_eq!(lines, [("dense", 100.0), ("elementwise", 20.0)]);
        assert_eq!(
            table.lines.iter().map(|l| l.own_ns).sum::<f64>(),
            table.sum_ns
        );
    }

    #[test]
    fn layers_shapes_and_calls_are_groups_too() {
        assert_eq!(names(GroupBy::Layer, SortBy::Name), ["head.0", "head.1"]);
        assert_eq!(names(GroupBy::Shape, SortBy::Name).len(), 3);
        assert_eq!(names(GroupBy::Call, SortBy::Program).len(), 3);
        assert_eq!(names(GroupBy::OperatorInModule, SortBy::Own).len(), 6);
        let by_count = names(GroupBy::Operator, SortBy::Count);
        assert_eq!(
            by_count[0], "aten::linear",
            "equal ones in the order of the program"
        );
    }
}
