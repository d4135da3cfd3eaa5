//! The idle times that earlier processes found, in a file of the installation's cache.
//!
//! Interference may last for minutes. A process that begins meanwhile would take the slow machine for the idle one.

use std::collections::BTreeMap;
use std::path::PathBuf;

use opdata::{Timestamp, read_text, stable_hash, write_atomically};
use opinstall::Home;
use serde::{Deserialize, Serialize};

use super::baseline::{ReferenceTimes, about_the_fastest};
use crate::env::{Cores, Root, cpu_name};

/// Processes remembered.
const MOST_PROCESSES: usize = 64;
/// Older readings are ignored: a machine may be moved, or throttled for good.
const LIFETIME_MS: i64 = 24 * 3600 * 1000;
/// Share of the processes that found a faster time than the one that counts: the very fastest had luck.
const FASTER_SHARE: f64 = 0.1;

/// Idle times on a number of threads, ns.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
struct IdleTimes {
    threads: usize,
    products_ns: f64,
    /// 0 on one thread.
    transfer_ns: f64,
}

impl IdleTimes {
    fn of((threads, reading): (usize, ReferenceTimes)) -> IdleTimes {
        IdleTimes {
            threads,
            products_ns: reading.products,
            transfer_ns: reading.transfer,
        }
    }
}

/// The readings of a process.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Found {
    /// The machine and the build of the program: others take other times for the same work.
    by: String,
    /// The system reuses process ids, in containers soon. An id together with its start time is unique.
    process: u32,
    began_ms: i64,
    idle: Vec<IdleTimes>,
}

/// The file. It is optional: if it cannot be read or written, a process has only its own times.
#[derive(Debug)]
pub(super) struct Kept {
    path: Option<PathBuf>,
    by: String,
    began_ms: i64,
}

impl Kept {
    /// Idle times that no file keeps.
    #[cfg(test)]
    pub fn nowhere() -> Kept {
        Kept {
            path: None,
            by: String::new(),
            began_ms: 0,
        }
    }

    /// The installation's.
    pub fn of_installation() -> Kept {
        Kept {
            path: Home::find().ok().map(|home| home.reference_kernel()),
            by: machine_and_build(),
            began_ms: Timestamp::now().unix_ms(),
        }
    }

    /// Nearly the fastest of the processes' recent readings, by number of threads.
    pub fn idle(&self) -> BTreeMap<usize, ReferenceTimes> {
        let mut by_threads: BTreeMap<usize, Vec<ReferenceTimes>> = BTreeMap::new();
        let own = self.read().into_iter().filter(|found| found.by == self.by);
        for idle in own.flat_map(|found| found.idle) {
            let reading = ReferenceTimes {
                products: idle.products_ns,
                transfer: idle.transfer_ns,
            };
            by_threads.entry(idle.threads).or_default().push(reading);
        }
        let of = |(threads, mut readings): (usize, Vec<ReferenceTimes>)| {
            readings.sort_by(|a, b| a.total().total_cmp(&b.total()));
            Some((threads, about_the_fastest(&readings, FASTER_SHARE)?))
        };
        by_threads.into_iter().filter_map(of).collect()
    }

    /// Keeps what this process has found so far, by number of threads.
    pub fn keep(&self, idle: impl Iterator<Item = (usize, ReferenceTimes)>) {
        let Some(path) = &self.path else { return };
        let process = std::process::id();
        let mut all = self.read();
        let own = (&self.by, process, self.began_ms);
        all.retain(|found| (&found.by, found.process, found.began_ms) != own);
        all.push(Found {
            by: self.by.clone(),
            process,
            began_ms: self.began_ms,
            idle: idle.map(IdleTimes::of).collect(),
        });
        all.drain(..all.len().saturating_sub(MOST_PROCESSES));
        if let (Some(folder), Ok(text)) = (path.parent(), serde_json::to_string(&all)) {
            // The file is optional, so an error is ignored.
            let _ = std::fs::create_dir_all(folder);
            let _ = write_atomically(path, text.as_bytes());
        }
    }

    /// The stored readings that are not too old, the oldest first.
    fn read(&self) -> Vec<Found> {
        let text = self.path.as_ref().and_then(|path| read_text(path).ok());
        let mut all: Vec<Found> = text
            .and_then(|text| serde_json::from_str(&text).ok())
            .unwrap_or_default();
        let now = Timestamp::now().unix_ms();
        all.retain(|found| (0..LIFETIME_MS).contains(&(now - found.began_ms)));
        all
    }
}

fn machine_and_build() -> String {
    let root = Root::system();
    let program = std::env::current_exe().and_then(|path| path.metadata());
    let build = program.and_then(|file| Ok((file.len(), file.modified()?)));
    let build = format!("{:?}", build.ok());
    format!(
        "{}, {} cores, build {}",
        cpu_name(&root).unwrap_or_default(),
        Cores::read(&root).online,
        stable_hash(&[("build", &build)])
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn idle(threads: usize, products: f64) -> (usize, ReferenceTimes) {
        let transfer = 5.0;
        (threads, ReferenceTimes { products, transfer })
    }

    fn known(kept: &Kept) -> Vec<(usize, ReferenceTimes)> {
        kept.idle().into_iter().collect()
    }

    #[test]
    fn the_next_process_knows_what_the_last_one_found() {
        let folder = tempfile::tempdir().unwrap();
        let at = |by: &str| Kept {
            path: Some(folder.path().join("cache/reference-kernel.json")),
            by: by.to_owned(),
            began_ms: Timestamp::now().unix_ms(),
        };
        assert_eq!(known(&at("here")), []);
        at("here").keep([idle(1, 100.0)].into_iter());
        at("here").keep([idle(1, 90.0), idle(2, 120.0)].into_iter());
        at("there").keep([idle(1, 10.0)].into_iter());
        assert_eq!(known(&at("here")), [idle(1, 90.0), idle(2, 120.0)]);
        assert_eq!(known(&at("there")), [idle(1, 10.0)]);
        let slower = Kept {
            began_ms: at("there").began_ms - 1000,
            ..at("there")
        };
        slower.keep([idle(1, 20.0)].into_iter());
        assert_eq!(
            known(&at("there")),
            [idle(1, 10.0)],
            "its number came again"
        );
        slower.keep([idle(1, 5.0)].into_iter());
        slower.keep([idle(1, 30.0)].into_iter());
        assert_eq!(
            known(&at("there")),
            [idle(1, 10.0)],
            "one process, one word"
        );
        std::fs::write(folder.path().join("cache/reference-kernel.json"), "damaged").unwrap();
        assert_eq!(known(&at("here")), []);
        Kept::nowhere().keep([idle(1, 1.0)].into_iter());
    }

    #[test]
    fn what_is_old_or_lucky_does_not_count() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("reference-kernel.json");
        let now = Timestamp::now().unix_ms();
        let found = |(process, age_ms, ns): (u32, i64, f64)| Found {
            by: "here".to_owned(),
            process,
            began_ms: now - age_ms,
            idle: vec![IdleTimes::of(idle(1, ns))],
        };
        let mut all = vec![
            found((1, LIFETIME_MS + 1000, 1.0)),
            found((2, -60_000, 2.0)),
        ];
        all.extend((3..13).map(|process| found((process, 1000, 100.0 + f64::from(process)))));
        std::fs::write(&path, serde_json::to_string(&all).unwrap()).unwrap();
        let kept = Kept {
            path: Some(path),
            by: "here".to_owned(),
            began_ms: now,
        };
        assert_eq!(known(&kept), [idle(1, 104.0)]);
    }
}
