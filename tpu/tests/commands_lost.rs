//! Dumps that lost commands: words of nodes, resets, names, details, descriptors, and records besides.
//!
//! Commands have no ids but their place, so one that is lost shifts all that follow. Two things are asked of each dump: of
//! the records called matched none names another kernel or command than in the whole dump, and it is called whole only if
//! nothing is gone.

mod dumps;
mod losses;

use std::collections::BTreeMap;
use std::ops::Range;

use dumps::{CAPTURES, Capture, Dump};
use losses::commands::CommandLoss;
use losses::{
    Random, first_wrong, matched, none_wrong, read, said, seeds_of_environment, two_cores,
};

/// Dumps of any shape with one or two losses among the commands of a core, and up to two among its records.
fn check_random(seeds: Range<u64>) {
    let mut shares: BTreeMap<String, (usize, usize)> = BTreeMap::new();
    let mut wrong = Vec::new();
    for seed in seeds {
        let mut random = Random::of_seed(seed);
        let spec = random.spec(seed, &CAPTURES[1..]);
        let whole = two_cores(spec);
        let truth = said(&read(&whole));
        let mut dump = two_cores(spec);
        let core = &mut dump.cores[1];
        let mut done = Vec::new();
        for _ in 0..1 + random.below(2) {
            let loss = CommandLoss::draw(&mut random, spec.capture);
            loss.apply(core);
            done.push(format!("{loss:?}"));
        }
        for _ in 0..random.below(3) {
            let (engine, loss) = (random.below(3), random.loss());
            // Descriptors have no ids, so how many there were shows by the last record: without it nobody can tell.
            let vanished =
                whole.cores[1].des.get(engine).map(Vec::len) != core.des.get(engine).map(Vec::len);
            let list = &mut core.records[engine];
            let mut left = list.clone();
            if list.len() > 4 {
                loss.apply(&mut left);
            }
            let last = left
                .iter()
                .any(|rec| rec.end > 0 && list.last() == Some(rec));
            if list.len() > 4 && (last || !vanished) {
                *list = left;
                done.push(format!("{engine} {loss:?}"));
            }
        }
        let place = format!("{spec:?} {done:?}");
        let profile = read(&dump);
        let said = said(&profile);
        wrong.extend(first_wrong(&truth, &said).map(|text| format!("{place}: {text}")));
        let share = shares.entry(format!("{:?}", spec.capture)).or_default();
        let (sure, all) = matched(&said);
        (share.0, share.1) = (share.0 + sure, share.1 + all);
        let of = |dump: &Dump| {
            let core = dump.cores[1].clone();
            // Ids begin at 0 without a reset before the first command, too.
            let nodes: Vec<u32> = core
                .nodes
                .into_iter()
                .skip_while(|w| w & 0x7f == 12)
                .collect();
            (nodes, core.extra, core.des)
        };
        // That a mark is gone shows by those of other kernels.
        let shows = spec.capture == Capture::Bmodel || spec.kernels > 2;
        let damaged = shows && of(&whole) != of(&dump);
        if damaged && profile.report.is_whole() {
            wrong.push(format!("{place}: nothing is missed"));
        }
    }
    println!("matched: {shares:?}");
    none_wrong(&wrong);
}

#[test]
fn dumps_that_lost_commands() {
    check_random(0..150);
}

/// The same with many more dumps: `cargo nextest run -p tpuprofile --run-ignored all many_more`, see
/// [`seeds_of_environment`].
#[test]
#[ignore = "takes minutes"]
fn many_more_dumps_that_lost_commands() {
    check_random(seeds_of_environment());
}
