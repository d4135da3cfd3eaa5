//! Whole dumps are read as they were made; damaged ones keep all that can be known, and say what cannot.

mod dumps;

use std::collections::BTreeSet;
use std::path::Path;

use dumps::{CAPTURES, Capture, Dump, Spec, Truth, make};
use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use tpuprofile::chip::Chip;
use tpuprofile::matching::event::Certainty;
use tpuprofile::report::{Engine, Stream};
use tpuprofile::view::Viewer;
use tpuprofile::{IngestOptions, Profile, ingest};

fn read(dump: &Dump) -> Profile {
    let dir = tempfile::tempdir().unwrap();
    dump.write(dir.path());
    ingest(dir.path(), &IngestOptions::default()).unwrap()
}

/// What the profile says of a core's engine, as truths; commands that are not certain without a name.
fn seen(profile: &Profile, core: u32, engine: Engine) -> Vec<(u64, u32, String, Certainty)> {
    let viewer = Viewer::new(profile, Stream::new(engine, core)).unwrap();
    let events = &profile.core(core).unwrap().events[engine.slot()];
    let work = |name: &str| {
        !matches!(
            name,
            "send_msg" | "wait_msg" | "end" | "system.end" | "sys" | "chain end" | "unknown"
        )
    };
    events
        .iter()
        .enumerate()
        .map(|(i, event)| (event, viewer.view(i, event)))
        .filter(|(event, view)| work(&view.name) || event.certainty() != Certainty::Matched)
        .map(|(event, view)| {
            (
                event.cycles(),
                event.id,
                plain(&view.name).to_string(),
                event.certainty(),
            )
        })
        .collect()
}

/// The name of a function whatever the mode calls it.
fn plain(name: &str) -> &str {
    match name {
        "mm2.nn" => "MM2_NN",
        "arith.add" => "add",
        other => other,
    }
}

fn truths(list: &[Truth]) -> Vec<(u64, u32, String, Certainty)> {
    list.iter()
        .map(|t| (t.cycles, t.id, t.name.to_string(), Certainty::Matched))
        .collect()
}

#[test]
fn whole_dumps_of_every_chip_and_mode() {
    for chip in Chip::ALL {
        for capture in CAPTURES {
            for wrap in [false, true] {
                let dump = make(Spec {
                    wrap,
                    ..Spec::new(chip, capture)
                });
                let profile = read(&dump);
                let place = format!("{chip} {capture:?} wrap {wrap}");
                let losses: Vec<_> = profile
                    .report
                    .losses()
                    .map(|f| format!("{} {}", f.place, f.text))
                    .collect();
                assert!(losses.is_empty(), "{place}: {losses:?}");
                for (number, core) in dump.cores.iter().enumerate() {
                    for engine in Engine::OF_CORE {
                        let truth = &core.truth[engine.slot()];
                        let events = &profile.core(number as u32).unwrap().events[engine.slot()];
                        if capture == Capture::Pmu {
                            assert!(
                                events.len() >= truth.len(),
                                "{place} core {number} {engine}"
                            );
                        } else {
                            assert_eq!(
                                seen(&profile, number as u32, engine),
                                truths(truth),
                                "{place} {number} {engine}"
                            );
                        }
                    }
                }
                let (first, last) = profile.span_ns().unwrap();
                assert!(first == 0 && last < 400_000, "{place}: {last}");
            }
        }
    }
}

#[test]
fn kernels_and_batches_reach_their_records() {
    let dump = make(Spec::new(Chip::Aks, Capture::Nodes));
    let profile = read(&dump);
    let viewer = Viewer::new(&profile, Stream::new(Engine::Tiu, 2)).unwrap();
    let events = &profile.core(2).unwrap().events[0];
    for (i, (event, truth)) in events.iter().zip(&dump.cores[2].truth[0]).enumerate() {
        let view = viewer.view(i, event);
        assert_eq!(
            view.kernel,
            Some(format!("kernel_{}", truth.kernel).as_str())
        );
        assert_eq!(
            (view.scope, event.batch().unwrap_or(u32::MAX)),
            (Some(2 * 3 + truth.kernel), truth.kernel)
        );
    }
}

