//! Finds samples of a sketch that a GPU must refuse, by the tiles that are drawn before any loop is changed.
//!
//! A sketch draws the factors of its loops, splits, reorders and binds the loops by them, and moves copies to shared
//! memory between them. Most samples have too many threads or too large copies, and both follow from the factors alone.
//! So a sample's factors are drawn first, by the steps that draw and their inputs. The same seed draws the same
//! numbers, because all steps that draw keep their order. TVM's last postprocessor lowers a schedule to find the same,
//! which is most of the cost of a refused sample. A sample that passes here can still be refused there.
//!
//! Steps are read in the form of [`crate::trace`]: `[kind, inputs, attributes, outputs]`, blocks, loops and numbers by name.

use std::collections::{BTreeSet, HashMap};

use serde_json::Value;

use crate::call::{Obj, array, call, elements, field, map};
use crate::error::Result;
use crate::inspect::{BlockInfo, constant};
use crate::ir::PrimFunc;
use crate::schedule::Schedule;
use crate::trace::Trace;

/// Limits of a block of threads.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BlockLimits {
    threads: i64,
    shared_bytes: i64,
}

impl BlockLimits {
    /// The limits that a target's dictionary names. `None` if it names none.
    pub fn of(target: &Value) -> Option<BlockLimits> {
        Some(BlockLimits {
            threads: target["max_threads_per_block"].as_i64()?,
            shared_bytes: target["max_shared_memory_per_block"].as_i64()?,
        })
    }
}

/// The steps of a sketch that draw its tiles, and the sizes that follow from them.
#[derive(Debug, Clone)]
pub(crate) struct Outline {
    /// A trace of those steps.
    steps: Obj,
    tiles: Vec<Threads>,
    copies: Vec<Copies>,
}

/// A factor that is drawn: which of the steps that draw tiles draws it, and which of its factors it is.
type Factor = (usize, usize);

/// A loop that is bound to threads.
#[derive(Debug, Clone, Default)]
struct Threads {
    /// Its extent is their product.
    factors: Vec<Factor>,
    fewest: i64,
    most: i64,
}

/// Copies to shared memory for one block.
#[derive(Debug, Clone)]
struct Copies {
    tiles: Vec<Tile>,
}

/// A part of a buffer that is copied at once.
#[derive(Debug, Clone)]
struct Tile {
    element_bytes: i64,
    dimensions: Vec<Dimension>,
}

/// A dimension of a tile: `touched + Σ coefficient · (steps of the loop within the tile − 1)`, and never beyond the buffer's.
#[derive(Debug, Clone)]
struct Dimension {
    /// The buffer's extent.
    extent: i64,
    /// Elements that one step touches.
    touched: i64,
    terms: Vec<(i64, Vec<Factor>)>,
}

/// The marks of a block that bound the threads around it.
const FEWEST: &str = "meta_schedule.thread_extent_low_inclusive";
const MOST_THREADS: &str = "meta_schedule.thread_extent_high_inclusive";
/// The instruction that draws a tile's factors.
const DRAWS_TILE: &str = "SamplePerfectTile";
/// Steps that change loops or add copies, which no drawing depends on unless it names what they made.
const MOVES: [&str; 8] = [
    "Split",
    "Reorder",
    "Fuse",
    "Bind",
    "CacheRead",
    "CacheWrite",
    "ComputeAt",
    "ReverseComputeAt",
];
/// Steps without an effect on the draws.
const MARKS: [&str; 2] = ["Annotate", "Unannotate"];
/// Prefix of the names of steps that read the schedule without changing it.
const LOOKS: &str = "Get";

