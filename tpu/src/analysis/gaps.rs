//! Idle gaps of the TIU, and their causes.
//!
//! A gap is a time in which a core's TIU does no work. Its cause is known if the next command names the GDMA command it
//! depends on. Otherwise the engine that works longest in the gap counts as the cause.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::analysis::intervals::Intervals;
use crate::profile::{CoreProfile, Profile};
use crate::report::{Engine, Stream};
use crate::view::{Role, Viewer};

/// The cause of a gap.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Cause {
    /// The core's DMA.
    Gdma,
    /// The system DMA.
    Sdma,
    /// A chip-to-chip transfer.
    Cdma,
    /// A sync command: another core or engine.
    Sync,
    /// Nothing that is recorded: the host, or the launch of the next kernel.
    Launch,
}

impl Cause {
    /// Name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Cause::Gdma => "GDMA transfer",
            Cause::Sdma => "SDMA transfer",
            Cause::Cdma => "CDMA transfer",
            Cause::Sync => "sync with others",
            Cause::Launch => "launch or host",
        }
    }
}

/// One gap.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Gap {
    /// The core.
    pub core: u32,
    /// Its start in ns.
    pub start_ns: i64,
    /// Its length in ns.
    pub length_ns: i64,
    /// Its cause.
    pub cause: Cause,
    /// The part of it in which the cause works, in ns.
    pub covered_ns: i64,
    /// Name of the command that ends it, if one does.
    pub before: Option<String>,
}

/// Gaps of all cores.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Gaps {
    /// The longest, longest first.
    pub longest: Vec<Gap>,
    /// Number and total length in ns by cause.
    pub by_cause: BTreeMap<Cause, (u64, i64)>,
}

/// Finds the gaps of all cores and keeps the longest `top`.
pub fn find(profile: &Profile, top: usize) -> Gaps {
    let mut by_cause = BTreeMap::new();
    let mut longest: Vec<(Gap, usize)> = Vec::new();
    let Some(span) = profile.span_ns() else {
        return Gaps {
            longest: Vec::new(),
            by_cause,
        };
    };
    let cdma = Intervals::of(
        profile
            .ports
            .iter()
            .flat_map(|p| &p.events)
            .map(|event| (event.start_ns, event.end_ns))
            .collect(),
    );
    for core in &profile.cores {
        of_core(
            profile,
            core,
            span,
            (&cdma, top),
            &mut by_cause,
            &mut longest,
        );
    }
    keep_longest(&mut longest, top);
    let named = longest.into_iter().map(|(mut gap, next)| {
        let stream = Stream::new(Engine::Tiu, gap.core);
        let event = profile
            .core(gap.core)
            .and_then(|core| core.events[Engine::Tiu.slot()].get(next));
        gap.before = event
            .zip(Viewer::new(profile, stream))
            .map(|(e, v)| v.view(next, e).name.to_string());
        gap
    });
    Gaps {
        longest: named.collect(),
        by_cause,
    }
}

/// Sorts by length and drops all but the longest.
fn keep_longest(gaps: &mut Vec<(Gap, usize)>, top: usize) {
    gaps.sort_by(|(a, _), (b, _)| {
        b.length_ns
            .cmp(&a.length_ns)
            .then(a.core.cmp(&b.core))
            .then(a.start_ns.cmp(&b.start_ns))
    });
    gaps.truncate(top);
}

/// Work and sync intervals of an engine of a core.
fn intervals(profile: &Profile, core: &CoreProfile, engine: Engine) -> (Intervals, Intervals) {
    let (mut work, mut sync) = (Vec::new(), Vec::new());
    if let Some(viewer) = Viewer::new(profile, Stream::new(engine, core.number)) {
        for view in viewer.views() {
            let list = match view.role {
                Role::Work => &mut work,
                Role::Sync | Role::Wait => &mut sync,
            };
            list.push((view.event.start_ns, view.event.end_ns));
        }
        viewer.release();
    }
    (Intervals::of(work), Intervals::of(sync))
}

fn of_core(
    profile: &Profile,
    core: &CoreProfile,
    span: (i64, i64),
    (cdma, top): (&Intervals, usize),
    by_cause: &mut BTreeMap<Cause, (u64, i64)>,
    gaps: &mut Vec<(Gap, usize)>,
) {
    let (busy, tiu_sync) = intervals(profile, core, Engine::Tiu);
    if busy.0.is_empty() {
        return;
    }
    let (gdma, gdma_sync) = intervals(profile, core, Engine::Gdma);
    let (sdma, _) = intervals(profile, core, Engine::Sdma);
    let sync = tiu_sync.union(&gdma_sync);
    let events = &core.events[Engine::Tiu.slot()];
    for (start, end) in busy.gaps(span) {
        let gap = (start, end);
        let length_ns = end - start;
        let covered = [
            (Cause::Gdma, gdma.within_ns(gap)),
            (Cause::Sdma, sdma.within_ns(gap)),
            (Cause::Cdma, cdma.within_ns(gap)),
            (Cause::Sync, sync.within_ns(gap)),
        ];
        let (mut cause, mut covered_ns) = (Cause::Launch, 0);
        for (candidate, ns) in covered {
            if ns > covered_ns && ns * 4 >= length_ns {
                (cause, covered_ns) = (candidate, ns);
            }
        }
        let entry = by_cause.entry(cause).or_default();
        *entry = (entry.0 + 1, entry.1 + length_ns);
        let next = events.partition_point(|event| event.start_ns < end);
        let gap = Gap {
            core: core.number,
            start_ns: start,
            length_ns,
            cause,
            covered_ns,
            before: None,
        };
        gaps.push((gap, next));
        if gaps.len() > 2 * top + 64 {
            keep_longest(gaps, top);
        }
    }
    core.events[Engine::Tiu.slot()].release();
}
