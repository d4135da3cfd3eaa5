//! A proposer that decides by what was measured: what a tuner will be.

use opengine::device::Conditions;

use super::*;
use crate::propose::{Candidate, Outcome, Proposer};

/// Climbs down the times of one operator's schedules, numbered by their seeds, in steps that halve.
struct HillClimb {
    best: Option<(u64, f64)>,
    step: u64,
    place: u64,
    /// The seeds proposed last, with their places.
    asked: Vec<(u64, u64)>,
}

impl HillClimb {
    fn new() -> HillClimb {
        HillClimb {
            best: None,
            step: 32,
            place: 0,
            asked: Vec::new(),
        }
    }

    fn candidate(&mut self, seed: u64) -> Candidate {
        let place = self.place;
        self.place += 1;
        self.asked.push((place, seed));
        Candidate {
            place,
            operator: 0,
            schedule_spec: ScheduleSpec::Metaschedule { seed },
            conditions: vec![Conditions::new(1, CacheState::Model)],
        }
    }
}

impl Proposer for HillClimb {
    fn propose(&mut self, _n: usize) -> Vec<Candidate> {
        self.asked.clear();
        match self.best {
            None => vec![self.candidate(100)],
            Some(_) if self.step == 0 => Vec::new(),
            Some((seed, _)) => [seed - self.step, seed + self.step]
                .map(|seed| self.candidate(seed))
                .to_vec(),
        }
    }

    fn observe(&mut self, outcomes: &[Outcome]) {
        let before = self.best;
        for outcome in outcomes {
            let seed = self.asked.iter().find(|(p, _)| *p == outcome.place);
            if let (Some((_, seed)), Some(ns)) = (seed, outcome.row.time_median_ns)
                && self.best.is_none_or(|(_, best)| ns < best)
            {
                self.best = Some((*seed, ns));
            }
        }
        if before == self.best {
            self.step /= 2;
        }
    }

    fn fixed_candidates(&self) -> &[Candidate] {
        &[]
    }

    fn points(&self) -> u64 {
        64
    }
}

/// A valley whose bottom is the schedule with the seed 37.
fn valley() -> (FakeRunner, Seen<u64>) {
    let (list, script) = seen();
    let fake = FakeRunner::new(move |step| match step {
        WorkerStep::Measure { kernel, .. } => match kernel.schedule_spec {
            ScheduleSpec::Metaschedule { seed } => {
                script.lock().unwrap().push(seed);
                Act::takes(1e3 + 10.0 * seed.abs_diff(37) as f64)
            }
            _ => Act::takes(1e6),
        },
        _ => Act::takes(1e3),
    });
    (fake, list)
}

/// Runs a plan with the tuner in the place of its own proposer, after rows that are there already.
fn tune(bench: &Bench, fake: &FakeRunner) -> RunReport {
    let planned = planned(bench.plan());
    let folder = planned.plan.out.clone();
    bench
        .session(fake, |session| {
            let mut prepared = Preparation::new(&planned, session)?;
            prepared.imports[0].drawing.proposer = Box::new(HillClimb::new());
            if folder.join(opdata::RUN_JSON).exists() {
                let reopened = RunWriter::reopen(&folder)?;
                let manifest = RunManifest::load(&folder)?;
                let rows = reopened.rows;
                return measure(
                    &planned,
                    session,
                    prepared,
                    reopened.writer,
                    manifest,
                    &rows,
                );
            }
            let writer = RunWriter::create(&folder)?;
            let manifest = manifest(&planned, session, &prepared)?;
            measure(&planned, session, prepared, writer, manifest, &[])
        })
        .unwrap()
}

#[test]
fn a_tuner_finds_the_bottom_of_the_valley_by_what_was_measured() {
    let bench = Bench::new();
    let (fake, list) = valley();
    let report = tune(&bench, &fake);
    assert_eq!((report.state, report.left), (RunState::Finished, 0));
    assert!(list.lock().unwrap().contains(&37));
    let rows = bench.rows();
    let best = rows.iter().filter_map(|r| r.time_median_ns);
    assert_eq!(best.min_by(f64::total_cmp), Some(1e3));
    // A point that is proposed again is answered from its row.
    let measured = list.lock().unwrap().len();
    assert_eq!(measured, rows.len());
}

#[test]
fn a_tuner_that_was_stopped_goes_on_where_it_was() {
    let whole = Bench::new();
    let (fake, all) = valley();
    tune(&whole, &fake);

    let mut bench = Bench::new();
    let interrupt = bench.interrupt.clone();
    let (valley, list) = valley();
    let counted = Arc::new(AtomicU64::new(0));
    let stopping = FakeRunner::new(move |step| {
        if measured(step).is_some() && counted.fetch_add(1, Ordering::Relaxed) == 4 {
            interrupt.request();
        }
        valley.act(step)
    });
    let report = tune(&bench, &stopping);
    assert_eq!(report.state, RunState::Interrupted);
    bench.interrupt = Interrupt::default();
    let report = tune(&bench, &stopping);
    assert_eq!(report.state, RunState::Finished);
    assert_eq!(*list.lock().unwrap(), *all.lock().unwrap());
}
