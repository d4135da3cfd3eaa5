//! Chip-to-chip ports: each has one file of records, but any core may have sent the commands.
//!
//! Records of a port are written slightly out of order (it sends and receives at once) and are put back by id. A
//! record belongs to a core only if exactly one core's commands explain it.

use crate::chip::Chip;
use crate::input::core::CoreFile;
use crate::input::nodes::Command;
use crate::input::pmu::RawRecord;
use crate::input::source::SourceFile;
use crate::matching::bind::{Bound, bind};
use crate::matching::event::{Certainty, Link};
use crate::matching::order::Record;
use crate::matching::sections::{Anchor, Fit};
use crate::matching::stream::{Completeness, Stream};
use crate::report::{Engine, Fate};

/// A fall of ids by more than this starts a new launch. A smaller fall is disorder if the record overlaps those before it,
/// because the port sends and receives at the same time.
const RESET_FALL: u32 = 10;

/// The records of a port in order, and those left out: traffic from before the profile, and doubles.
pub fn settle(raw: &[RawRecord], preamble: usize) -> (Vec<Record>, Vec<(Record, Fate)>) {
    let mut records: Vec<Record> = Vec::with_capacity(raw.len());
    let (mut lift, mut id_lift, mut last_id) = (0i64, 0u32, 0u32);
    for r in raw {
        if last_id > 65000 && last_id <= 0xffff && r.id < 1000 {
            id_lift += 1 << 16;
        }
        last_id = r.id;
        let start = i64::from(r.start) + lift;
        let end = i64::from(r.end) + lift;
        if records.last().is_some_and(|last| {
            start < last.start && end < last.end && last.start - start > 1 << 31
        }) {
            lift += 1 << 32;
        }
        let start = i64::from(r.start) + lift;
        records.push(Record {
            start,
            end: start + i64::from(r.end.wrapping_sub(r.start)),
            id: r.id.wrapping_add(id_lift),
            offset: r.offset,
        });
    }
    let mut left_out = Vec::new();
    let Some(first) = records.iter().position(|r| r.id == 1) else {
        return (records, left_out);
    };
    if records.len() < 2 {
        return (records, left_out);
    }
    let head = first.saturating_sub(preamble);
    left_out.extend(records[..head].iter().map(|r| (*r, Fate::Outside)));
    let mut out: Vec<Record> = records[head..first].to_vec();
    let mut launch: Vec<Record> = Vec::new();
    let mut before: Option<u32> = None;
    let mut ends = i64::MIN;
    let mut flush = |launch: &mut Vec<Record>, out: &mut Vec<Record>| {
        launch.sort_by_key(|r| r.id);
        for record in launch.drain(..) {
            match out.last_mut() {
                Some(last) if is_double(last, &record) => {
                    // If two records have the same id, the longer one is the command's.
                    let mut other = record;
                    if record.end - record.start > last.end - last.start {
                        std::mem::swap(last, &mut other);
                    }
                    left_out.push((other, Fate::Duplicate));
                }
                _ => out.push(record),
            }
        }
    };
    for record in &records[first..] {
        let falls = before.is_some_and(|b| {
            b > record.id && b - record.id > RESET_FALL || b >= record.id && record.start >= ends
        });
        if falls {
            flush(&mut launch, &mut out);
            ends = i64::MIN;
        }
        launch.push(*record);
        before = Some(record.id);
        ends = ends.max(record.end);
    }
    flush(&mut launch, &mut out);
    (out, left_out)
}

/// Whether two records are of one command: the same id at the same time. Sync records before the first launch may carry
/// the id of its first command.
fn is_double(last: &Record, record: &Record) -> bool {
    last.id == record.id && last.id != 0 && record.start < last.end && last.start < record.end
}

/// The command and the core of each record of a port.
pub struct PortBinding {
    /// One for each record.
    pub bound: Vec<(Bound, Option<u32>)>,
    /// Records that more than one core explains.
    pub ambiguous: u64,
    /// Commands for this port in all cores.
    pub commands: u64,
    /// Commands that have a record.
    pub commands_used: u64,
}

