//! Finds the engine of a command whose node is lost: by its operation, by the number of records without a command, by
//! its neighbours.

use std::collections::HashSet;

use crate::chip::{Chip, NodeEngine, Preamble};
use crate::input::details::Meaning;
use crate::report::Engine;

/// Finds the engine of a command whose node is lost.
pub(super) struct Engines<'a> {
    chip: Chip,
    words: &'a [u32],
    /// Number of records without a command, of TIU, GDMA and SDMA; below 0: commands without record.
    short: [i64; 3],
    /// The usual operations of GDMA and SDMA: operation, function and memories of their nodes.
    habits: [HashSet<u32>; 2],
}

/// The bits of a node that say what it does: all but its type, its engine and the type of its elements.
const DOING: u32 = 0x0f0f_fc00;

impl<'a> Engines<'a> {
    /// `records` are the numbers of records of TIU, GDMA and SDMA.
    pub fn new(chip: Chip, words: &'a [u32], records: [usize; 3]) -> Engines<'a> {
        let mut engines = Engines {
            chip,
            words,
            short: records.map(|n| n as i64),
            habits: Default::default(),
        };
        if chip.spec().preamble == Preamble::Strays {
            // Two records of the hardware's own.
            engines.short[0] -= 2;
        }
        for &word in words {
            engines.count(word, -1);
            match engines.of(word) {
                Some(Engine::Gdma) => engines.habits[0].insert(word & DOING),
                Some(Engine::Sdma) => engines.habits[1].insert(word & DOING),
                _ => false,
            };
        }
        engines
    }

    /// Adds `records` to the number of records without a command, for a node's engine.
    pub fn count(&mut self, word: u32, records: i64) {
        if let Some(engine) = self.of(word) {
            self.short[engine.slot()] += records;
        }
    }

    /// Whether a node's engine has more commands than records.
    pub fn too_many(&self, word: u32) -> bool {
        self.of(word).is_some_and(|own| self.short[own.slot()] < 0)
    }

    /// The core's engine of a node.
    pub fn of(&self, word: u32) -> Option<Engine> {
        match self.chip.spec().node_engine(word >> 7 & 7)? {
            NodeEngine::Tiu => Some(Engine::Tiu),
            NodeEngine::Gdma => Some(Engine::Gdma),
            NodeEngine::Sdma => Some(Engine::Sdma),
            NodeEngine::Hau | NodeEngine::Cdma => None,
        }
    }

    /// A node of an engine for these details.
    fn node(&self, engine: NodeEngine, meaning: &Meaning) -> Option<u32> {
        let reading = match engine {
            NodeEngine::Tiu => meaning.tiu?,
            _ => meaning.dma?,
        };
        let code = (0..8).find(|&code| self.chip.spec().node_engine(code) == Some(engine))?;
        let info = reading.memories.map_or(0, |(from, to)| {
            from.code().unwrap_or(0) << 4 | to.code().unwrap_or(0) << 6
        });
        Some(1 | code << 7 | reading.task << 10 | reading.function << 15 | info << 20)
    }

    /// A node for details that one engine only can have had.
    pub fn plain(&self, meaning: &Meaning) -> Option<u32> {
        let engine = match (&meaning.tiu, &meaning.dma) {
            (Some(_), None) => NodeEngine::Tiu,
            (None, Some(_)) => {
                let doing = self.node(NodeEngine::Gdma, meaning)? & DOING;
                match self.habits.each_ref().map(|habits| habits.contains(&doing)) {
                    [true, false] => NodeEngine::Gdma,
                    [false, true] => NodeEngine::Sdma,
                    _ => return None,
                }
            }
            _ => return None,
        };
        self.node(engine, meaning)
    }

    /// The node beside details, or one of the other DMA engine if that lacks a command and the node's has one too many.
    pub fn balanced(&mut self, word: u32, meaning: &Meaning) -> u32 {
        let other = match self.of(word) {
            Some(Engine::Gdma) => (Engine::Sdma, NodeEngine::Sdma),
            Some(Engine::Sdma) => (Engine::Gdma, NodeEngine::Gdma),
            _ => return word,
        };
        let too_many = self.of(word).is_some_and(|own| self.short[own.slot()] < 0);
        match self.node(other.1, meaning) {
            Some(better) if too_many && self.short[other.0.slot()] > 0 => {
                self.count(word, 1);
                self.count(better, -1);
                better
            }
            _ => word,
        }
    }

    /// A node for details before the n-th node, of GDMA or SDMA: the engine with too many records, or that of the
    /// neighbour.
    pub fn likely(&self, node: usize, meaning: &Meaning) -> Option<u32> {
        if meaning.tiu.is_some() {
            return None;
        }
        let is_dma = |word: &&u32| matches!(self.of(**word), Some(Engine::Gdma | Engine::Sdma));
        let before = self.words[..node].iter().rev().find(is_dma);
        let after = self.words[node..].iter().find(is_dma);
        let neighbour = before.or(after).and_then(|&word| self.of(word));
        let [_, gdma, sdma] = self.short;
        let engine = match (gdma > 0, sdma > 0) {
            (true, false) => NodeEngine::Gdma,
            (false, true) => NodeEngine::Sdma,
            _ if neighbour == Some(Engine::Sdma) => NodeEngine::Sdma,
            _ => NodeEngine::Gdma,
        };
        self.node(engine, meaning)
    }
}