/// Checks a damaged engine: what is called certain is true, and nothing true is gone beyond what was removed.
fn check(profile: &Profile, dump: &Dump, core: u32, engine: Engine, removed: usize) {
    let truth = truths(&dump.cores[core as usize].truth[engine.slot()]);
    let seen = seen(profile, core, engine);
    let certain: Vec<_> = seen.iter().filter(|s| s.3 == Certainty::Matched).collect();
    let mut rest = truth.iter();
    for one in &certain {
        assert!(
            rest.any(|t| t == *one),
            "{core} {engine}: {one:?} is not true, or out of order"
        );
    }
    let missing = truth.len() - certain.len();
    assert!(
        missing <= removed,
        "{core} {engine}: {missing} of {} are gone, {removed} were removed; {:?}",
        truth.len(),
        profile
            .report
            .losses()
            .map(|f| format!("{}: {}", f.place, f.text))
            .collect::<Vec<_>>()
    );
}

/// Checks that records whose command is certain are of the kernels that they were made for.
fn check_kernels(profile: &Profile, dump: &Dump, core: u32, engine: Engine) {
    let names = &profile.core(core).unwrap().file.scopes;
    let events = &profile.core(core).unwrap().events[engine.slot()];
    let truth = &dump.cores[core as usize].truth[engine.slot()];
    let of = |id: u32, cycles: u64| {
        truth
            .iter()
            .filter(move |t| (t.id, t.cycles) == (id, cycles))
    };
    for event in events {
        if event.certainty() != Certainty::Matched {
            continue;
        }
        let mut kernels = of(event.id, event.cycles()).map(|t| format!("kernel_{}", t.kernel));
        let name = event.scope().and_then(|scope| names.get(scope as usize));
        let known = kernels.next().is_none_or(|first| {
            name.is_some_and(|n| *n == first || kernels.any(|other| *n == other))
        });
        assert!(known, "{core} {engine}: {event:?} is of {name:?}");
    }
}

#[derive(Debug, Clone, Copy)]
enum Damage {
    Remove(prop::sample::Index),
    Double(prop::sample::Index, prop::sample::Index),
    Swap(prop::sample::Index, prop::sample::Index),
}

fn damage() -> impl Strategy<Value = Damage> {
    let any = any::<prop::sample::Index>;
    prop_oneof![
        any().prop_map(Damage::Remove),
        (any(), any()).prop_map(|(a, b)| Damage::Double(a, b)),
        (any(), any()).prop_map(|(a, b)| Damage::Swap(a, b)),
    ]
}

/// Damages those items of a list that `pick` takes. Returns how many were removed.
fn apply<T: Clone>(damages: &[Damage], list: &mut Vec<T>, pick: impl Fn(&T) -> bool) -> usize {
    let mut removed = 0;
    for one in damages {
        let places: Vec<usize> = (0..list.len()).filter(|&at| pick(&list[at])).collect();
        let place = |i: &prop::sample::Index| places[i.index(places.len())];
        match one {
            Damage::Remove(i) => {
                list.remove(place(i));
                removed += 1;
            }
            Damage::Double(i, j) => {
                let copy = list[place(i)].clone();
                list.insert(place(j), copy);
            }
            Damage::Swap(i, j) => list.swap(place(i), place(j)),
        }
    }
    removed
}

/// How many records of a compiled model are guessed beside those that are gone. The rest of its head may be the pair of
/// records that frames a program, if it is no longer than that.
fn like_a_frame(whole: &Dump, dump: &Dump, engine: usize) -> usize {
    const PAIR: usize = 2;
    let chip = whole.spec.chip;
    let stray = chip == Chip::Cv84x6 && engine == 0;
    let before = chip.spec().preamble_len() + usize::from(stray);
    let begin = whole.cores[1].records[engine][before].start;
    let program = dump.cores[1].records[engine].iter();
    let ids: BTreeSet<u32> = program.filter(|r| r.start >= begin).map(|r| r.id).collect();
    let first = ids.first().copied().unwrap_or(0);
    let run = (first..).take_while(|id| ids.contains(id)).count();
    if run <= PAIR { run } else { 0 }
}

