//! A page that shows a dump and needs nothing else: timelines per core and engine with zoom, hover and filters,
//! bandwidth, local memory, cores compared, roll-ups, gaps, and the account.
//!
//! `page.html` draws; this gives it the data: a JSON object in which each stream is a set of columns, little-endian
//! and in base64. Starts are steps from event to event.

mod base64;
mod local;

use std::collections::HashMap;
use std::path::Path;

use serde_json::{Map, Value, json};

use opreport::html::escape;

use crate::analysis::gaps::find;
use crate::analysis::rollup::{Filter, Grouping, roll_up};
use crate::analysis::summary::Summary;
use crate::error::{Result, io_at};
use crate::input::nodes::NONE;
use crate::matching::event::Event;
use crate::profile::Profile;
use crate::report::{Engine, Stream, plural};
use crate::view::{Detail, Role, View, Viewer};

const PAGE: &str = include_str!("page.html");

/// Longest lists of the page's tables.
const TOP: usize = 200;

/// Names of functions, each with its type, direction and role, numbered as they come.
#[derive(Default)]
struct Names {
    numbers: HashMap<(String, String, &'static str), u16>,
    names: Vec<String>,
    kinds: Vec<String>,
    directions: Vec<&'static str>,
    sync: Vec<bool>,
}

impl Names {
    fn number(&mut self, view: &View) -> u16 {
        let direction = view
            .direction()
            .filter(|d| !d.contains("unknown"))
            .unwrap_or("");
        let key = (view.name.to_string(), view.kind.to_string(), direction);
        if let Some(&number) = self.numbers.get(&key) {
            return number;
        }
        // Beyond 65,535 different names a page is of no use; the rest share the last.
        let number = u16::try_from(self.names.len()).unwrap_or(u16::MAX);
        if number < u16::MAX {
            self.names.push(key.0.clone());
            self.kinds.push(key.1.clone());
            self.directions.push(direction);
            self.sync.push(view.role != Role::Work);
        }
        self.numbers.insert(key, number.min(u16::MAX - 1));
        number.min(u16::MAX - 1)
    }
}

/// Writes the page.
pub fn write(profile: &Profile, summary: &Summary, path: &Path) -> Result<()> {
    let data = data(profile, summary);
    let title = format!("{} – TPU profile", profile.name());
    // No text of a dump may end the script element that holds the data, nor begin another.
    let text = data.to_string().replace('<', "\\u003c");
    let page = PAGE.replace("__TITLE__", &escape(&title));
    let (head, tail) = page.rsplit_once("__DATA__").unwrap_or((&page, ""));
    std::fs::write(path, [head, &text, tail].concat()).map_err(io_at(path, "cannot write"))
}

fn data(profile: &Profile, summary: &Summary) -> Value {
    let mut names = Names::default();
    let mut kernels: Vec<String> = Vec::new();
    let mut launch_kernel: Vec<usize> = Vec::new();
    let mut numbers: HashMap<String, usize> = HashMap::new();
    for core in &profile.cores {
        for kernel in &core.file.scopes {
            let next = kernels.len();
            let number = *numbers.entry(kernel.clone()).or_insert(next);
            if number == next {
                kernels.push(kernel.clone());
            }
            launch_kernel.push(number);
        }
    }
    let mut layers = vec![String::new()];
    if let Some(of) = &profile.layers {
        layers.extend(
            of.layers
                .iter()
                .map(|l| format!("{} {} ({})", l.id, l.name, l.kind())),
        );
    }
    let streams: Vec<Value> = profile
        .streams()
        .filter(|(_, events)| !events.is_empty())
        .map(|(stream, events)| columns(profile, stream, events, &mut names))
        .collect();
    let group = |grouping| {
        let mut groups = roll_up(profile, grouping, &Filter::default());
        groups.truncate(TOP);
        groups
            .iter()
            .map(|group| {
                let mut value = json!(group);
                if let Some(object) = value.as_object_mut() {
                    object.remove("durations_ns");
                }
                value["median_ns"] = json!(group.median_ns());
                value
            })
            .collect::<Vec<_>>()
    };
    let spec = profile.chip.spec();
    json!({
        "title": profile.name(),
        "about": format!(
            "{}, mode {}, {}, TIU {} MHz, DMA {} MHz, {:.3} µs in all; DDR limit {} GB/s a core",
            profile.chip, profile.mode.name(), plural(profile.cores.len() as u64, "core"), profile.tiu_mhz, profile.dma_mhz,
            summary.total_ns as f64 / 1000.0, spec.ddr_gbps
        ),
        "damage": profile.report.headline().unwrap_or_default(),
        "total_ns": summary.total_ns.max(1),
        "lane_bytes": spec.lmem_bytes / spec.lanes,
        "streams": streams,
        "names": names.names,
        "kinds": names.kinds,
        "directions": names.directions,
        "sync": names.sync,
        "kernels": kernels,
        "launch_kernel": launch_kernel,
        "layers": layers,
        "summary": summary,
        "by_operator": group(Grouping::Operator),
        "by_kernel": group(Grouping::Kernel),
        "by_layer": group(Grouping::Layer),
        "gaps": find(profile, TOP),
        "report": report(profile),
    })
}

fn report(profile: &Profile) -> Value {
    let streams: Vec<Value> = profile
        .report
        .streams
        .iter()
        .map(|counts| {
            let mut value = json!(counts);
            value["label"] = json!(counts.stream.to_string());
            value
        })
        .collect();
    json!({"streams": streams, "findings": profile.report.findings})
}

fn clamp(value: u64) -> u32 {
    u32::try_from(value).unwrap_or(u32::MAX)
}

fn columns(profile: &Profile, stream: Stream, events: &[Event], names: &mut Names) -> Value {
    let mut column: HashMap<&'static str, Vec<u8>> = HashMap::new();
    let mut put =
        |name: &'static str, bytes: &[u8]| column.entry(name).or_default().extend_from_slice(bytes);
    let mut lmem = local::Column::default();
    let first = events.first().map_or(0, |event| event.start_ns);
    let mut at = first;
    let dma = stream.engine != Engine::Tiu;
    if let Some(viewer) = Viewer::new(profile, stream) {
        for (index, event) in events.iter().enumerate() {
            let view = viewer.view(index, event);
            // Steps beyond 2^31 ns (2 s) are cut and made up for by the next ones.
            let step = i32::try_from(event.start_ns - at).unwrap_or(if event.start_ns > at {
                i32::MAX
            } else {
                i32::MIN
            });
            at += i64::from(step);
            put("start", &step.to_le_bytes());
            put(
                "length",
                &clamp(view.duration_ns().max(0) as u64).to_le_bytes(),
            );
            put("name", &names.number(&view).to_le_bytes());
            put("cmd", &clamp(view.command_id()).to_le_bytes());
            put("cycles", &clamp(event.cycles).to_le_bytes());
            put("launch", &view.scope.unwrap_or(NONE).to_le_bytes());
            let rate = match &view.detail {
                Detail::Tiu(tiu) => match tiu.ops {
                    Some(ops) if ops.uarch_ops > 0 => {
                        ops.alg_ops as f64 / ops.uarch_ops as f64 * 100.0
                    }
                    _ => -1.0,
                },
                Detail::Dma(d) => d.bytes as f64 / view.duration_ns().max(1) as f64,
            };
            put("rate", &(rate as f32).to_le_bytes());
            if let Some(d) = view.dma() {
                put("bytes", &clamp(d.bytes).to_le_bytes());
            }
            if let Some(layers) = &profile.layers {
                let layer = layers
                    .of(stream.engine, stream.number, event.id)
                    .map_or(0, |l| l.id);
                put("layer", &u16::try_from(layer).unwrap_or(0).to_le_bytes());
            }
            lmem.add(profile.chip, &view);
        }
    }
    let mut value: Map<String, Value> = column
        .into_iter()
        .map(|(name, bytes)| (name.to_string(), json!(base64::encode(&bytes))))
        .collect();
    value.insert("engine".into(), json!(stream.engine.name()));
    value.insert("number".into(), json!(stream.number));
    value.insert(
        "label".into(),
        json!(if dma && stream.engine == Engine::Cdma {
            format!("CDMA {}", stream.number)
        } else {
            format!("core {} {}", stream.number, stream.engine)
        }),
    );
    value.insert("n".into(), json!(events.len()));
    value.insert("first".into(), json!(first));
    if let Some(lmem) = lmem.json() {
        value.insert("lmem".into(), lmem);
    }
    Value::Object(value)
}
