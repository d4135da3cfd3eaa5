//! Gives the records of a core's engines their commands.
//!
//! The nodes of all engines are in one block, so if one engine shows that some are lost, those of all are guesses. Two
//! engines' activities must fit together in time; so must the remains of overwritten rings.

use crate::ingest::commands::{Given, Giving};
use crate::ingest::core::{Common, CoreParts, Stage};
use crate::ingest::findings::{note_binding, note_gaps};
use crate::matching::bind::doubt;
use crate::matching::order::Record;
use crate::matching::sections::Mended;
use crate::matching::timeline::{Stretch, Timeline};
use crate::report::Engine;

/// Binds records of a core, repeatedly with other inputs.
struct Binder<'a> {
    parts: &'a CoreParts,
    common: &'a Common<'a>,
    records: [Vec<Record>; 3],
    mended: [Vec<Mended>; 3],
}

impl Binder<'_> {
    /// Binds one engine's records; to the last commands if they are the `latest`. Ids that were mended before are doubted
    /// again.
    fn bind(&mut self, stage: &Stage, latest: bool) -> Given {
        let giving = Giving {
            file: &self.parts.file,
            global: self.common.global,
            mhz: self.common.clocks.plain_mhz(stage.stream.engine),
            lapped: stage.lapped,
            latest,
            counts: &stage.counts,
        };
        let slot = stage.stream.engine.slot();
        let records = &mut self.records[slot];
        for before in self.mended[slot].drain(..) {
            records[before.place].id = before.id;
        }
        let given = stage.commands.give(&giving, records);
        if let Some(binding) = given.bindings.first() {
            self.mended[slot].clone_from(&binding.mended);
        }
        given
    }

    /// Uses the rings of TIU and GDMA as the end of the program, if both were overwritten and their contents fit
    /// together.
    fn take_ends(&mut self, stages: &[Stage; 3], given: &mut [Given; 3]) {
        // A ring whose records are partly left out has gaps.
        let kept = |stage: &Stage| stage.lapped && stage.counts.implausible == 0;
        if given[0].guessed() + given[1].guessed() == 0 || !stages[..2].iter().all(kept) {
            return;
        }
        let ends = [&stages[0], &stages[1]].map(|stage| self.bind(stage, true));
        let [tiu, gdma] = ends.each_ref().map(Given::timeline);
        let certain = ends[0].guessed() + ends[1].guessed() == 0;
        if certain && tiu.zip(gdma).is_some_and(|(a, b)| a.ends_with(b)) {
            let [tiu, gdma] = ends;
            (given[0], given[1]) = (tiu, gdma);
        }
    }
}

/// Whether commands are missing, judging by nodes and their records.
fn nodes_are_missing(parts: &CoreParts, stages: &[Stage; 3], given: &[Given; 3]) -> bool {
    let mut of_nodes = stages
        .iter()
        .zip(given)
        .filter(|(stage, _)| stage.commands.are_nodes());
    parts.file.nodes_doubtful
        || of_nodes.any(|(_, given)| given.misfit())
        || contradict_each_other(given)
}

/// Whether in all engines each record has its command and each command its record, with equal numbers of sections for
/// TIU and GDMA. Then details replaced lost nodes.
fn are_whole(given: &[Given; 3]) -> bool {
    let whole = |given: &Given| given.bound.is_empty() || given.whole_sections().is_some();
    let [tiu, gdma] = [&given[0], &given[1]].map(Given::whole_sections);
    given.iter().all(whole) && tiu.zip(gdma).is_none_or(|(a, b)| a == b)
}

