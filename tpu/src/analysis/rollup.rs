//! Times added up per operator, kernel or layer, with filters and the longest first.

use std::borrow::Cow;
use std::collections::HashMap;

use serde::Serialize;

use crate::analysis::durations::Durations;
use crate::analysis::tensors::{Tensors, tensors};
use crate::profile::Profile;
use crate::report::Engine;
use crate::view::{Memory, Role, View, Viewer};

/// Keys to group events by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Grouping {
    /// Engine, type and name of the function.
    Operator,
    /// Kernel.
    Kernel,
    /// Layer of a compiled model.
    Layer,
    /// Operator with the shapes and element types of its tensors, where commands are known whole.
    Shape,
    /// The whole model.
    Whole,
}

impl Grouping {
    /// The groupings of reports.
    pub const ALL: [Grouping; 4] = [
        Grouping::Operator,
        Grouping::Kernel,
        Grouping::Layer,
        Grouping::Shape,
    ];

    /// Name on the command line and in rows.
    pub fn name(self) -> &'static str {
        match self {
            Grouping::Operator => "operator",
            Grouping::Kernel => "kernel",
            Grouping::Layer => "layer",
            Grouping::Shape => "shape",
            Grouping::Whole => "whole",
        }
    }
}

/// The events that count.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Filter {
    /// Cores to keep; all if empty.
    pub cores: Vec<u32>,
    /// Engines to keep; all if empty.
    pub engines: Vec<Engine>,
    /// Keeps functions or kernels whose name contains this, in any case.
    pub name: Option<String>,
    /// Keeps events of at least this many ns.
    pub min_ns: i64,
}

impl Filter {
    /// Whether an event passes.
    pub fn passes(&self, view: &View) -> bool {
        let core = view.event.core().unwrap_or(view.stream.number);
        let named = |wanted: &str| {
            let has = |name: &str| name.to_lowercase().contains(wanted);
            has(&view.name) || has(&view.kind) || view.kernel.is_some_and(has)
        };
        (self.cores.is_empty() || self.cores.contains(&core))
            && (self.engines.is_empty() || self.engines.contains(&view.stream.engine))
            && view.duration_ns() >= self.min_ns
            && self
                .name
                .as_ref()
                .is_none_or(|wanted| named(&wanted.to_lowercase()))
    }
}

/// Sums of one group.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Group {
    /// Name of the operator, kernel or layer.
    pub name: String,
    /// Type of function, or operator of the layer.
    pub kind: String,
    /// The engine, for operators.
    pub engine: Option<Engine>,
    /// Types and shapes of the tensors, in a table of operators by shape, if they are known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tensors: Option<Tensors>,
    /// Number of the layer or first launch, to keep their order.
    pub order: u32,
    /// Executions: events for operators, launches per core for kernels, cores for layers.
    pub count: u64,
    /// Duration of each execution: first start to last end.
    #[serde(skip)]
    pub durations: Durations,
    /// Their sum, in ns.
    pub total_ns: i64,
    /// TIU cycles of work.
    pub tiu_cycles: u64,
    /// Cycles of transfers.
    pub dma_cycles: u64,
    /// Bytes moved.
    pub bytes: u64,
    /// Bytes read from global memory, where commands tell.
    pub ddr_read_bytes: u64,
    /// Bytes written to global memory, where commands tell.
    pub ddr_write_bytes: u64,
    /// Bytes read from the chip's shared memory, where commands tell.
    pub l2_read_bytes: u64,
    /// Bytes written to the chip's shared memory, where commands tell.
    pub l2_write_bytes: u64,
    /// Whether a transfer's direction was unknown.
    pub direction_unknown: bool,
    /// Operations of the algorithm, where commands tell.
    pub alg_ops: Option<f64>,
    /// Operations of the hardware, where commands tell.
    pub uarch_ops: Option<f64>,
    /// Total over that of all groups.
    pub share: f64,
}

impl Group {
    fn new(name: String, kind: String, engine: Option<Engine>, order: u32) -> Group {
        Group {
            name,
            kind,
            engine,
            tensors: None,
            order,
            count: 0,
            durations: Durations::default(),
            total_ns: 0,
            tiu_cycles: 0,
            dma_cycles: 0,
            bytes: 0,
            ddr_read_bytes: 0,
            ddr_write_bytes: 0,
            l2_read_bytes: 0,
            l2_write_bytes: 0,
            direction_unknown: false,
            alg_ops: None,
            uarch_ops: None,
            share: 0.0,
        }
    }

    /// Its name, with its tensors if it has some.
    pub fn label(&self) -> String {
        let tensors = self.tensors.as_ref().map(|tensors| format!(" {tensors}"));
        self.name.clone() + &tensors.unwrap_or_default()
    }

    /// Middle duration of an execution in ns, between the two middle ones of an even number.
    pub fn median_ns(&self) -> Option<f64> {
        self.durations.median_ns()
    }

    fn add(&mut self, view: &View) {
        if view.role != Role::Work {
            return;
        }
        if let Some(dma) = view.dma() {
            self.dma_cycles += view.event.cycles();
            self.bytes += dma.bytes;
            match dma.from {
                Memory::Ddr => self.ddr_read_bytes += dma.bytes,
                Memory::L2 => self.l2_read_bytes += dma.bytes,
                Memory::Local | Memory::Unknown => {}
            }
            match dma.to {
                Memory::Ddr => self.ddr_write_bytes += dma.bytes,
                Memory::L2 => self.l2_write_bytes += dma.bytes,
                Memory::Local | Memory::Unknown => {}
            }
            self.direction_unknown |= dma.from == Memory::Unknown;
        } else {
            self.tiu_cycles += view.event.cycles();
        }
        if let Some(ops) = view.ops() {
            self.alg_ops = Some(self.alg_ops.unwrap_or(0.0) + ops.alg_ops as f64);
            self.uarch_ops = Some(self.uarch_ops.unwrap_or(0.0) + ops.uarch_ops as f64);
        }
    }
}

