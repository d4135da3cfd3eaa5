//! What is done to the commands of a core: words of nodes, details and descriptors that are lost, never written or of
//! no command.

use super::{Capture, Core, Random};

/// Where something begins and how far it goes, in thousandths of a list; at least one item.
type Part = (usize, usize);

/// What is done to a core's commands.
#[derive(Debug, Clone, Copy)]
pub enum CommandLoss {
    /// Words of the block of nodes, whatever they are: commands, names, resets.
    Words(Part),
    /// Words that were never written.
    BlankWords(Part),
    /// Commands alone; what marks kernels and resets stays.
    Nodes(Part),
    /// Resets of ids alone.
    Resets(Part),
    /// Batches alone.
    Batches(Part),
    /// Ends of kernels alone.
    Ends(Part),
    /// Details of nodes.
    Details(Part),
    /// Details whose bytes were never written.
    BlankDetails(Part),
    /// Details of no command.
    UnknownDetails(Part),
    /// Descriptors of an engine.
    Descriptors(usize, Part),
    /// Descriptors of an engine that were never written.
    BlankDescriptors(usize, Part),
    /// Descriptors of an engine that are of no command.
    UnknownDescriptors(usize, Part),
}

/// Places of a part in a list of this many.
fn places((from, to): Part, count: usize) -> std::ops::Range<usize> {
    let start = (count * from / 1000).min(count.saturating_sub(1));
    let end = (count * to / 1000).max(start + 1);
    start..end.min(count)
}

/// No operation 11, function 30 anywhere; all that a transfer's code can be.
fn make_unknown(tiu: bool, bytes: &mut [u8]) {
    if tiu {
        bytes[5] = bytes[5] & 1 | 11 << 1 | 0xc0;
        bytes[6] |= 3;
    } else {
        bytes[4] |= 0xff;
    }
}

impl CommandLoss {
    /// Draws a loss that the capture can have: a burst, a single item, a head or a tail.
    pub fn draw(random: &mut Random, capture: Capture) -> CommandLoss {
        let (a, b) = (random.below(1000), random.below(1000));
        let part = match random.below(5) {
            0 => (a, a),
            1 => (a, a + random.below(60)),
            2 => (0, a),
            3 => (a, 1000),
            _ => (a.min(b), a.max(b)),
        };
        let engine = random.below(2);
        match (capture, random.below(9)) {
            (Capture::Bmodel, 0..=2) => CommandLoss::Descriptors(engine, part),
            (Capture::Bmodel, 3 | 4) => CommandLoss::BlankDescriptors(engine, part),
            (Capture::Bmodel, _) => CommandLoss::UnknownDescriptors(engine, part),
            (Capture::Details, 0) => CommandLoss::Details(part),
            (Capture::Details, 1) => CommandLoss::BlankDetails(part),
            (Capture::Details, 2) => CommandLoss::UnknownDetails(part),
            (_, 3) => CommandLoss::BlankWords(part),
            (_, 0 | 4) => CommandLoss::Nodes(part),
            (_, 5) => CommandLoss::Resets(part),
            (_, 7) => CommandLoss::Batches(part),
            (_, 8) => CommandLoss::Ends(part),
            _ => CommandLoss::Words(part),
        }
    }

    /// Does it.
    pub fn apply(self, core: &mut Core) {
        match self {
            CommandLoss::Words(part) => drop(core.nodes.drain(places(part, core.nodes.len()))),
            CommandLoss::BlankWords(part) => {
                let range = places(part, core.nodes.len());
                core.nodes[range].fill(0);
            }
            CommandLoss::Nodes(part) => remove_kind(&mut core.nodes, 1, part, 0),
            CommandLoss::Resets(part) => remove_kind(&mut core.nodes, 12, part, 0),
            CommandLoss::Batches(part) => {
                // Most kernels keep theirs: a missing one is noticed only if most have one, as runtimes need not write them.
                let kernels = core.truth[0].last().map_or(0, |last| last.kernel + 1);
                let keep = kernels as usize / 2 + 1;
                remove_kind(&mut core.nodes, 14, part, keep);
            }
            CommandLoss::Ends(part) => remove_kind(&mut core.nodes, 15, part, 1),
            CommandLoss::Details(part) => drop(core.extra.drain(places(part, core.extra.len()))),
            CommandLoss::BlankDetails(part) => {
                let range = places(part, core.extra.len());
                core.extra[range]
                    .iter_mut()
                    .for_each(|(_, bytes)| bytes.fill(0));
            }
            CommandLoss::UnknownDetails(part) => {
                let range = places(part, core.extra.len());
                // Only some bits of a system command have a meaning.
                let list = core.extra[range].iter_mut();
                for (_, bytes) in list.filter(|(_, bytes)| bytes.len() > 16) {
                    make_unknown(matches!(bytes.len(), 32 | 64), bytes);
                }
            }
            CommandLoss::Descriptors(engine, part) => {
                let list = &mut core.des[engine];
                drop(list.drain(places(part, list.len())));
            }
            CommandLoss::BlankDescriptors(engine, part) => {
                let range = places(part, core.des[engine].len());
                core.des[engine][range]
                    .iter_mut()
                    .for_each(|bytes| bytes.fill(0));
            }
            CommandLoss::UnknownDescriptors(engine, part) => {
                let range = places(part, core.des[engine].len());
                for bytes in &mut core.des[engine][range] {
                    make_unknown(engine == 0, bytes);
                }
            }
        }
    }
}

/// Removes the words of one kind in `part`, but leaves at least `keep`. Words of names count too, as in a damaged file.
fn remove_kind(words: &mut Vec<u32>, kind: u32, part: Part, keep: usize) {
    let all: Vec<usize> = (0..words.len())
        .filter(|&at| words[at] & 0x7f == kind)
        .collect();
    if all.is_empty() {
        return;
    }
    let range = places(part, all.len());
    let most = all.len().saturating_sub(keep);
    let gone = &all[range.start..range.end.min(range.start + most)];
    let mut at = 0;
    words.retain(|_| {
        at += 1;
        gone.binary_search(&(at - 1)).is_err()
    });
}