impl Outline {
    /// The outline of a sketch without decisions. `None` if it draws no tile, or no tile that a limit depends on.
    ///
    /// # Errors
    /// Fails if TVM does.
    pub fn of(function: &PrimFunc, sketch: &Obj) -> Result<Option<Outline>> {
        let trace = Trace::exactly(sketch)?;
        let Some(steps) = Steps::read(&trace.0) else {
            return Ok(None);
        };
        let tiles = steps.threads();
        if tiles.is_empty() {
            return Ok(None);
        }
        let objects = elements(&field(sketch, "insts")?)?;
        let kept = steps.that_draw();
        let kept = array(kept.iter().filter_map(|&place| objects.get(place)))?;
        let kept = call("s_tir.schedule.Trace", &[&kept, &map([])?])?;
        let schedule = Schedule::drawn(function, &kept, 0)?;
        Ok(Some(Outline {
            copies: steps.copies(&schedule)?,
            steps: kept,
            tiles,
        }))
    }

    /// Whether the sample of a seed exceeds a limit for certain.
    ///
    /// # Errors
    /// Fails if TVM does.
    pub fn refuses(&self, function: &PrimFunc, seed: u64, limits: BlockLimits) -> Result<bool> {
        let drawn = drawn(&Schedule::drawn(function, &self.steps, seed)?)?;
        let product = |factors: &[Factor]| -> i64 {
            let factor = |&(step, place): &Factor| drawn.get(step)?.get(place).copied();
            factors.iter().filter_map(factor).product()
        };
        let threads = self.tiles.iter().any(|tile| {
            let threads = product(&tile.factors);
            threads > limits.threads.min(tile.most) || threads < tile.fewest
        });
        let elements = |tile: &Tile| -> i64 {
            let dimensions = tile.dimensions.iter().map(|dimension| {
                let terms = dimension.terms.iter();
                let reach = terms.map(|(coefficient, steps)| coefficient * (product(steps) - 1));
                (dimension.touched + reach.sum::<i64>()).min(dimension.extent)
            });
            dimensions.product()
        };
        Ok(threads
            || self.copies.iter().any(|copies| {
                let bytes = copies.tiles.iter().map(|t| t.element_bytes * elements(t));
                bytes.sum::<i64>() > limits.shared_bytes
            }))
    }
}

/// Lists the factors that were drawn by each step that draws a tile.
fn drawn(schedule: &Schedule) -> Result<Vec<Vec<i64>>> {
    let trace = schedule.call("ScheduleGetTrace", &[])?;
    let decisions = field(&trace, "decisions")?;
    let mut drawn = Vec::new();
    for step in elements(&field(&trace, "insts")?)? {
        let kind = field(&field(&step, "kind")?, "name")?;
        if crate::inspect::string(&kind)? == DRAWS_TILE {
            let decision = call("ffi.MapGetItem", &[&decisions, &step])?;
            let factors = elements(&decision)?;
            let number = |factor: &Obj| factor.0.try_as::<i64>().or_else(|| constant(factor));
            drawn.push(factors.iter().filter_map(number).collect());
        }
    }
    Ok(drawn)
}

/// A sketch's steps, and the step that defines each name.
struct Steps<'a> {
    all: Vec<OutlineStep<'a>>,
    /// The step that gives a name, and the place among its outputs.
    made: HashMap<&'a str, (usize, usize)>,
}

struct OutlineStep<'a> {
    kind: &'a str,
    inputs: &'a [Value],
    attributes: &'a [Value],
    outputs: Vec<&'a str>,
}

impl<'a> Steps<'a> {
    fn read(trace: &'a Value) -> Option<Steps<'a>> {
        let read = |step: &'a Value| {
            let list = |place: usize| step.get(place)?.as_array().map(Vec::as_slice);
            Some(OutlineStep {
                kind: step.get(0)?.as_str()?,
                inputs: list(1)?,
                attributes: list(2)?,
                outputs: list(3)?.iter().filter_map(Value::as_str).collect(),
            })
        };
        let steps = trace.get(0)?.as_array()?.iter();
        let all: Vec<OutlineStep<'a>> = steps.map(read).collect::<Option<_>>()?;
        let mut made = HashMap::new();
        for (place, step) in all.iter().enumerate() {
            let outputs = step.outputs.iter().enumerate();
            made.extend(outputs.map(|(output, &name)| (name, (place, output))));
        }
        Some(Steps { all, made })
    }

