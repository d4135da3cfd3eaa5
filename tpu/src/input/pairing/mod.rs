//! Pairs details with command nodes (mode 2).
//!
//! In a whole dump they pair one to one, in order. Nodes have no ids, details do: in a damaged dump these say which
//! details are missing, doubled or swapped. A detail's unit, operation, function and memories say to which node it
//! belongs. A command whose node is lost is restored from its details; if all details are there, a node without details
//! is a duplicate.

mod account;
mod engines;

use crate::align::{Prices, Step, align};
use crate::chip::Chip;
use crate::input::container::Block;
use crate::input::details::{Detail, ELSEWHERE, LEAVE, Meaning, Plan, Planned, price};
use crate::input::nodes::{Mode, NONE, Origin};
use crate::input::words::{Item, Items};
use crate::report::Report;
use account::Account;
use engines::Engines;

/// Pairs the details with the nodes of the blocks. `records` are the numbers of records of TIU, GDMA and SDMA.
pub(super) fn plan(
    chip: Chip,
    blocks: &[&Block],
    details: Vec<Detail>,
    records: [usize; 3],
    name: &str,
    report: &mut Report,
) -> Plan {
    let words: Vec<u32> = blocks
        .iter()
        .flat_map(|block| Items::new(block.payload))
        .filter_map(|(_, _, item)| match item {
            Item::Command {
                word,
                mode: Mode::Tdi,
            } => Some(word),
            _ => None,
        })
        .collect();
    let mut account = Account {
        moved: falls(&details),
        doubled: details.len() as u64,
        ..Account::default()
    };
    let (details, order) = in_order(details);
    account.doubled -= details.len() as u64;
    if order == Order::Unknown {
        account.moved = 0;
    }
    let meanings: Vec<Meaning> = details.iter().map(|d| Meaning::of(chip, d)).collect();
    let as_they_come: Vec<Option<usize>> = (0..details.len()).map(Some).collect();
    let fits = |(&word, meaning): (&u32, &Meaning)| price(chip, word, Some(meaning)) == 0;
    let whole = words.len() == details.len() && words.iter().zip(&meanings).all(fits);
    let counted = match order {
        Order::Counted if !whole => {
            let numbered = details.iter().zip(&meanings).all(|(detail, meaning)| {
                let word = words.get(detail.id as usize);
                word.is_some_and(|&word| price(chip, word, Some(meaning)) == 0)
            });
            by_id(&details, words.len(), numbered)
        }
        _ => None,
    };
    let pairing = Pairing {
        chip,
        words: &words,
        meanings: &meanings,
        complete: counted.is_some(),
        slots: counted.unwrap_or(as_they_come),
    };
    let (nodes, restored) = pairing.solve(records, &mut account);
    account.write(&details, &meanings, name, report);
    Plan {
        nodes,
        restored,
        meanings,
    }
}

/// Places where ids fall.
fn falls(details: &[Detail]) -> u64 {
    details.windows(2).filter(|w| w[1].id < w[0].id).count() as u64
}

/// Evidence of ids about the order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Order {
    /// The order is unknown, because several details have the same id.
    Unknown,
    /// Each detail has an id of its own.
    Counted,
}

/// Details by their ids, exact doubles left out; as they come where ids tell nothing.
fn in_order(mut details: Vec<Detail>) -> (Vec<Detail>, Order) {
    if details.windows(2).all(|w| w[0].id < w[1].id) {
        return (details, Order::Counted);
    }
    let as_they_came = details.clone();
    details.sort_by_key(|d| d.id);
    details.dedup_by(|b, a| a.id == b.id && a.bytes == b.bytes);
    // A few may be duplicates. Ids that do not count commands have many more.
    let unique = details.windows(2).all(|w| w[0].id < w[1].id);
    if unique && details.len() * 2 > as_they_came.len() {
        (details, Order::Counted)
    } else {
        (as_they_came, Order::Unknown)
    }
}