/// Adds the events of a profile up. Sync commands count for the spans of kernels and of the whole only.
pub fn roll_up(profile: &Profile, grouping: Grouping, filter: &Filter) -> Vec<Group> {
    let mut groups: Vec<Group> = Vec::new();
    let mut numbers: HashMap<Identity, usize> = HashMap::new();
    let mut kernels = HashMap::new();
    // Executions that are made of several events: from group and execution to their span.
    let mut spans: HashMap<(usize, u64), (i64, i64)> = HashMap::new();
    for (stream, _) in profile.streams() {
        let Some(viewer) = Viewer::new(profile, stream) else {
            continue;
        };
        for view in viewer.views() {
            let event = view.event;
            let spans_only = matches!(grouping, Grouping::Kernel | Grouping::Whole);
            if !filter.passes(&view) || (view.role != Role::Work && !spans_only) {
                continue;
            }
            let Some(identity) = Identity::of(profile, &view, grouping) else {
                continue;
            };
            let execution = identity.execution(&view);
            let number = match numbers.get(&identity) {
                Some(&number) => number,
                None => {
                    let number = identity.number(profile, &view, &mut groups, &mut kernels);
                    numbers.insert(identity, number);
                    number
                }
            };
            groups[number].add(&view);
            match execution {
                None => groups[number].durations.add(view.duration_ns()),
                Some(execution) => {
                    let span = spans
                        .entry((number, execution))
                        .or_insert((event.start_ns, event.end_ns));
                    *span = (span.0.min(event.start_ns), span.1.max(event.end_ns));
                }
            }
        }
        viewer.release();
    }
    for ((number, _), (start, end)) in spans {
        groups[number].durations.add(end - start);
    }
    for group in &mut groups {
        group.durations.sort();
        group.count = group.durations.count();
        group.total_ns = group.durations.total_ns();
    }
    let all: i64 = groups.iter().map(|g| g.total_ns).sum();
    for group in &mut groups {
        group.share = crate::analysis::summary::ratio(group.total_ns as f64, all as f64);
    }
    groups.sort_by(|a, b| {
        b.total_ns
            .cmp(&a.total_ns)
            .then(a.order.cmp(&b.order))
            .then(a.name.cmp(&b.name))
    });
    groups
}

/// The key of an event's group, cheap to make for tens of millions of them.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Identity {
    /// Engine, name, direction, tensors.
    Operator(
        Engine,
        Cow<'static, str>,
        Option<&'static str>,
        Option<Tensors>,
    ),
    /// Number of the launch: launches of one kernel are of one group.
    Launch(u32),
    /// Number of the layer.
    Layer(u32),
    Whole,
}

impl Identity {
    fn of(profile: &Profile, view: &View, grouping: Grouping) -> Option<Identity> {
        Some(match grouping {
            Grouping::Operator | Grouping::Shape => {
                let direction = view.direction().filter(|d| !d.contains("unknown"));
                let tensors = match grouping {
                    Grouping::Shape => tensors(view),
                    _ => None,
                };
                let name = view.name.clone();
                Identity::Operator(view.stream.engine, name, direction, tensors)
            }
            Grouping::Kernel => Identity::Launch(view.kernel.and(view.scope)?),
            Grouping::Layer => {
                let stream = view.stream;
                let layers = profile.layers.as_ref()?;
                Identity::Layer(layers.of(stream.engine, stream.number, view.event.id)?.id)
            }
            Grouping::Whole => Identity::Whole,
        })
    }

    /// Number of the execution that an event belongs to, if there are several.
    fn execution(&self, view: &View) -> Option<u64> {
        let core = u64::from(view.event.core().unwrap_or(view.stream.number));
        match self {
            Identity::Operator(..) => None,
            Identity::Launch(scope) => Some(u64::from(*scope) << 16 | core),
            Identity::Layer(_) => Some(core),
            Identity::Whole => Some(0),
        }
    }

    /// Number of its group, which is made if it is the first of it; `kernels` are the groups of kernels by name.
    fn number(
        &self,
        profile: &Profile,
        view: &View,
        groups: &mut Vec<Group>,
        kernels: &mut HashMap<String, usize>,
    ) -> usize {
        let group = match self {
            Identity::Operator(engine, name, direction, tensors) => {
                let name = match direction {
                    Some(direction) => format!("{name} {direction}"),
                    None => name.to_string(),
                };
                let mut group = Group::new(name, view.kind.to_string(), Some(*engine), 0);
                group.tensors = tensors.clone();
                group
            }
            Identity::Launch(scope) => {
                let kernel = view.kernel.unwrap_or_default();
                let next = groups.len();
                let known = *kernels.entry(kernel.to_string()).or_insert(next);
                if known < next {
                    return known;
                }
                Group::new(kernel.to_string(), "kernel".to_string(), None, *scope)
            }
            Identity::Layer(id) => {
                let layers = profile.layers.iter().flat_map(|layers| &layers.layers);
                let layer = layers.into_iter().find(|layer| layer.id == *id);
                let (name, kind) = layer.map_or(("", ""), |l| (l.name.as_str(), l.kind()));
                Group::new(name.to_string(), kind.to_string(), None, *id)
            }
            Identity::Whole => {
                let net = profile.layers.as_ref().and_then(|l| l.net.clone());
                let name = net.unwrap_or_else(|| profile.name());
                Group::new(name, "whole_model".to_string(), None, 0)
            }
        };
        groups.push(group);
        groups.len() - 1
    }
}