    fn maker(&self, name: &Value) -> Option<(&OutlineStep<'a>, usize)> {
        let &(step, output) = self.made.get(name.as_str()?)?;
        Some((&self.all[step], output))
    }

    fn of_kind(&self, kind: &'static str) -> impl Iterator<Item = (usize, &OutlineStep<'a>)> {
        let steps = self.all.iter().enumerate();
        steps.filter(move |(_, step)| step.kind == kind)
    }

    /// Indices of the steps that draw, up to the last tile, with the steps that these need.
    fn that_draw(&self) -> BTreeSet<usize> {
        let last = self
            .of_kind(DRAWS_TILE)
            .last()
            .map_or(0, |(place, _)| place);
        let stands_alone = |kind: &str| {
            !MOVES.contains(&kind) && !MARKS.contains(&kind) && !kind.starts_with(LOOKS)
        };
        let steps = self.all[..=last].iter().enumerate();
        let alone = steps.filter(|(_, step)| stands_alone(step.kind));
        let mut open: Vec<usize> = alone.map(|(place, _)| place).collect();
        let mut kept = BTreeSet::new();
        while let Some(place) = open.pop() {
            if kept.insert(place) {
                let inputs = self.all[place].inputs.iter().filter_map(Value::as_str);
                open.extend(inputs.filter_map(|name| self.made.get(name)).map(|m| m.0));
            }
        }
        kept
    }

    /// The index of a step among those that draw tiles.
    fn drawing(&self, step: &OutlineStep<'a>) -> Option<usize> {
        self.of_kind(DRAWS_TILE)
            .position(|(_, other)| std::ptr::eq(other, step))
    }

    /// The factors whose product a loop's extent is. `None` if the draws do not determine it.
    fn factors(&self, name: &Value) -> Option<Vec<Factor>> {
        let (step, output) = self.maker(name)?;
        match step.kind {
            "Fuse" => {
                let parts = step.inputs.iter().map(|part| self.factors(part));
                Some(parts.collect::<Option<Vec<_>>>()?.concat())
            }
            "Split" => {
                // The inputs of a split are the loop and a factor for each part.
                let (draw, place) = self.maker(step.inputs.get(output + 1)?)?;
                Some(vec![(self.drawing(draw)?, place)])
            }
            _ => None,
        }
    }

    /// The loops bound to threads whose extents are known, each with the bounds that are set next.
    fn threads(&self) -> Vec<Threads> {
        let mut all: Vec<Option<Threads>> = Vec::new();
        for step in &self.all {
            let mark = step.attributes.first().and_then(Value::as_str);
            match (step.kind, mark, all.last_mut()) {
                ("Bind", Some("threadIdx.x"), _) => {
                    let factors = step.inputs.first().and_then(|name| self.factors(name));
                    all.push(factors.map(|factors| Threads {
                        factors,
                        fewest: 0,
                        most: i64::MAX,
                    }));
                }
                ("Annotate", Some(FEWEST), Some(Some(threads))) => {
                    threads.fewest = number(step).unwrap_or(0);
                }
                ("Annotate", Some(MOST_THREADS), Some(Some(threads))) => {
                    threads.most = number(step).unwrap_or(i64::MAX);
                }
                _ => {}
            }
        }
        all.into_iter().flatten().collect()
    }

    /// The copies to shared memory, by the block that uses them; the drawing steps were replayed on `schedule`.
    fn copies(&self, schedule: &Schedule) -> Result<Vec<Copies>> {
        let mut all: HashMap<&str, Copies> = HashMap::new();
        for (_, copy) in self.of_kind("CacheRead") {
            let (Some(place), Some("shared"), Some(block)) = (
                copy.attributes.first().and_then(Value::as_u64),
                copy.attributes.get(1).and_then(Value::as_str),
                copy.inputs.first().and_then(Value::as_str),
            ) else {
                continue;
            };
            let Some(info) = self.info(schedule, block)? else {
                continue;
            };
            let Some(tile) = self.tile(copy, block, &info, place as usize) else {
                continue;
            };
            let copies = all.entry(block).or_insert(Copies { tiles: Vec::new() });
            copies.tiles.push(tile);
        }
        Ok(all.into_values().collect())
    }

