//! Gives the records of a core's engines their commands, each engine with what the others say.
//!
//! Three things are asked of the other engines: when they did what (`timeline`), whether what lapped rings kept goes
//! together, and whether commands are missing. The nodes of all engines stand in one block, so what one of them shows to
//! be lost is doubted in all.

use std::ops::Range;

use crate::ingest::commands::{Given, Giving};
use crate::ingest::core::{Common, CoreParts, Stage};
use crate::ingest::findings::{note_binding, note_gaps};
use crate::matching::bind::doubt;
use crate::matching::order::Record;
use crate::matching::sections::Mended;
use crate::matching::stream::Trust;
use crate::matching::timeline::{Stretch, Timeline};
use crate::report::Engine;

/// Rounds in which TIU and GDMA ask each other.
const ROUNDS: usize = 3;

/// What records of a core are bound with, time after time.
struct Binder<'a> {
    parts: &'a CoreParts,
    common: &'a Common<'a>,
    records: [Vec<Record>; 3],
    mended: [Vec<Mended>; 3],
}

impl Binder<'_> {
    /// Binds one engine's records. Ids that were mended before are doubted again.
    fn bind(
        &mut self,
        stage: &Stage,
        other: Option<&Timeline>,
        latest: bool,
        trust: Trust,
    ) -> Given {
        let giving = Giving {
            file: &self.parts.file,
            global: self.common.global,
            mhz: self.common.clocks.plain_mhz(stage.stream.engine),
            lapped: stage.lapped,
            latest,
            counts: &stage.counts,
            other,
            trust,
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

    /// Where some of the TIU's or GDMA's are not certain, what the other did at the time is asked, until that helps no
    /// further; rings that both lapped have kept the end if what they kept goes together.
    fn ask_each_other(&mut self, stages: &[Stage; 3], given: &mut [Given; 3]) {
        for _ in 0..ROUNDS {
            let doubt = given[0].guessed() + given[1].guessed();
            let both = || given[..2].iter().all(Given::lacks_records);
            if doubt == 0 && !both() {
                break;
            }
            given[1] = self.bind(&stages[1], given[0].timeline(), false, Trust::Whole);
            given[0] = self.bind(&stages[0], given[1].timeline(), false, Trust::Whole);
            if given[0].guessed() + given[1].guessed() >= doubt {
                break;
            }
        }
        // Of a ring of which records are left out the rest is not without a gap.
        let kept = |stage: &Stage| stage.lapped && stage.counts.implausible == 0;
        if given[0].guessed() + given[1].guessed() > 0 && stages[..2].iter().all(kept) {
            let ends =
                [&stages[0], &stages[1]].map(|stage| self.bind(stage, None, true, Trust::Whole));
            let [tiu, gdma] = ends.each_ref().map(Given::timeline);
            if ends[0].guessed() + ends[1].guessed() == 0
                && tiu.zip(gdma).is_some_and(|(a, b)| a.ends_with(b))
            {
                let [tiu, gdma] = ends;
                (given[0], given[1]) = (tiu, gdma);
            }
        }
    }

    /// Binds nodes again of which some are lost, in a dump of this many kernels, and doubts what may be of others.
    fn doubt_nodes(&mut self, kernels: usize, stages: &[Stage; 3], given: &mut [Given; 3]) {
        let trusts = given
            .each_ref()
            .map(|given| trust_in_engine(kernels, given.sections().unwrap_or_default()));
        // TIU and GDMA run what lies between two resets together: what one of them lost the other may have lost as well.
        let both = stages[..2].iter().all(|stage| stage.commands.are_nodes());
        let together = !both || trusts[..2].iter().all(|trust| *trust == Trust::InStep);
        let doubted = stages.iter().zip(given.iter_mut()).zip(trusts);
        for ((stage, given), trust) in doubted.filter(|((s, _), _)| s.commands.are_nodes()) {
            let trust = match trust {
                Trust::InStep if !together => Trust::Lost(0),
                trust => trust,
            };
            *given = self.bind(stage, None, false, trust);
            if stage.counts.implausible > 0 || lacks_both(kernels, given) || given.has_gaps() {
                // Records are lost as well: what fits exactly may do so by accident.
                given.doubt_sections(|_| false);
            }
        }
        let fits = all_fit(given);
        if self.parts.file.nodes_restored {
            doubt_restored(self.parts, given);
        } else if self.parts.file.details_lost && !fits {
            // Which details are whose is only likely where nodes are lost as well.
            given
                .iter_mut()
                .for_each(|given| given.doubt_sections(|_| false));
        }
        if fits {
            return;
        }
        for (stage, given) in stages.iter().zip(given.iter_mut()) {
            if stage.commands.are_nodes() {
                doubt_last(&self.records[stage.stream.engine.slot()], given);
            }
        }
        let [tiu, gdma, sdma] = given;
        if !tiu.any_certain() && !gdma.any_certain() && stages[2].commands.are_nodes() {
            // Nodes that fit neither of these fit the system DMA by accident.
            sdma.doubt_sections(|_| false);
        }
    }
}

/// Whether commands are missing, as far as nodes and what they fit tell; if so, in a dump of at least this many sections.
fn trust_in_nodes(parts: &CoreParts, stages: &[Stage; 3], given: &[Given; 3]) -> Trust {
    let of_nodes = || {
        let both = stages.iter().zip(given);
        both.filter(|(stage, _)| stage.commands.are_nodes())
    };
    let whole = !parts.file.nodes_doubtful && !of_nodes().any(|(_, given)| given.misfit());
    if whole && !contradict_each_other(given) {
        return Trust::Whole;
    }
    let kernels = of_nodes().filter_map(|(_, given)| given.sections());
    let kernels = kernels
        .flat_map(|(records, commands)| [records, commands])
        .max();
    // Records may be of kernels of which a name or a number is left, but no command.
    Trust::Lost(kernels.unwrap_or(0) + parts.file.kernels_without_commands)
}

/// Whether what is certain of the engines of a core cannot be so together: then commands of one are missing.
fn contradict_each_other(given: &[Given; 3]) -> bool {
    // Where each record has its command and each command its record, times say nothing.
    let open = |given: &Given| given.lacks_records() || given.guessed() > 0;
    let [tiu, gdma, sdma] = given.each_ref().map(Given::timeline);
    let outlasts = |one: Option<&Timeline>| one.zip(sdma).is_some_and(|(a, b)| a.outlasts(b));
    let out_of_time = || tiu.zip(gdma).is_some_and(|(a, b)| !a.goes_with(b));
    let by_times = given.iter().any(open) && (outlasts(tiu) || outlasts(gdma) || out_of_time());
    // Where ids go on over a border, the other engine's times must say that there is one.
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

/// What that means for one engine, of which `sections` are left where others have this many.
fn trust_in_engine(kernels: usize, sections: (usize, usize)) -> Trust {
    match kernels
        .abs_diff(sections.0)
        .max(kernels.abs_diff(sections.1))
    {
        0 => Trust::InStep,
        lost => Trust::Lost(lost),
    }
}

/// Whether an engine has neither the records nor the commands of all kernels: what is left of them may be of others.
fn lacks_both(kernels: usize, given: &Given) -> bool {
    let lacks = |(records, commands)| records < kernels && commands < kernels;
    given.sections().is_some_and(lacks)
}

/// Commands whose nodes are lost stand where their details do, but before or behind which other nodes is only likely,
/// since programs repeat themselves: between the first and the last section that does not fit nothing is certain, and
/// nothing at all if the sections of the engines are not in step, some have lost their names or resets had to be put back.
fn doubt_restored(parts: &CoreParts, given: &mut [Given; 3]) {
    let sections: Vec<&[(Range<usize>, bool)]> = given
        .iter()
        .filter(|given| !given.bound.is_empty())
        .map(|given| given.bindings.first().map_or(&[][..], |b| &b.in_step))
        .collect();
    let count = sections.first().map_or(0, |list| list.len());
    let scopes = parts.file.scopes.len();
    let named = scopes == 0 || scopes >= count;
    let paired = !parts.file.details_lost;
    let bindings = given.iter().flat_map(|given| &given.bindings);
    let bordered = bindings.map(|binding| binding.resets_lost).sum::<u64>() == 0;
    let in_step = named && paired && bordered && sections.iter().all(|list| list.len() == count);
    let fits = |list: &&[(Range<usize>, bool)], at: usize| list.get(at).is_some_and(|f| f.1);
    let misfits = || (0..count).filter(|&at| !sections.iter().all(|list| fits(list, at)));
    let doubted = match (in_step, misfits().next(), misfits().next_back()) {
        (false, ..) => 0..usize::MAX,
        (true, Some(first), Some(last)) => first..last + 1,
        (true, ..) => 0..0,
    };
    for given in given {
        given.doubt_sections(|section| !doubted.contains(&section));
    }
}

/// Whether sections of all engines are in step, and each fits.
fn all_fit(given: &[Given; 3]) -> bool {
    given.iter().all(|given| {
        let list = given.bindings.first().map_or(&[][..], |b| &b.in_step);
        given.bound.is_empty() || !list.is_empty() && list.iter().all(|(_, fits)| *fits)
    })
}

/// What ends a stream may fit by accident: its last records are lost, and as many of its commands.
fn doubt_last(records: &[Record], given: &mut Given) {
    let fall = records.windows(2).rposition(|w| w[1].id <= w[0].id);
    doubt(&mut given.bound[fall.map_or(0, |at| at + 1)..]);
}

/// The reset between preamble and program is one for all engines: if one's records show that it is lost, it is lost for
/// those as well whose first records are gone. What anchors CDMA ports is no loss, if the core has any (`anchored`).
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
    let mut given = [&stages[0], &stages[1], &stages[2]]
        .map(|stage| binder.bind(stage, None, false, Trust::Whole));
    let mut trust = trust_in_nodes(binder.parts, stages, &given);
    if trust == Trust::Whole {
        binder.ask_each_other(stages, &mut given);
        if given[2].lacks_records() {
            given[2] = binder.bind(&stages[2], given[1].timeline(), false, Trust::Whole);
        }
        trust = trust_in_nodes(binder.parts, stages, &given);
    }
    if let Trust::Lost(kernels) = trust {
        binder.doubt_nodes(kernels, stages, &mut given);
    }
    for (stage, given) in stages.iter().zip(&mut given) {
        if !stage.commands.are_nodes() && given.misfit() {
            // Descriptors are counted from the first on: one that is lost shifts all others.
            given.doubt_sections(|_| false);
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

/// Keeps what was found, and says it.
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