/// Whether a word is a command's node.
fn is_node(word: &u32) -> bool {
    word & 0x7f == 1
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 250,
        rng_seed: RngSeed::Fixed(42),
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    /// One to three damages anywhere in the TIU or GDMA records of a core, of any chip and mode with commands.
    #[test]
    fn damaged_records_cost_themselves_only(
        chip in 0..4usize,
        capture in 1..4usize,
        engine in 0..2usize,
        seed in 1..50u64,
        damages in prop::collection::vec(damage(), 1..=3),
        counts in any::<bool>(),
    ) {
        let (chip, capture) = (Chip::ALL[chip], CAPTURES[capture]);
        let whole = make(Spec { seed, counts, ..Spec::new(chip, capture) });
        let mut dump = make(Spec { seed, counts, ..Spec::new(chip, capture) });
        let list = &mut dump.cores[1].records[engine];
        let before = list.clone();
        let removed = apply(&damages, list, |_| true);
        let changed = *list != before;
        // The runtime's counts, if any, are of what it wrote, before the damage.
        let dir = tempfile::tempdir().unwrap();
        dump.write(dir.path());
        std::fs::write(dir.path().join("global.profile"), whole.global()).unwrap();
        let profile = ingest(dir.path(), &IngestOptions::default()).unwrap();
        // CV84X6's stray records are no part of the program: nobody misses one.
        let stray = chip == Chip::Cv84x6 && engine == 0;
        let framed = match capture {
            Capture::Bmodel if removed > 0 => like_a_frame(&whole, &dump, engine),
            _ => 0,
        };
        prop_assert!(!changed || stray || !profile.report.findings.is_empty(), "nothing was said");
        for core in 0..dump.cores.len() as u32 {
            for kind in Engine::OF_CORE {
                let lost = if core == 1 && kind.slot() == engine { removed + framed } else { 0 };
                check(&profile, &whole, core, kind, lost);
            }
        }
    }

    /// One to three damages among the command nodes or their details in mode 2: what is certain is true, and damaged details
    /// cost nothing.
    #[test]
    fn details_make_up_for_nodes(
        chip in 0..4usize,
        seed in 1..50u64,
        damages in prop::collection::vec(damage(), 1..=3),
        of_nodes in any::<bool>(),
    ) {
        let mut dump = make(Spec { seed, ..Spec::new(Chip::ALL[chip], Capture::Details) });
        let core = &mut dump.cores[1];
        let before = core.clone();
        if of_nodes {
            apply(&damages, &mut core.nodes, is_node);
        } else {
            apply(&damages, &mut core.extra, |_| true);
        }
        let changed = core.nodes != before.nodes || core.extra != before.extra;
        let profile = read(&dump);
        prop_assert!(!changed || !profile.report.is_whole(), "nothing was said");
        for core in 0..dump.cores.len() as u32 {
            for kind in Engine::OF_CORE {
                // Where nodes are lost, what details make up for may be only likely.
                check(&profile, &dump, core, kind, if of_nodes { usize::MAX } else { damages.len() });
                check_kernels(&profile, &dump, core, kind);
            }
        }
    }

    /// Words of any kind removed, or one doubled, in mode 1 or 2: what is called certain is true.
    #[test]
    fn lost_words_give_no_wrong_results(
        chip in 0..4usize,
        capture in 1..3usize,
        seed in 1..50u64,
        damages in prop::collection::vec(damage(), 1..=3),
    ) {
        // One lost and one doubled in mode 1 leave as many as there were: nobody can see that.
        let kind = std::mem::discriminant(&damages[0]);
        let alike = damages.iter().filter(|d| std::mem::discriminant(*d) == kind).copied();
        let damages: Vec<Damage> = match damages[0] {
            Damage::Swap(..) => Vec::new(),
            Damage::Double(..) => vec![damages[0]],
            Damage::Remove(_) => alike.collect(),
        };
        let mut dump = make(Spec { seed, ..Spec::new(Chip::ALL[chip], CAPTURES[capture]) });
        apply(&damages, &mut dump.cores[1].nodes, |_| true);
        let profile = read(&dump);
        for core in 0..dump.cores.len() as u32 {
            for kind in Engine::OF_CORE {
                check(&profile, &dump, core, kind, usize::MAX);
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 250, failure_persistence: None, ..ProptestConfig::default() })]

    /// Any bytes changed or cut: a message or a profile, never a panic.
    #[test]
    fn any_bytes_are_survived(
        chip in 0..4usize,
        capture in 0..4usize,
        flips in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..20),
        cut in prop::option::of(any::<prop::sample::Index>()),
        noise in prop::option::of(prop::collection::vec(any::<u8>(), 0..200)),
    ) {
        let dump = make(Spec { ports: 1, ..Spec::new(Chip::ALL[chip], CAPTURES[capture]) });
        let dir = tempfile::tempdir().unwrap();
        dump.write(dir.path());
        let mut bytes = dump.core_bytes(0);
        for (at, value) in flips {
            let at = at.index(bytes.len());
            bytes[at] ^= value;
        }
        if let Some(cut) = cut {
            bytes.truncate(cut.index(bytes.len()));
        }
        if let Some(noise) = noise {
            bytes.extend(noise);
        }
        std::fs::write(dir.path().join("cdmlib0_0.profile"), bytes).unwrap();
        if let Ok(profile) = ingest(dir.path(), &IngestOptions::default()) {
            export_all(&profile, dir.path());
        }
    }
}