    /// A block of the function by its name in the trace. `None` if the function has no such block.
    fn info(&self, schedule: &Schedule, block: &str) -> Result<Option<BlockInfo>> {
        let found = self.made.get(block).map(|&(step, _)| &self.all[step]);
        let name = found
            .filter(|step| step.kind == "GetSBlock")
            .and_then(|step| step.attributes.first()?.as_str());
        match name.and_then(|name| schedule.block(name).ok()) {
            Some(block) => schedule.info(&block).map(Some),
            None => Ok(None),
        }
    }

    /// The tile that `copy` copies at once, of one of the reads of `block`.
    fn tile(
        &self,
        copy: &OutlineStep<'a>,
        block: &str,
        info: &BlockInfo,
        read: usize,
    ) -> Option<Tile> {
        let access = info.reads.get(read)?;
        let (moved, at) = self.of_kind("ComputeAt").find(|(_, step)| {
            step.inputs.first().and_then(Value::as_str) == copy.outputs.first().copied()
        })?;
        let at = at.inputs.get(1)?;
        let (_, order) = self
            .of_kind("Reorder")
            .filter(|(place, step)| *place < moved && step.inputs.contains(at))
            .last()?;
        let depth = order.inputs.iter().position(|name| name == at)?;
        let (_, loops) = self
            .of_kind("GetLoops")
            .find(|(_, step)| step.inputs.first().and_then(Value::as_str) == Some(block))?;
        if loops.outputs.len() != info.iters.len() {
            return None;
        }
        let in_threads: Vec<Factor> = self.bound_to(&["threadIdx.x", "vthread.x"]);
        // The factors of a loop that the tile spans: those below the copy, and those of threads, which share it.
        let within = |iter: usize| -> Vec<Factor> {
            let split = self.of_kind("Split").find(|(_, step)| {
                step.inputs.first().and_then(Value::as_str) == Some(loops.outputs[iter])
            });
            let parts = split.map_or(&[][..], |(_, step)| &step.outputs);
            let spanned = parts.iter().filter_map(|&part| {
                let name = Value::from(part);
                let [factor] = self.factors(&name)?[..] else {
                    return None;
                };
                let place = order.inputs.iter().position(|other| *other == name);
                let below = place.is_some_and(|place| place > depth);
                (below || in_threads.contains(&factor)).then_some(factor)
            });
            spanned.collect()
        };
        let dimensions = access.indices.iter().zip(&access.shape);
        let dimensions = dimensions.map(|(index, &extent)| {
            let known: Option<Vec<(i64, usize)>> = match index.quotient {
                None => index
                    .terms
                    .iter()
                    .map(|&(i, c)| Some((c?.abs(), i)))
                    .collect(),
                Some(_) => None,
            };
            let terms = known.unwrap_or_default().into_iter();
            Dimension {
                extent,
                touched: index.extent.max(1),
                terms: terms.map(|(c, iter)| (c, within(iter))).collect(),
            }
        });
        Some(Tile {
            element_bytes: access.dtype?.bytes() as i64,
            dimensions: dimensions.collect(),
        })
    }

    /// Factors of the loops that are bound to one of these axes.
    fn bound_to(&self, axes: &[&str]) -> Vec<Factor> {
        let bound = self.of_kind("Bind").filter(|(_, step)| {
            let axis = step.attributes.first().and_then(Value::as_str);
            axis.is_some_and(|axis| axes.contains(&axis))
        });
        let factors = bound.filter_map(|(_, step)| self.factors(step.inputs.first()?));
        factors.flatten().collect()
    }
}

/// The number that a mark has.
fn number(step: &OutlineStep<'_>) -> Option<i64> {
    step.inputs.get(1)?.as_i64()
}