/// The details' positions by id, `None` where the details of an id are lost. No list if the ids do not count the commands.
/// Ids begin at 0 if each detail is like the node with its number.
fn by_id(details: &[Detail], nodes: usize, numbered: bool) -> Option<Vec<Option<usize>>> {
    let (first, last) = (details.first()?.id, details.last()?.id);
    // The ids begin at 0, unless the first details are lost.
    let all = numbered || last as usize + 1 == nodes;
    let base = if all { 0 } else { first };
    let span = if numbered {
        nodes
    } else {
        (last - base) as usize + 1
    };
    if !all && span > details.len() + details.len() / 4 + 64 {
        return None;
    }
    let mut slots = vec![None; span];
    for (number, detail) in details.iter().enumerate() {
        slots[(detail.id - base) as usize] = Some(number);
    }
    Some(slots)
}

/// Nodes and details that are to be paired.
struct Pairing<'a> {
    chip: Chip,
    words: &'a [u32],
    meanings: &'a [Meaning],
    /// The details in order; places where some are known to be missing are empty.
    slots: Vec<Option<usize>>,
    /// Whether all places of lost nodes are known.
    complete: bool,
}

/// Details whose node is elsewhere or lost.
struct Homeless {
    /// The node beside them, or the one that they stand before.
    node: usize,
    /// Whether that node is at the place of theirs.
    beside: bool,
    detail: Option<usize>,
    /// Their node, once it is found.
    word: Option<u32>,
}

/// The parts of a [`Plan`]: its nodes, and the commands between them.
type Solved = (Vec<Option<Planned>>, Vec<(usize, Planned)>);

