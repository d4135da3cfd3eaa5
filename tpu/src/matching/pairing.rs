//! Finds the command section of each record.
//!
//! In a whole dump the sections of records and of commands correspond one to one, and all of it is certain. For other
//! dumps see [`super::recovery`].

use std::ops::Range;

use crate::input::nodes::Command;
use crate::matching::order::Record;
use crate::matching::recovery::Search;
use crate::matching::sections::{
    CommandSection, Pair, RecordSection, correspond, correspond_shifted,
};
use crate::matching::stream::Stream;

/// Records of one command section.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Group {
    /// Their places.
    pub records: Range<usize>,
    /// The section.
    pub commands: usize,
    /// Id of its first command, where ids do not begin at the base.
    pub shift: Option<u32>,
}

/// Sections found for records.
pub(super) struct Pairing {
    /// The groups, in order.
    pub groups: Vec<Group>,
    /// Whether each record's section is certain.
    pub certain: Vec<bool>,
    /// Whether commands must be missing.
    pub misfit: bool,
    /// Whether each record has its command and each command its record.
    pub is_whole: bool,
}

impl Pairing {
    /// Sections by these pairs; nothing of them is certain.
    pub fn guessed(records: usize, parts: &[RecordSection], pairs: &[Pair]) -> Self {
        let group = |pair: &Pair| Group {
            records: parts[pair.records].range.clone(),
            commands: pair.commands,
            shift: None,
        };
        Self {
            groups: pairs.iter().map(group).collect(),
            certain: vec![false; records],
            misfit: false,
            is_whole: false,
        }
    }

    /// Pairs each section of records with the section of commands of the same number.
    fn one_to_one(records: usize, parts: &[RecordSection], shifted: bool) -> Self {
        let group = |(number, part): (usize, &RecordSection)| Group {
            records: part.range.clone(),
            commands: number,
            shift: shifted.then_some(part.low),
        };
        Self {
            groups: parts.iter().enumerate().map(group).collect(),
            certain: vec![true; records],
            misfit: false,
            is_whole: !shifted,
        }
    }
}

/// Pairs the sections of a stream's records with those of its commands.
pub(super) fn pair(
    stream: &Stream,
    records: &[Record],
    parts: &[RecordSection],
    commands: &[Command],
    sections: &[CommandSection],
) -> Pairing {
    let mut pairing = if parts.is_empty() || sections.is_empty() {
        Pairing::guessed(records.len(), parts, &[])
    } else if correspond(parts, sections, stream.base) {
        Pairing::one_to_one(records.len(), parts, false)
    } else if stream.may_begin_elsewhere(commands)
        && correspond_shifted(parts, sections, stream.base)
    {
        Pairing::one_to_one(records.len(), parts, true)
    } else {
        Search {
            stream,
            records,
            parts,
            commands,
            sections,
        }
        .run()
    };
    // Records that stand against time are not in the order of their commands.
    if records.windows(2).any(|w| w[1].end < w[0].start) {
        pairing.certain.fill(false);
    }
    pairing
}
