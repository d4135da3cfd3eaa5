//! One clock for all: ticks of each engine's clock become ns, and cores are aligned by their sync records.
//!
//! Each core counts from its own reset. The end of a TIU sync record is the same moment on all cores. With other
//! clocks given (`--tiu_freq`, `--dma_freq`) durations are stretched around that moment, so that neither cores nor
//! engines move against each other.

use opdata::stats::median_of_sorted;

use crate::chip::{Chip, ChipSpec, Preamble};
use crate::ingest::IngestOptions;
use crate::ingest::core::{CoreParts, ReadCore};
use crate::input::global::GlobalProfile;
use crate::report::{Engine, Report};

/// Clocks in MHz: those of the dump, and those to compute times with.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Clocks {
    /// TIU clock of the dump.
    pub tiu_dump: f64,
    /// DMA clock of the dump.
    pub dma_dump: f64,
    /// TIU clock to compute times with.
    pub tiu: f64,
    /// DMA clock to compute times with.
    pub dma: f64,
}

impl Clocks {
    /// Takes each clock from the command line, else from `global.profile`, else from the chip.
    pub fn new(spec: &ChipSpec, global: &GlobalProfile, options: &IngestOptions) -> Clocks {
        let tiu_dump = global.tiu_mhz.unwrap_or(spec.tiu_mhz);
        Clocks {
            tiu_dump,
            dma_dump: spec.dma_mhz,
            tiu: options.tiu_mhz.unwrap_or(tiu_dump),
            dma: options.dma_mhz.unwrap_or(spec.dma_mhz),
        }
    }

    /// The dump's own clock of an engine in MHz.
    pub fn plain_mhz(&self, engine: Engine) -> f64 {
        if engine == Engine::Tiu {
            self.tiu_dump
        } else {
            self.dma_dump
        }
    }

    /// ns of a tick by the dump's own clock.
    pub fn plain_ns(&self, engine: Engine, ticks: i64) -> f64 {
        ticks as f64 / self.plain_mhz(engine) * 1000.0
    }

    /// ns of a tick; `anchor_ns` is the moment that stays where it is when the clocks are changed.
    pub fn ns(&self, engine: Engine, ticks: i64, anchor_ns: f64) -> i64 {
        let (dump, used) = if engine == Engine::Tiu {
            (self.tiu_dump, self.tiu)
        } else {
            (self.dma_dump, self.dma)
        };
        let plain = self.plain_ns(engine, ticks);
        let ns = if dump == used {
            plain
        } else {
            anchor_ns + (plain - anchor_ns) * (dump / used)
        };
        ns.round_ties_even() as i64
    }
}

/// Finds the sync point of each core that lost its sync record. That of another engine stands in for it, corrected by
/// the difference of the two on the other cores.
pub(super) fn find_sync_points(cores: &mut [ReadCore], report: &mut Report) {
    let needed = cores.len() > 1;
    for index in 0..cores.len() {
        let core = &cores[index];
        if core.sync_ns.is_some() || !needed || !core.works.contains(&true) {
            continue;
        }
        let mut found = None;
        for engine in [Engine::Gdma, Engine::Sdma] {
            let Some(here) = core.preamble_ns[engine.slot()] else {
                continue;
            };
            let mut offsets: Vec<f64> = cores
                .iter()
                .filter_map(|other| Some(other.sync_ns? - other.preamble_ns[engine.slot()]?))
                .collect();
            offsets.sort_by(f64::total_cmp);
            found = Some(here + median_of_sorted(&offsets).unwrap_or(0.0));
            break;
        }
        let number = core.file.number;
        let text = match found {
            Some(_) => "its TIU sync record is lost; its clock is aligned by that of a DMA engine",
            None => {
                "its sync records are lost; its times cannot be aligned with those of other cores"
            }
        };
        report.lose("sync_lost", format!("core {number}"), 1, text.to_string());
        cores[index].sync_ns = found;
    }
}

/// Lets the clocks of a core's engines begin in the same turn. Each wraps after 2^32 ticks of its own, so that one may
/// seem to be a turn (seconds) ahead. Engines of a core work at the same time.
pub(super) fn join_turns(part: &mut CoreParts, clocks: &Clocks) {
    const TURN: i64 = 1 << 32;
    const FAR_NS: f64 = 1e8;
    let start = |part: &CoreParts, engine: Engine| {
        let slot = engine.slot();
        let first = part.preamble[slot].first().or(part.records[slot].first())?;
        Some(clocks.plain_ns(engine, first.start))
    };
    let Some(base) = start(part, Engine::Tiu) else {
        return;
    };
    for engine in [Engine::Gdma, Engine::Sdma] {
        let Some(here) = start(part, engine) else {
            continue;
        };
        if (here - base).abs() < FAR_NS {
            continue;
        }
        // Few turns at most: a profile is short against the time since the clocks began.
        let apart = |tiu: i64, other: i64| {
            (here + clocks.plain_ns(engine, other * TURN)
                - base
                - clocks.plain_ns(Engine::Tiu, tiu * TURN))
            .abs()
        };
        let turns = (0..=2i64).flat_map(|tiu| (0..=2i64).map(move |other| (tiu, other)));
        let best = turns
            .filter(|&(tiu, other)| apart(tiu, other) < FAR_NS / 10.0)
            .min_by_key(|(t, o)| t + o);
        let Some((tiu, other)) = best else { continue };
        // The TIU stays, so that its sync record does; the difference is whole ticks where the clocks are equal.
        let shift_ns =
            clocks.plain_ns(engine, other * TURN) - clocks.plain_ns(Engine::Tiu, tiu * TURN);
        let ticks = (shift_ns / 1000.0 * clocks.dma_dump).round() as i64;
        let slot = engine.slot();
        for record in part.records[slot]
            .iter_mut()
            .chain(&mut part.preamble[slot])
        {
            record.start += ticks;
            record.end += ticks;
        }
        if engine == Engine::Sdma {
            for record in &mut part.port_anchors {
                record.start += ticks;
                record.end += ticks;
            }
        }
    }
}

/// The place of the sync record in the TIU records, once strays are gone.
pub(super) fn sync_place(chip: Chip, bmodel: bool) -> usize {
    match chip.spec().preamble {
        Preamble::SyncPair => 1,
        Preamble::Strays if bmodel => 1,
        Preamble::Strays | Preamble::None => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_clock_stretches_around_the_anchor() {
        let clocks = Clocks {
            tiu_dump: 1000.0,
            dma_dump: 1000.0,
            tiu: 500.0,
            dma: 1000.0,
        };
        assert_eq!(clocks.ns(Engine::Tiu, 1_000_000, 1_000_000.0), 1_000_000);
        assert_eq!(clocks.ns(Engine::Tiu, 1_000_100, 1_000_000.0), 1_000_200);
        assert_eq!(clocks.ns(Engine::Gdma, 1_000_100, 1_000_000.0), 1_000_100);
    }
}
