//! Dumps that lost commands: words of nodes, resets, names, details, descriptors, and records besides.
//!
//! Commands have no ids but their place, so one that is lost shifts all that follow. Two things are asked of each dump: no
//! record that is called matched names another kernel or command than in the whole dump. The dump is called whole only if
//! nothing is gone.

mod dumps;
mod losses;

use std::collections::BTreeMap;

use dumps::{CAPTURES, Capture, Dump};
use losses::commands::CommandLoss;
use losses::{
    Key, Random, first_wrong, matched, none_wrong, read, said, seeds_of_environment, two_cores,
    uncounted,
};

/// Dumps of any shape with one or two losses among the commands of a core, and up to two among its records.
fn check_random(seeds: impl IntoIterator<Item = u64>) {
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
            // Descriptors have no ids, so how many there were shows by the last record: without it nobody can tell. (The last
            // one of all may be a stray.)
            let all = &whole.cores[1];
            let vanished = all.des.get(engine).map(Vec::len) != core.des.get(engine).map(Vec::len);
            let list = &mut core.records[engine];
            let mut left = list.clone();
            if list.len() > 4 {
                loss.apply(&mut left);
            }
            let mut ends = all.records[engine].iter().rev().take(2);
            let last = ends.all(|rec| rec.end > 0 && left.contains(rec));
            if list.len() > 4 && (last || !vanished) {
                *list = left;
                done.push(format!("{engine} {loss:?}"));
            }
        }
        let place = format!("{spec:?} {done:?}");
        let profile = read(&dump);
        let said = said(&profile);
        let untold = |key: &Key| spec.capture == Capture::Nodes && uncounted(&truth, &said, key);
        wrong.extend(first_wrong(&truth, &said, untold).map(|text| format!("{place}: {text}")));
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
        // That a mark is gone shows by those of other kernels; batches may be written only where one begins.
        let batches = dump.cores[1]
            .nodes
            .iter()
            .filter(|w| *w & 0x7f == 14)
            .count();
        let shows = spec.capture == Capture::Bmodel
            || spec.kernels > 2 && batches * 2 > spec.kernels as usize;
        // A command that vanished together with its record nobody can miss.
        let sent = |dump: &Dump| {
            let nodes = dump.cores[1].nodes.iter();
            nodes.filter(|w| *w & 0x7f == 1).count()
        };
        let recorded = |dump: &Dump| dump.cores[1].records.iter().map(Vec::len).sum::<usize>();
        let gone = sent(&whole).saturating_sub(sent(&dump));
        let shows = shows && (gone == 0 || gone > recorded(&whole) - recorded(&dump));
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

/// Dumps that were once misread, or called whole.
#[test]
fn dumps_that_were_misread() {
    check_random([
        50307, 50861, 51357, 951_698, 951_756, 2_000_192, 2_001_392, 2_002_085, 2_002_096,
        2_002_495, 2_003_531, 2_003_844, 2_004_159, 2_005_022, 2_007_300, 2_008_118, 2_008_308,
        2_008_558, 2_008_973, 2_010_900, 2_013_791, 2_014_243, 2_016_763, 2_021_623, 2_022_242,
        2_022_591, 2_023_307, 2_024_173, 2_025_483, 2_028_511, 2_029_657, 2_029_837, 2_033_909,
        2_035_659, 2_035_995, 2_036_452, 5_004_218, 5_006_385, 5_017_871, 10_031_493, 10_005_398,
        10_018_201, 10_019_370, 10_028_408, 20_008_154, 20_008_248, 20_008_540, 20_010_150,
        20_011_873, 20_012_321, 40_003_007, 40_011_940, 50_001_171,
    ]);
}

/// The same with many more dumps: `cargo nextest run -p tpuprofile --run-ignored all many_more`, see
/// [`seeds_of_environment`].
#[test]
#[ignore = "takes minutes"]
fn many_more_dumps_that_lost_commands() {
    check_random(seeds_of_environment());
}