/// Tries every core's commands against the records of a port. `anchor_core` recorded the preamble.
pub fn bind_port(
    chip: Chip,
    port: usize,
    file: &SourceFile,
    records: &[Record],
    cores: &[&CoreFile],
    anchor_core: Option<u32>,
) -> PortBinding {
    let mut result = PortBinding {
        bound: vec![
            (
                Bound {
                    certainty: Certainty::NoCommands,
                    ..Bound::UNMATCHED
                },
                None
            );
            records.len()
        ],
        ambiguous: 0,
        commands: 0,
        commands_used: 0,
    };
    let mut ambiguous = vec![false; records.len()];
    let lists = commands_of_port(chip, port, cores, anchor_core);
    if !lists.is_empty() {
        for (bound, _) in &mut result.bound {
            bound.certainty = Certainty::Unmatched;
        }
    }
    let fit = if lists.len() == 1 {
        Fit::Partial
    } else {
        Fit::Equal
    };
    let several = lists.len() > 1;
    for (core, list) in lists {
        let stream = Stream {
            chip,
            engine: Engine::Cdma,
            core,
            record_file: file,
            base: 1,
            mhz: chip.spec().dma_mhz,
            anchor: Anchor::Start,
            latest: false,
            fit,
            records: Completeness::Open,
        };
        let mut binding = bind(&stream, &mut records.to_vec(), list);
        if core.nodes_doubtful || binding.misfit {
            // Nodes of ports stand in the same block.
            binding.doubt();
        }
        result.commands += binding.commands;
        for (place, bound) in binding.bound.into_iter().enumerate() {
            if bound.link == Link::None {
                continue;
            }
            if result.bound[place].0.link != Link::None {
                ambiguous[place] = true;
            } else {
                result.bound[place] = (bound, Some(core.number));
            }
        }
    }
    if several && result.commands != records.len() as u64 {
        // Some are lost: the remaining records may belong to another core's commands.
        for (bound, _) in &mut result.bound {
            if bound.certainty == Certainty::Matched {
                bound.certainty = Certainty::Guessed;
            }
        }
    }
    result.leave_out(&ambiguous);
    result
}

/// The cores that have commands for a port, with these commands except the preamble's.
fn commands_of_port<'a>(
    chip: Chip,
    port: usize,
    cores: &[&'a CoreFile],
    anchor_core: Option<u32>,
) -> Vec<(&'a CoreFile, &'a [Command])> {
    let of_core = |core: &&'a CoreFile| {
        let all = core.cdma_commands.get(port)?;
        let skip = if Some(core.number) == anchor_core {
            chip.spec().preamble_len()
        } else {
            0
        };
        let list = all.get(skip..).filter(|list| !list.is_empty())?;
        Some((*core, list))
    };
    cores.iter().filter_map(of_core).collect()
}

impl PortBinding {
    /// Leaves records without a command that several cores explain, and counts commands that have one.
    fn leave_out(&mut self, ambiguous: &[bool]) {
        for (place, many) in ambiguous.iter().enumerate() {
            if *many {
                self.bound[place] = (Bound::UNMATCHED, None);
                self.ambiguous += 1;
            }
        }
        let used = self
            .bound
            .iter()
            .filter(|(bound, _)| bound.link != Link::None);
        self.commands_used = used.count() as u64;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_launch_is_sorted_and_its_doubles_collapse() {
        let raw: Vec<RawRecord> = [
            (5, 1),
            (10, 2),
            (20, 17),
            (30, 1),
            (50, 3),
            (40, 2),
            (41, 2),
            (90, 1),
            (102, 2),
        ]
        .iter()
        .enumerate()
        .map(|(i, &(start, id))| RawRecord {
            start,
            end: start + 5 + i as u32,
            id,
            offset: i as u64,
        })
        .collect();
        // The first id 1 starts the launch; ids that fall by little are disorder, unless all before has ended.
        let (records, left_out) = settle(&raw, 2);
        assert_eq!(
            records.iter().map(|r| r.id).collect::<Vec<_>>(),
            [1, 2, 17, 1, 2, 3, 1, 2]
        );
        assert_eq!(
            left_out.iter().filter(|n| n.1 == Fate::Duplicate).count(),
            1
        );
    }
}