impl Pairing<'_> {
    fn price(&self, node: usize, slot: usize) -> u32 {
        let meaning = self.slots[slot].map(|s| &self.meanings[s]);
        price(self.chip, self.words[node], meaning)
    }

    /// The command of each node, and those between them.
    fn solve(&self, records: [usize; 3], account: &mut Account) -> Solved {
        let prices = Prices {
            pair: &|node, slot| self.price(node, slot),
            left: &|_| LEAVE,
            right: &|_| LEAVE,
        };
        let steps = align(self.words.len(), self.slots.len(), &prices);
        let mut engines = Engines::new(self.chip, self.words, records);
        let mut nodes: Vec<Option<Planned>> = Vec::with_capacity(self.words.len());
        let mut homeless = Vec::new();
        let mut spare = Vec::new();
        let last_slot = steps.iter().rposition(|s| !matches!(s, Step::Left(_)));
        for (at, step) in steps.iter().enumerate() {
            let recorded = |node: usize, detail| Planned {
                word: self.words[node],
                detail,
                origin: Origin::Recorded,
            };
            match *step {
                Step::Pair(node, slot) => {
                    let detail = self.slots[slot];
                    nodes.push(Some(recorded(node, detail.map_or(NONE, |d| d as u32))));
                    account.lost += u64::from(detail.is_none());
                    if self.price(node, slot) >= ELSEWHERE {
                        spare.push((node, self.words[node]));
                        homeless.push(Homeless {
                            node,
                            beside: true,
                            detail,
                            word: None,
                        });
                    }
                }
                Step::Left(node) => {
                    // If no details are missing, a node without any has no command. After the last details they may be
                    // cut off.
                    let double = self.complete
                        && last_slot.is_some_and(|last| at < last)
                        && engines.of(self.words[node]).is_some();
                    nodes.push((!double).then(|| recorded(node, NONE)));
                    if double {
                        account.doubles += 1;
                        engines.count(self.words[node], 1);
                    } else {
                        account.lost += 1;
                    }
                    spare.push((node, self.words[node]));
                }
                Step::Right(slot) => homeless.push(Homeless {
                    node: nodes.len(),
                    beside: false,
                    detail: self.slots[slot],
                    word: None,
                }),
            }
        }
        // A larger number is no accident: the runtime then uses nodes in another way.
        const MOST: usize = 64;
        account.habit = spare.len() > MOST;
        if !account.habit {
            self.find_homes(&mut homeless, spare, &mut engines);
        } else {
            for one in homeless.iter_mut().filter(|one| one.beside) {
                one.word = Some(self.words[one.node]);
            }
        }
        self.make_homes(&mut homeless, &mut engines);
        for one in homeless.iter_mut().filter(|one| one.beside) {
            if let (Some(word), Some(detail)) = (one.word, one.detail) {
                one.word = Some(engines.balanced(word, &self.meanings[detail]));
            }
        }
        self.drop_behind(&mut nodes, &mut engines, account);
        let restored = self.place(homeless, &mut nodes, account);
        (nodes, restored)
    }

    /// Removes nodes after all details if there are too many for the records: they did not lose their details.
    fn drop_behind(
        &self,
        nodes: &mut [Option<Planned>],
        engines: &mut Engines,
        account: &mut Account,
    ) {
        for (node, planned) in nodes.iter_mut().enumerate().rev() {
            match planned {
                Some(Planned { word, detail, .. }) if *detail == NONE => {
                    let too_many = engines.too_many(*word);
                    if self.complete && too_many {
                        account.doubles += 1;
                        account.lost -= 1;
                        engines.count(self.words[node], 1);
                        *planned = None;
                    }
                }
                _ => break,
            }
        }
    }

    /// Puts commands whose node was found in its place; returns those between nodes.
    fn place(
        &self,
        homeless: Vec<Homeless>,
        nodes: &mut [Option<Planned>],
        account: &mut Account,
    ) -> Vec<(usize, Planned)> {
        let mut restored = Vec::new();
        for one in homeless {
            let (Some(word), Some(detail)) = (one.word, one.detail) else {
                account.gone += u64::from(!one.beside);
                continue;
            };
            let planned = Planned {
                word,
                detail: detail as u32,
                origin: Origin::Restored,
            };
            if !one.beside {
                account.restored += 1;
                restored.push((one.node, planned));
            } else if word != self.words[one.node] {
                account.swapped += 1;
                nodes[one.node] = Some(planned);
            } else {
                account.contrary += 1;
            }
        }
        restored
    }

    /// Nodes that were swapped stand beside details of others: gives each its own, where they fit exactly.
    fn find_homes(
        &self,
        homeless: &mut [Homeless],
        mut spare: Vec<(usize, u32)>,
        engines: &mut Engines,
    ) {
        let fits = |word: u32, detail: Option<usize>| {
            detail.is_some_and(|d| price(self.chip, word, Some(&self.meanings[d])) == 0)
        };
        for one in homeless.iter_mut() {
            if let Some(at) = spare.iter().position(|&(_, word)| fits(word, one.detail)) {
                one.word = Some(spare.remove(at).1);
            }
        }
        for one in homeless {
            if one.beside {
                engines.count(self.words[one.node], 1);
            }
            // The node may be right after all, unless its place is elsewhere.
            if one.word.is_none() && one.beside && spare.iter().any(|s| s.0 == one.node) {
                one.word = Some(self.words[one.node]);
            }
            if let Some(word) = one.word {
                engines.count(word, -1);
            }
        }
    }

    /// Nodes for the details that are left: first those whose engine is plain.
    fn make_homes(&self, homeless: &mut [Homeless], engines: &mut Engines) {
        for plain in [true, false] {
            for one in homeless.iter_mut().filter(|one| one.word.is_none()) {
                let Some(detail) = one.detail else { continue };
                let meaning = &self.meanings[detail];
                one.word = if plain {
                    engines.plain(meaning)
                } else {
                    engines.likely(one.node, meaning)
                };
                if let Some(word) = one.word {
                    engines.count(word, -1);
                }
            }
        }
    }
}
