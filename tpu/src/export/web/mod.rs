//! A page that shows a dump and needs nothing else. It has timelines per core and engine with zoom, hover and
//! filters, bandwidth, local memory, cores compared, roll-ups, gaps, and the account.
//!
//! `draw.js` and `tables.js` draw; this gives them the data: a JSON object in which each stream is a set of columns, little-endian
//! and in base64. Starts are steps from event to event.

mod columns;
mod local;

use std::collections::HashMap;
use std::path::Path;

use serde_json::{Value, json};

use opreport::html::data_element;
use opreport::page::page_head;
use opreport::units::{count as counted, plural, time};

use crate::analysis::gaps::find;
use crate::analysis::overview::overview;
use crate::analysis::rollup::{Filter, Group, Grouping, roll_up};
use crate::analysis::roofline::{self, element_bytes};
use crate::analysis::summary::Summary;
use crate::error::{Result, io_at};
use crate::profile::Profile;
use columns::{Names, block_ns, columns};

const BODY: &str = include_str!("body.html");
const STYLE: &str = include_str!("page.css");
const DRAW: &str = include_str!("draw.js");
const TABLES: &str = include_str!("tables.js");

/// Longest lists of the page's tables.
const TOP: usize = 200;

/// Commands that a browser holds with ease: about 60 MB of page. More are shown in blocks.
pub const MOST_COMMANDS: usize = 1_200_000;

/// Writes the page. Of more than `most` commands the timelines show blocks; tables count all.
///
/// # Errors
/// Fails if the file cannot be written.
pub fn write(profile: &Profile, summary: &Summary, most: usize, path: &Path) -> Result<()> {
    let title = format!("{} – TPU profile", profile.name());
    let data = data_element("id=\"data\"", &data(profile, summary, most));
    let page = [
        &page_head(&title, STYLE),
        BODY,
        &data,
        "<script>\n",
        DRAW,
        TABLES,
        "</script></body></html>\n",
    ];
    std::fs::write(path, page.concat()).map_err(io_at(path, "cannot write"))
}

fn data(profile: &Profile, summary: &Summary, most: usize) -> Value {
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
    let block_ns = block_ns(profile, most);
    let streams: Vec<Value> = profile
        .streams()
        .filter(|(_, events)| !events.is_empty())
        .filter_map(|(stream, _)| columns(profile, stream, block_ns, &mut names))
        .collect();
    let element_bytes = element_bytes(profile);
    let spec = profile.chip.spec();
    let all = |grouping| roll_up(profile, grouping, &Filter::default());
    let group = |groups: &[Group]| {
        groups
            .iter()
            .take(TOP)
            .map(|group| {
                let mut value = json!(group);
                let point = roofline::place(spec, profile.tiu_mhz, element_bytes, group);
                value["peak_share"] = json!(point.peak_share);
                value["median_ns"] = json!(group.median_ns());
                value
            })
            .collect::<Vec<_>>()
    };
    let operators = all(Grouping::Operator);
    let gaps = find(profile, TOP);
    let overview = overview(profile, summary, &operators, &gaps, element_bytes);
    json!({
        "title": profile.name(),
        "about": format!(
            "{}, mode {}, {}, TIU {} MHz, DMA {} MHz, {} in all; DDR limit {} GB/s a core",
            profile.chip, profile.mode.name(), plural(profile.cores.len() as u64, "core"), profile.tiu_mhz, profile.dma_mhz,
            time(summary.total_ns as f64), spec.ddr_gbps
        ),
        "damage": profile.report.headline().unwrap_or_default(),
        "window": profile.report.window().unwrap_or_default(),
        "reduced": block_ns.map(|ns| reduced(profile, ns)).unwrap_or_default(),
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
        "limits": [["DDR", spec.ddr_gbps], ["L2", spec.l2_gbps]],
        "limit": overview.limit.name(),
        "overview": overview,
        "by_operator": group(&operators),
        "by_kernel": group(&all(Grouping::Kernel)),
        "by_layer": group(&all(Grouping::Layer)),
        "gaps": gaps,
        "report": report(profile),
    })
}

/// A note for readers of merged blocks.
fn reduced(profile: &Profile, block_ns: i64) -> String {
    let count: u64 = profile
        .streams()
        .map(|(_, events)| events.len() as u64)
        .sum();
    format!(
        "{} commands are more than a browser can hold: the timelines show blocks of about {}, named after the \
         function that takes most of their time; tables count every command. A part of the time (--from, --to) is shown \
         command by command.",
        counted(count as f64),
        time(block_ns as f64)
    )
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
