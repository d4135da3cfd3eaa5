//! Damages dumps, and checks what the profile then says.
//!
//! Losses of records and of commands, random ones from seeds, and the comparison with the whole dump. No record called
//! matched may name another kernel or command than in the whole dump.

#![allow(dead_code)]

pub mod commands;

use std::collections::HashMap;
use std::ops::Range;

use tpuprofile::chip::Chip;
use tpuprofile::matching::event::Certainty;
use tpuprofile::report::{Engine, Stream};
use tpuprofile::view::Viewer;
use tpuprofile::{IngestOptions, Profile, ingest};

use crate::dumps::{Capture, Core, Dump, Rec, Spec, make};

/// Identifies a record in both dumps: its stream and its first bytes (times and id).
pub type Key = (u32, Engine, Vec<u8>);

/// What a profile says of a record: function, kernel, and the command's bytes if they are known.
pub type Said = (String, Option<String>, Option<Vec<u8>>);

/// Records with a command, by certainty.
pub fn said(profile: &Profile) -> HashMap<Key, (Said, Certainty)> {
    let mut found = HashMap::new();
    for core in &profile.cores {
        for engine in Engine::OF_CORE {
            let stream = Stream::new(engine, core.number);
            let viewer = Viewer::new(profile, stream).unwrap();
            for (i, event) in core.events[engine.slot()].iter().enumerate() {
                let view = viewer.view(i, event);
                let key = (core.number, engine, view.record[..12].to_vec());
                let bytes = view.decoded.map(|d| d.bytes.to_vec());
                let kernel = view.kernel.map(str::to_string);
                let one = (view.name.to_string(), kernel, bytes);
                found.insert(key, (one, event.certainty()));
            }
        }
    }
    found
}

/// A dump of two cores; the second is to be damaged.
pub fn two_cores(spec: Spec) -> Dump {
    let mut dump = make(spec);
    dump.cores.truncate(2);
    dump
}

pub fn read(dump: &Dump) -> Profile {
    let dir = tempfile::tempdir().unwrap();
    dump.write(dir.path());
    ingest(dir.path(), &IngestOptions::default()).unwrap()
}

/// What is done to a stream of records.
#[derive(Debug, Clone, Copy)]
pub enum Loss {
    /// A burst from a place on, both in hundredths of the stream.
    Burst(usize, usize),
    /// All before a place.
    Head(usize),
    /// All from a place on.
    Tail(usize),
    /// All before a place, and what is left begins in the middle of the file.
    Ring(usize),
    /// A burst of records that were never written.
    Zeroed(usize, usize),
    /// Every n-th record.
    Every(usize),
}

impl Loss {
    pub fn apply(self, list: &mut Vec<Rec>) {
        let at = |percent: usize| list.len() * percent / 100;
        match self {
            Loss::Every(step) => {
                let mut place = 0;
                list.retain(|_| {
                    place += 1;
                    place % step != 0
                });
            }
            Loss::Burst(from, to) => {
                let (from, to) = (at(from), at(to).max(at(from) + 1));
                list.drain(from..to.min(list.len()));
            }
            Loss::Head(to) => drop(list.drain(..at(to).max(1))),
            Loss::Tail(from) => list.truncate(at(from).min(list.len() - 1)),
            Loss::Ring(to) => {
                list.drain(..at(to).max(1));
                let middle = list.len() / 2;
                list.rotate_left(middle);
            }
            Loss::Zeroed(from, to) => {
                let (from, to) = (at(from), at(to).max(at(from) + 1));
                let to = to.min(list.len());
                for rec in &mut list[from..to] {
                    *rec = Rec {
                        start: 0,
                        end: 0,
                        id: 0,
                        bytes: 0,
                        to_local: false,
                        sync: true,
                        word: 0,
                    };
                }
            }
        }
    }
}

/// Whether a profile says something false of a record. Unknown facts are not false.
fn names_another(real: &Said, said: &Said) -> bool {
    // A command has another name if its details are known.
    let plain = |name: &str| match name {
        "mm2.nn" => "MM2_NN".to_string(),
        "arith.add" => "add".to_string(),
        other => other.to_string(),
    };
    let differ = |kernel: &Option<String>| kernel.is_some() && *kernel != real.1;
    let bytes = match (&real.2, &said.2) {
        (Some(real), Some(said)) => real != said,
        _ => false,
    };
    plain(&real.0) != plain(&said.0) || differ(&said.1) || bytes
}

