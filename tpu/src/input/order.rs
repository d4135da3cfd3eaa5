//! Checks that the descriptors of a compiled model are complete and in order, by the commands that they wait for.
//!
//! Descriptors have no ids, but each names the command of the other engine (TIU or GDMA) that it waits for. Those ids
//! never decrease from one descriptor to the next, and none is beyond the other engine's last command.

use opreport::units::plural;

use crate::chip::Chip;
use crate::chip::regs::{Decoded, Table};
use crate::input::container::Block;
use crate::report::{Engine, Report};

/// Bits of `cmd_id_dep` that are an id; those above are flags.
const ID: u64 = 0xf_ffff;

/// Ids wrap around: a larger decrease does not count as one.
const TURN: u64 = 0x8000;

/// The commands that the descriptors of an engine wait for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Waits {
    /// The highest id that any descriptor waits for, counted from 1; 0 if there is none.
    pub last: u64,
    /// Number of descriptors that wait for an earlier command than the one before them.
    pub falls: u64,
}

impl Waits {
    /// The waits of a block's commands.
    pub fn of<'a>(chip: Chip, block: &Block, commands: impl Iterator<Item = &'a Decoded>) -> Waits {
        let table = Table::of(chip);
        commands.fold(Waits::default(), |waits, command| {
            let layout = table.layout(command.op);
            let from = (command.offset - block.offset) as usize;
            let bytes = &block.payload[from..from + layout.bytes];
            match layout.get(bytes, "cmd_id_dep") {
                Some(id) if !layout.is_system() && id & ID > 0 => waits.then(id & ID),
                _ => waits,
            }
        })
    }

    fn then(self, id: u64) -> Waits {
        let falls = id < self.last && self.last - id < TURN;
        Waits {
            last: if falls { self.last } else { id },
            falls: self.falls + u64::from(falls),
        }
    }
}

/// Whether TIU and GDMA lack descriptors or have some at a wrong place. `counts` are their numbers, if the block was
/// read without a gap.
pub(super) fn doubted(
    waits: [Waits; 2],
    counts: [Option<u64>; 2],
    name: &str,
    report: &mut Report,
) -> [bool; 2] {
    let engines = [Engine::Tiu, Engine::Gdma];
    let mut doubted = [false; 2];
    for (at, engine) in engines.into_iter().enumerate() {
        let (own, other, of_other) = (waits[at], waits[1 - at], engines[1 - at]);
        if own.falls > 0 {
            doubted[at] = true;
            let text = format!(
                "{} of the {engine} for earlier {of_other} commands than those before: some are damaged, doubled or at a wrong \
                 place",
                match own.falls {
                    1 => "1 descriptor waits".to_string(),
                    many => format!("{many} descriptors wait"),
                }
            );
            report.lose("descriptors_out_of_order", name, own.falls, text);
        }
        let lost = counts[at].map_or(0, |count| other.last.saturating_sub(count));
        if lost > 0 && other.falls == 0 && other.last < TURN {
            doubted[at] = true;
            let text = format!(
                "{} of the {engine} lost: the {of_other} waits for command {}",
                match lost {
                    1 => "a descriptor is".to_string(),
                    many => format!("{} are", plural(many, "descriptor")),
                },
                other.last
            );
            report.lose("descriptors_lost", name, lost, text);
        }
    }
    doubted
}

#[cfg(test)]
mod tests {
    use super::*;

    fn waits(ids: &[u64]) -> Waits {
        ids.iter().fold(Waits::default(), |w, &id| w.then(id))
    }

    fn kinds(waits: [Waits; 2], counts: [Option<u64>; 2]) -> ([bool; 2], Vec<&'static str>) {
        let mut report = Report::default();
        let doubted = doubted(waits, counts, "f", &mut report);
        (doubted, report.findings.iter().map(|f| f.kind).collect())
    }

    #[test]
    fn ids_rise_and_turn() {
        let rising = Waits { last: 9, falls: 0 };
        assert_eq!(waits(&[1, 1, 3, 9]), rising);
        assert_eq!(waits(&[1, 3, 2, 2, 9]), Waits { last: 9, falls: 2 });
        assert_eq!(waits(&[0xffff, 2]), Waits { last: 2, falls: 0 });
    }

    #[test]
    fn what_is_waited_for_is_there() {
        let fine = [waits(&[2, 5]), waits(&[1, 4])];
        assert_eq!(kinds(fine, [Some(4), Some(5)]), ([false; 2], vec![]));
        // Unreadable bytes may contain any number of commands.
        assert_eq!(kinds(fine, [None, None]), ([false; 2], vec![]));
        let short = kinds(fine, [Some(4), Some(3)]);
        assert_eq!(short, ([false, true], vec!["descriptors_lost"]));
        let fallen = kinds([waits(&[5, 2]), fine[1]], [Some(4), Some(3)]);
        assert_eq!(fallen, ([true, false], vec!["descriptors_out_of_order"]));
    }
}
