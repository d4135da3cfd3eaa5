//! Lists of records and commands put into one order.

use super::*;

fn raw(list: &[(u32, u32, u32)]) -> Vec<RawRecord> {
    list.iter()
        .enumerate()
        .map(|(i, &(start, end, id))| RawRecord {
            start,
            end,
            id,
            offset: i as u64,
        })
        .collect()
}

fn ids(ordered: &Ordered) -> Vec<u32> {
    ordered.records.iter().map(|r| r.id).collect()
}

fn ten() -> Vec<(u32, u32, u32)> {
    (0..10)
        .map(|i| (1000 + i * 100, 1090 + i * 100, i))
        .collect()
}

#[test]
fn records_in_order_stay() {
    let ordered = settle(Engine::Tiu, raw(&ten()));
    assert_eq!(ids(&ordered), (0..10).collect::<Vec<_>>());
    assert!(ordered.notes.is_empty() && !ordered.lapped);
}

#[test]
fn any_two_swapped_records_go_back() {
    for a in 0..10 {
        for b in a + 1..10 {
            let mut list = ten();
            list.swap(a, b);
            let ordered = settle(Engine::Gdma, raw(&list));
            assert_eq!(ids(&ordered), (0..10).collect::<Vec<_>>(), "{a} {b}");
            assert!(ordered.notes.iter().all(|n| n.1 == Fate::Moved), "{a} {b}");
            assert!(!ordered.notes.is_empty() && !ordered.lapped, "{a} {b}");
        }
    }
}

#[test]
fn doubles_are_dropped_wherever_they_stand() {
    for a in 0..10 {
        for b in 0..=10 {
            let mut list = ten();
            list.insert(b, list[a]);
            let ordered = settle(Engine::Tiu, raw(&list));
            assert_eq!(ids(&ordered), (0..10).collect::<Vec<_>>(), "{a} {b}");
            assert!(
                ordered.notes.iter().any(|n| n.1 == Fate::Duplicate),
                "{a} {b}"
            );
        }
    }
}

#[test]
fn a_double_and_a_swap_together_cost_nothing() {
    for (a, b) in (0..10).flat_map(|a| (a + 1..10).map(move |b| (a, b))) {
        for (from, to) in (0..10).flat_map(|from| (0..=10).map(move |to| (from, to))) {
            let mut list = ten();
            list.insert(to, list[from]);
            list.swap(a, b);
            let ordered = settle(Engine::Gdma, raw(&list));
            assert_eq!(
                ids(&ordered),
                (0..10).collect::<Vec<_>>(),
                "{from} {to} {a} {b}"
            );
            let doubles = ordered.notes.iter().filter(|n| n.1 == Fate::Duplicate);
            assert_eq!(doubles.count(), 1, "{from} {to} {a} {b}");
        }
    }
}

#[test]
fn records_swapped_while_the_clock_ran_over_go_back() {
    let whole: Vec<_> = (0..20u32)
        .map(|i| {
            let start = (u32::MAX - 950).wrapping_add(i * 100);
            (start, start.wrapping_add(90), i)
        })
        .collect();
    for (a, b) in (0..20).flat_map(|a| (a + 1..20).map(move |b| (a, b))) {
        let mut list = whole.clone();
        list.swap(a, b);
        let ordered = settle(Engine::Tiu, raw(&list));
        assert_eq!(ids(&ordered), (0..20).collect::<Vec<_>>(), "{a} {b}");
        let span = ordered.records[19].end - ordered.records[0].start;
        assert_eq!(span, 1990, "{a} {b}");
    }
}

#[test]
fn a_long_gap_beside_a_swap_is_a_gap() {
    let mut list: Vec<_> = (0..20u32)
        .map(|i| (100 * i + (i / 10) * 3_000_000_000, i))
        .map(|(start, i)| (start, start + 90, i))
        .collect();
    list.swap(3, 4);
    list.swap(12, 15);
    let ordered = settle(Engine::Tiu, raw(&list));
    assert_eq!(ids(&ordered), (0..20).collect::<Vec<_>>());
    assert_eq!(ordered.records[19].end, 3_000_001_990);
}

#[test]
fn wild_times_are_no_turns_of_the_clock() {
    let mut random = 88_172_645_463_325_252u64;
    let mut wild = || {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        random as u32
    };
    for _ in 0..50 {
        let mut list: Vec<_> = (0..60)
            .map(|i| (1000 + i * 100, 1090 + i * 100, i))
            .collect();
        for place in &mut list[20..40] {
            let start = wild();
            *place = (start, start.wrapping_add(wild() >> 2), wild());
        }
        let ordered = settle(Engine::Tiu, raw(&list));
        let known = |i: u32| ordered.records.iter().find(|r| r.id == i);
        for i in (0..20).chain(40..60) {
            assert!(
                known(i).is_none_or(|r| r.start == i64::from(1000 + i * 100)),
                "{i}"
            );
        }
    }
}

#[test]
fn a_wrapped_clock_goes_on() {
    let wrapped: Vec<_> = (0..10u32)
        .map(|i| {
            let start = (u32::MAX - 450).wrapping_add(i * 100);
            (start, start.wrapping_add(90), i)
        })
        .collect();
    let ordered = settle(Engine::Tiu, raw(&wrapped));
    assert_eq!(ids(&ordered), (0..10).collect::<Vec<_>>());
    assert!(ordered.notes.is_empty() && !ordered.lapped);
    assert_eq!(ordered.records[9].end - ordered.records[0].start, 990);
}

#[test]
fn a_lapped_ring_is_turned_back() {
    let mut list = ten();
    list.rotate_left(6);
    let ordered = settle(Engine::Gdma, raw(&list));
    assert_eq!(ids(&ordered), (0..10).collect::<Vec<_>>());
    assert!(ordered.lapped);
}

#[test]
fn one_flipped_bit_costs_one_record() {
    for index in 0..10 {
        for bit in 12..32 {
            for field in 0..2 {
                let mut list = ten();
                if field == 0 {
                    list[index].0 ^= 1 << bit;
                } else {
                    list[index].1 ^= 1 << bit;
                }
                let ordered = settle(Engine::Tiu, raw(&list));
                let total = ordered.records.last().unwrap().end - ordered.records[0].start;
                assert!(ordered.records.len() >= 9, "{index} {bit} {field}");
                // The first and last record have a neighbour on one side only.
                if (1..8).contains(&index) {
                    assert!(total < 1100, "{index} {bit} {field}: {total}");
                }
            }
        }
    }
}

#[test]
fn ids_of_sixteen_bits_go_on() {
    let list: Vec<_> = (0..10u32)
        .map(|i| (i * 10, i * 10 + 5, (65530 + i) & 0xffff))
        .collect();
    let ordered = settle(Engine::Tiu, raw(&list));
    assert_eq!(ids(&ordered), (65530..65540).collect::<Vec<_>>());
}
