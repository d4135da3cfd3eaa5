//! One stream for the page: a set of columns, little-endian and in base64, with a row for each command. If a browser
//! could not hold them all, a row is a block of commands.

use std::collections::HashMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value, json};

use super::local;
use crate::input::nodes::NONE;
use crate::profile::Profile;
use crate::report::{Engine, Stream};
use crate::view::{Detail, Role, View, Viewer};

/// Names of functions, each with its type, direction and role, numbered as they come.
#[derive(Default)]
pub(super) struct Names {
    numbers: HashMap<(String, String, &'static str), u16>,
    /// Names.
    pub names: Vec<String>,
    /// Types.
    pub kinds: Vec<String>,
    /// Directions, empty if there is none.
    pub directions: Vec<&'static str>,
    /// Whether it is a sync command, which does no work.
    pub sync: Vec<bool>,
}

impl Names {
    /// The number of an event's function.
    pub fn number(&mut self, view: &View) -> u16 {
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

/// Length of blocks in ns, if there are more than `most` commands.
pub(super) fn block_ns(profile: &Profile, most: usize) -> Option<i64> {
    let commands: usize = profile.streams().map(|(_, events)| events.len()).sum();
    if commands <= most {
        return None;
    }
    let streams = profile.streams().filter(|(_, events)| !events.is_empty());
    let rows = (most / streams.count().max(1)).max(1) as i64;
    let (first, last) = profile.span_ns()?;
    Some(((last - first) / rows).max(1))
}

/// Commands of one stream in one row.
struct Block {
    start_ns: i64,
    end_ns: i64,
    /// Moments with a command in ns; commands that overlap count once.
    busy_ns: i64,
    /// ns by number of the name.
    times: Vec<(u16, i64)>,
    first_cmd: u32,
    count: u32,
    cycles: u64,
    bytes: u64,
    launch: u32,
    layer: u16,
    /// The algorithm's and the hardware's, if known.
    ops: (f64, f64),
}

impl Block {
    fn of(view: &View, name: u16, layer: u16) -> Block {
        let mut block = Block {
            start_ns: view.event.start_ns,
            end_ns: view.event.start_ns,
            busy_ns: 0,
            times: Vec::new(),
            first_cmd: clamp(view.command_id()),
            count: 0,
            cycles: 0,
            bytes: 0,
            launch: view.scope.unwrap_or(NONE),
            layer,
            ops: (0.0, 0.0),
        };
        block.add(view, name);
        block
    }

    fn add(&mut self, view: &View, name: u16) {
        let event = view.event;
        self.busy_ns += (event.end_ns - event.start_ns.max(self.end_ns)).max(0);
        self.end_ns = self.end_ns.max(event.end_ns);
        self.count += 1;
        self.cycles += event.cycles();
        match &view.detail {
            Detail::Dma(dma) => self.bytes += dma.bytes,
            Detail::Tiu(tiu) => {
                if let Some(ops) = tiu.ops {
                    self.ops.0 += ops.alg_ops as f64;
                    self.ops.1 += ops.uarch_ops as f64;
                }
            }
        }
        match self.times.iter_mut().find(|(n, _)| *n == name) {
            Some((_, ns)) => *ns += view.duration_ns(),
            None => self.times.push((name, view.duration_ns())),
        }
    }

    fn name(&self) -> u16 {
        let longest = self
            .times
            .iter()
            .max_by_key(|(name, ns)| (*ns, u16::MAX - name));
        longest.map_or(0, |(name, _)| *name)
    }

    /// GB/s, or the share of the hardware's operations in percent; -1 where it is not known.
    fn rate(&self, engine: Engine) -> f32 {
        let rate = match engine {
            Engine::Tiu if self.ops.1 > 0.0 => self.ops.0 / self.ops.1 * 100.0,
            Engine::Tiu => -1.0,
            _ => self.bytes as f64 / (self.end_ns - self.start_ns).max(1) as f64,
        };
        rate as f32
    }
}

/// Columns under construction.
#[derive(Default)]
struct Columns {
    bytes: HashMap<&'static str, Vec<u8>>,
    at: i64,
    rows: usize,
}

impl Columns {
    fn put(&mut self, name: &'static str, bytes: &[u8]) {
        self.bytes.entry(name).or_default().extend_from_slice(bytes);
    }

    fn push(&mut self, block: &Block, stream: Stream, blocks: bool, layers: bool) {
        // A step beyond 2^31 ns (2 s) is cut, and the next steps make up for it.
        let step = (block.start_ns - self.at).clamp(i64::from(i32::MIN), i64::from(i32::MAX));
        self.at += step;
        self.rows += 1;
        self.put("start", &(step as i32).to_le_bytes());
        let length = clamp((block.end_ns - block.start_ns).max(0) as u64);
        self.put("length", &length.to_le_bytes());
        self.put("name", &block.name().to_le_bytes());
        self.put("cmd", &block.first_cmd.to_le_bytes());
        self.put("cycles", &clamp(block.cycles).to_le_bytes());
        self.put("launch", &block.launch.to_le_bytes());
        self.put("rate", &block.rate(stream.engine).to_le_bytes());
        if stream.engine != Engine::Tiu {
            self.put("bytes", &clamp(block.bytes).to_le_bytes());
        }
        if blocks {
            self.put("count", &block.count.to_le_bytes());
            self.put("busy", &clamp(block.busy_ns as u64).to_le_bytes());
        }
        if layers {
            self.put("layer", &block.layer.to_le_bytes());
        }
    }
}

fn clamp(value: u64) -> u32 {
    u32::try_from(value).unwrap_or(u32::MAX)
}

/// The columns of a stream; `block_ns` is the length of blocks, if there are to be any.
pub(super) fn columns(
    profile: &Profile,
    stream: Stream,
    block_ns: Option<i64>,
    names: &mut Names,
) -> Option<Value> {
    let viewer = Viewer::new(profile, stream)?;
    let first = viewer.events().first().map_or(0, |event| event.start_ns);
    let mut columns = Columns {
        at: first,
        ..Columns::default()
    };
    let mut lmem = local::Column::default();
    let mut depends = Vec::new();
    let layers = profile.layers.as_ref();
    let mut open: Option<Block> = None;
    for view in viewer.views() {
        let layer = layers
            .and_then(|l| l.of(stream.engine, stream.number, view.event.id))
            .map_or(0, |layer| u16::try_from(layer.id).unwrap_or(0));
        let name = names.number(&view);
        let Some(block_ns) = block_ns else {
            columns.push(
                &Block::of(&view, name, layer),
                stream,
                false,
                layers.is_some(),
            );
            lmem.add(profile.chip, &view);
            depends.extend(view.waits_for().unwrap_or(0).to_le_bytes());
            continue;
        };
        match &mut open {
            Some(block)
                if view.event.start_ns < block.start_ns + block_ns
                    && view.event.start_ns >= block.start_ns =>
            {
                block.add(&view, name);
            }
            _ => {
                let next = Block::of(&view, name, layer);
                if let Some(block) = open.replace(next) {
                    columns.push(&block, stream, true, layers.is_some());
                }
            }
        }
    }
    if let Some(block) = open {
        columns.push(&block, stream, true, layers.is_some());
    }
    viewer.release();
    if depends.iter().any(|&byte| byte != 0) {
        columns.bytes.insert("dep", depends);
    }
    let label = match stream.engine {
        Engine::Cdma => format!("CDMA {}", stream.number),
        engine => format!("core {} {engine}", stream.number),
    };
    let mut value: Map<String, Value> = columns
        .bytes
        .into_iter()
        .map(|(name, bytes)| (name.to_string(), json!(STANDARD.encode(&bytes))))
        .collect();
    value.insert("engine".into(), json!(stream.engine.name()));
    value.insert("number".into(), json!(stream.number));
    value.insert("label".into(), json!(label));
    value.insert("n".into(), json!(columns.rows));
    value.insert("first".into(), json!(first));
    if let Some(lmem) = lmem.json() {
        value.insert("lmem".into(), lmem);
    }
    Some(Value::Object(value))
}