/// Whether nothing shows that a command of a record's kernel is lost. Commands have no ids, and the kernel's last record is
/// lost too, whose id would show how many there were. The kernel itself is known nevertheless.
pub fn uncounted(
    truth: &HashMap<Key, (Said, Certainty)>,
    said: &HashMap<Key, (Said, Certainty)>,
    key: &Key,
) -> bool {
    let Some((real, _)) = truth.get(key) else {
        return false;
    };
    // The upper half of the TIU's id word counts something else.
    let id = |key: &Key| u16::from_le_bytes([key.2[8], key.2[9]]);
    let of_kernel = truth.iter().filter(|(other, (one, _))| {
        (other.0, other.1) == (key.0, key.1) && one.1.is_some() && one.1 == real.1
    });
    let last = of_kernel.map(|(other, _)| other).max_by_key(|key| id(key));
    let kernel = &said[key].0.1;
    (kernel.is_none() || *kernel == real.1) && last.is_some_and(|last| !said.contains_key(last))
}

/// Describes the earliest matched record that the profile describes wrongly. Records that `untold` accepts are ignored.
pub fn first_wrong(
    truth: &HashMap<Key, (Said, Certainty)>,
    said: &HashMap<Key, (Said, Certainty)>,
    untold: impl Fn(&Key) -> bool,
) -> Option<String> {
    let matched = said.iter().filter(|(_, (_, c))| *c == Certainty::Matched);
    let wrong = matched.filter(|(key, (one, _))| {
        truth
            .get(*key)
            .is_none_or(|(real, _)| names_another(real, one))
    });
    let wrong = wrong.filter(|(key, _)| !untold(key));
    let (key, (one, _)) = wrong.min_by_key(|(key, _)| (key.0, key.1, key.2.clone()))?;
    let real = truth.get(key).map(|(real, _)| real);
    Some(format!(
        "core {} {} {:?} is said to be {one:?}, is {real:?}",
        key.0, key.1, key.2
    ))
}

/// Number of records that have a command for certain, and number of all records.
pub fn matched(said: &HashMap<Key, (Said, Certainty)>) -> (usize, usize) {
    let sure = |(_, certainty): &&(Said, Certainty)| *certainty == Certainty::Matched;
    (said.values().filter(sure).count(), said.len())
}

/// Ends a test of many dumps: fails if the profile of any said something false.
pub fn none_wrong(wrong: &[String]) {
    assert!(
        wrong.is_empty(),
        "{} dumps:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}

/// The seeds of a long run: `OPBENCH_SEEDS` is their number, `OPBENCH_FIRST_SEED` the first.
pub fn seeds_of_environment() -> Range<u64> {
    let number = |name: &str, default| {
        let value = std::env::var(name).ok().and_then(|text| text.parse().ok());
        value.unwrap_or(default)
    };
    let first = number("OPBENCH_FIRST_SEED", 1000);
    first..first + number("OPBENCH_SEEDS", 3000)
}

/// Numbers that look random, the same for the same seed.
pub struct Random(u64);

impl Random {
    /// The numbers of a seed; neighbouring seeds have nothing in common.
    pub fn of_seed(seed: u64) -> Random {
        let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
        for _ in 0..8 {
            random.below(2);
        }
        random
    }

    /// A dump of any shape, of one of these captures.
    pub fn spec(&mut self, seed: u64, captures: &[Capture]) -> Spec {
        let chip = Chip::ALL[self.below(Chip::ALL.len())];
        let capture = captures[self.below(captures.len())];
        Spec {
            seed,
            kernels: 1 + self.below(14) as u32,
            vary: 1 + self.below(4) as u32,
            tiles: 1 + self.below(6) as u32,
            counts: self.below(2) == 0,
            ..Spec::new(chip, capture)
        }
    }

    pub fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as usize % limit
    }

    pub fn loss(&mut self) -> Loss {
        let (a, b) = (self.below(100), self.below(100));
        let (low, high) = (a.min(b), a.max(b));
        match self.below(6) {
            5 => Loss::Every(2 + low),
            0 => Loss::Burst(low, high),
            1 => Loss::Head(1 + low),
            2 => Loss::Tail(high),
            3 => Loss::Ring(1 + low),
            _ => Loss::Zeroed(low, (low + 1 + self.below(8)).min(100)),
        }
    }
}