fn export_all(profile: &Profile, folder: &Path) {
    use tpuprofile::analysis::rollup::Filter;
    let summary = tpuprofile::analysis::summary::summarise(profile);
    tpuprofile::export::summary::text(profile, &summary);
    tpuprofile::export::perfetto::write(profile, None, &folder.join("p")).unwrap();
    tpuprofile::export::reginfo::write(profile, folder).unwrap();
    tpuprofile::export::csv::write(profile, &folder.join("c")).unwrap();
    tpuprofile::export::xlsx::write(profile, &summary, &folder.join("x")).unwrap();
    tpuprofile::export::json::object(profile, &summary, &Filter::default(), 10);
    tpuprofile::export::rows::rows(profile, "r", &Filter::default());
}

#[test]
fn a_missing_core_leaves_the_others_their_numbers() {
    let dump = make(Spec::new(Chip::Aks, Capture::Nodes));
    let dir = tempfile::tempdir().unwrap();
    dump.write(dir.path());
    std::fs::remove_file(dir.path().join("cdmlib0_3.profile")).unwrap();
    let profile = ingest(dir.path(), &IngestOptions::default()).unwrap();
    assert_eq!(
        profile.cores.iter().map(|c| c.number).collect::<Vec<_>>(),
        [0, 1, 2, 4, 5, 6, 7]
    );
    assert!(
        profile
            .report
            .losses()
            .any(|f| f.kind == "core_missing" && f.place == "core 3")
    );
    assert_eq!(
        seen(&profile, 4, Engine::Gdma),
        truths(&dump.cores[4].truth[1])
    );
}

#[test]
fn a_lapped_ring_keeps_its_latest_kernels() {
    let whole = make(Spec {
        kernels: 9,
        counts: false,
        ..Spec::new(Chip::Aks, Capture::Nodes)
    });
    let mut dump = make(Spec {
        kernels: 9,
        counts: false,
        ..Spec::new(Chip::Aks, Capture::Nodes)
    });
    let list = &mut dump.cores[0].records[1];
    let keep = list.len() - 57;
    list.drain(..57);
    list.rotate_right(31);
    let profile = read(&dump);
    assert!(profile.report.losses().any(|f| f.kind == "ring_lapped"));
    let truth = truths(&whole.cores[0].truth[1]);
    let seen = seen(&profile, 0, Engine::Gdma);
    let truth = &truth[truth.len() - keep..];
    // Of the first kernel only the end is left, which may be another's by its ids.
    let first = seen.windows(2).position(|w| w[1].1 < w[0].1).unwrap() + 1;
    assert_eq!(seen[first..], truth[first..]);
    let named = |list: &[(u64, u32, String, Certainty)]| -> Vec<_> {
        list.iter()
            .map(|one| (one.0, one.1, one.2.clone()))
            .collect()
    };
    assert_eq!(named(&seen[..first]), named(&truth[..first]));
}

#[test]
fn ports_belong_to_the_core_that_sent() {
    let dump = make(Spec {
        ports: 2,
        ..Spec::new(Chip::Aks, Capture::Nodes)
    });
    let profile = read(&dump);
    assert!(profile.report.is_whole());
    for port in &profile.ports {
        assert_eq!(port.events.len(), 5);
        assert!(
            port.events
                .iter()
                .all(|e| e.core() == Some(port.number) && e.certainty() == Certainty::Matched)
        );
    }
}

#[test]
fn a_descriptor_that_another_took_the_place_of_is_never_called_matched() {
    let dump = make(Spec::new(Chip::Aks, Capture::Bmodel));
    let transfers = dump.cores[0].des[1].len() - 1;
    for place in [1, transfers / 2, transfers - 1] {
        let of_it = dump.cores[0].des[1][place].clone();
        let others = &dump.cores[0].des[1][..transfers];
        let other = others.iter().find(|other| **other != of_it).unwrap();
        for instead in [other.clone(), vec![0; of_it.len()]] {
            let mut damaged = make(Spec::new(Chip::Aks, Capture::Bmodel));
            damaged.cores[0].des[1][place] = instead;
            let events = seen(&read(&damaged), 0, Engine::Gdma);
            let truth = truths(&dump.cores[0].truth[1]);
            let wrong = events
                .iter()
                .filter(|e| e.3 == Certainty::Matched && !truth.contains(e));
            assert_eq!(wrong.count(), 0, "transfer {place}");
            let (_, _, name, certainty) = &events[place];
            assert!(
                *certainty != Certainty::Matched,
                "transfer {place}: {name} is called matched"
            );
        }
    }
}