/// Whether the certain bindings of a core's engines contradict each other. If so, commands of one engine are missing.
fn contradict_each_other(given: &[Given; 3]) -> bool {
    // Where each record has its command and each command its record, times say nothing.
    let open = |given: &Given| given.lacks_records() || given.guessed() > 0;
    let [tiu, gdma, sdma] = given.each_ref().map(Given::timeline);
    let outlasts = |one: Option<&Timeline>| one.zip(sdma).is_some_and(|(a, b)| a.outlasts(b));
    let out_of_time = || tiu.zip(gdma).is_some_and(|(a, b)| !a.goes_with(b));
    let by_times = given.iter().any(open) && (outlasts(tiu) || outlasts(gdma) || out_of_time());
    // If ids continue across a border, the border must show in the other engine's times.
    let alone = |one: usize| {
        let other = given[1 - one].timeline();
        let behind = |s: &Stretch| other.is_some_and(|other| other.was_behind(s));
        !given[one].run_over().all(behind)
    };
    // Ids of TIU and GDMA are reset together, so they begin elsewhere together.
    let records = given[..2].iter().filter(|given| !given.bound.is_empty());
    let elsewhere: Vec<bool> = records
        .map(|given| given.begins_elsewhere() == Some(true))
        .collect();
    let apart = elsewhere.contains(&true) && elsewhere.contains(&false);
    by_times || alone(0) || alone(1) || apart
}

/// The reset between preamble and program is common to all engines. If one's records show that it is lost, it is lost
/// for engines without their first records as well. Commands that anchor CDMA ports are no loss, if the core has any
/// (`anchored`).
fn mend_first_ids(stages: &mut [Stage; 3], records: &[Vec<Record>; 3], anchored: bool) {
    let first = |stage: &Stage| {
        let id = records[stage.stream.engine.slot()].first()?.id;
        Some((id, stage.commands.first_id()?))
    };
    let shows = |stage: &Stage| !stage.lapped && first(stage).is_some_and(|(r, c)| r < c);
    if !stages.iter().any(shows) {
        return;
    }
    for stage in stages.iter_mut() {
        let anchored = anchored && stage.stream.engine == Engine::Sdma;
        if !anchored && first(stage).is_some_and(|(record, command)| record >= command) {
            stage.commands.begin_at_zero();
        }
    }
}

/// Gives the records of a core's engines their commands, and says what was found.
pub(super) fn give(parts: &mut CoreParts, stages: &mut [Stage; 3], common: &Common) {
    let records = std::mem::take(&mut parts.records);
    let mut binder = Binder {
        parts,
        common,
        records,
        mended: Default::default(),
    };
    let anchored = !binder.parts.port_anchors.is_empty();
    mend_first_ids(stages, &binder.records, anchored);
    let mut given = [&stages[0], &stages[1], &stages[2]].map(|stage| binder.bind(stage, false));
    let mut missing = nodes_are_missing(binder.parts, stages, &given);
    if !missing {
        binder.take_ends(stages, &mut given);
        missing = nodes_are_missing(binder.parts, stages, &given);
    }
    // The nodes of all engines stand in one block; a lost descriptor shifts all others of its engine.
    missing &= !are_whole(&given);
    for (stage, given) in stages.iter().zip(&mut given) {
        let is_doubtful = match stage.commands.are_nodes() {
            true => missing,
            false => given.misfit(),
        };
        if is_doubtful {
            given.doubt();
        }
    }
    for (stage, given) in stages.iter().zip(&mut given) {
        if stage.begins_with_stray {
            doubt(&mut given.bound[..1]);
        }
    }
    parts.records = binder.records;
    note_given(parts, stages, given, common);
}

/// Stores the result, and reports its findings.
fn note_given(parts: &mut CoreParts, stages: &mut [Stage; 3], given: [Given; 3], common: &Common) {
    for (stage, given) in stages.iter_mut().zip(given) {
        let slot = stage.stream.engine.slot();
        for binding in &given.bindings {
            note_binding(binding, &mut stage.counts, &mut parts.report, stage.lapped);
        }
        if given.bindings.is_empty() {
            let anchors = match stage.stream.engine {
                Engine::Sdma => parts.port_anchors.len() as u32,
                _ => 0,
            };
            let records = &parts.records[slot];
            let report = &mut parts.report;
            note_gaps(common.spec, records, anchors, stage.stream, report);
        }
        parts.guess[slot] = !common.global.bmodel || stage.commands.any();
        parts.bound[slot] = given.bound;
        parts.outside[slot] = given.outside;
    }
}
