//! PAPI's conflicts, zeros and overflows on a stand-in, and the real library where it is installed.

use std::collections::BTreeMap;
use std::sync::Mutex;

use tvm_bridge::threads::Pool;

use super::library::Set;
use super::*;
use crate::measure::counters::{CounterSource, Counters, Reading};

/// A PAPI with one register that cycles and instructions share, a preset that stays 0, and a counter that wraps. It can
/// also give a reason why its events are switched off.
#[derive(Default)]
struct Fake(Mutex<BTreeMap<Set, Vec<c_int>>>, Option<String>);

const EVENTS: [(&str, c_int, i64); 6] = [
    ("PAPI_TOT_CYC", 1, 100),
    ("PAPI_TOT_INS", 2, 200),
    ("PAPI_L1_DCM", 3, 0),
    ("perf::PAGE-FAULTS", 4, 0),
    ("PAPI_BR_MSP", 5, 7),
    ("PAPI_RES_STL", 6, -3),
];
const CYCLES_AND_INSTRUCTIONS: [c_int; 2] = [1, 2];

impl Api for Fake {
    fn version(&self) -> (u8, u8) {
        (7, 0)
    }

    fn words(&self, code: Code) -> String {
        format!("error {}", code.0)
    }

    fn event(&self, name: &str) -> Result<c_int, Code> {
        let found = EVENTS.iter().find(|(known, ..)| *known == name);
        found.map(|(_, code, _)| *code).ok_or(Code(-7))
    }

    fn component(&self, _event: c_int) -> Result<(c_int, String), Code> {
        Ok((0, PROCESSOR.to_owned()))
    }

    fn disabled(&self, component: &str) -> Option<String> {
        (component == PROCESSOR).then(|| self.1.clone()).flatten()
    }

    fn set(&self, _component: c_int) -> Result<Set, Code> {
        let mut sets = self.0.lock().unwrap();
        let set = sets.keys().last().map_or(0, |last| last + 1);
        sets.insert(set, Vec::new());
        Ok(set)
    }

    fn attach(&self, _set: Set, _thread: libc::pid_t) -> Result<(), Code> {
        Ok(())
    }

    fn add(&self, set: Set, event: c_int) -> Result<(), Code> {
        let mut sets = self.0.lock().unwrap();
        let events = sets.get_mut(&set).unwrap();
        let takes = |event| CYCLES_AND_INSTRUCTIONS.contains(event);
        if takes(&event) && events.iter().any(takes) {
            return Err(Code(CONFLICT));
        }
        events.push(event);
        Ok(())
    }

    fn start(&self, _set: Set) -> Result<(), Code> {
        Ok(())
    }

    fn stop(&self, set: Set, values: &mut [i64]) -> Result<(), Code> {
        let sets = self.0.lock().unwrap();
        for (value, event) in values.iter_mut().zip(&sets[&set]) {
            *value = EVENTS.iter().find(|(_, code, _)| code == event).unwrap().2;
        }
        Ok(())
    }

    fn free(&self, set: Set) {
        self.0.lock().unwrap().remove(&set);
    }
}

fn names(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

#[test]
fn events_that_conflict_count_in_sets_of_their_own_and_no_set_is_left_behind() {
    let fake: &'static Fake = Box::leak(Box::default());
    let wanted = names(&["PAPI_TOT_CYC", "PAPI_TOT_INS", "PAPI_BR_MSP"]);
    let opened = open(fake, &wanted);
    assert!(opened.refused.is_empty(), "{:?}", opened.refused);
    let meters = opened.meters.iter();
    let sets: Vec<Vec<String>> = meters
        .map(|m| m.counters().all.iter().map(|c| c.name.clone()).collect())
        .collect();
    assert_eq!(
        sets,
        [
            names(&["PAPI_TOT_CYC", "PAPI_BR_MSP"]),
            names(&["PAPI_TOT_INS"])
        ]
    );
    drop(opened);
    assert!(fake.0.lock().unwrap().is_empty());
}

#[test]
fn a_preset_that_stays_zero_is_not_counted_and_a_kernel_event_may_be_zero() {
    let fake: &'static Fake = Box::leak(Box::default());
    let opened = open(
        fake,
        &names(&["PAPI_L1_DCM", "perf::PAGE-FAULTS", "PAPI_NO"]),
    );
    let refused: Vec<(String, String)> = opened
        .refused
        .iter()
        .map(|count| (count.full_name(), count.value.clone().unwrap_err()))
        .collect();
    assert_eq!(refused[0].0, "papi:PAPI_L1_DCM");
    assert!(refused[0].1.contains("stays 0"));
    assert_eq!(refused[1].0, "papi:PAPI_NO");
    assert!(refused[1].1.contains("error -7"));
    assert_eq!(opened.meters.len(), 1);
}

#[test]
fn an_unknown_event_has_papis_own_reason_where_it_switched_its_events_off() {
    let error = |fake: &Fake, event: &str| check(fake, event).unwrap_err().to_string();
    let here = error(&Fake::default(), "perf::NOPE");
    assert!(here.contains("error -7; `papi_avail -a`"), "{here}");
    let reason = "Set perf_event_paranoid to 2 or less".to_owned();
    let off = Fake(Mutex::default(), Some(reason));
    let unknown = error(&off, "perf::NOPE");
    assert!(
        unknown.contains("switched off perf_event: Set perf_event_paranoid"),
        "{unknown}"
    );
    let of_another = error(&off, "powercap:::NOPE");
    assert!(of_another.contains("error -7"), "{of_another}");
}

#[test]
fn an_overflow_is_no_count() {
    let fake: &'static Fake = Box::leak(Box::default());
    let source = |event: &str| {
        let set = fake.set(0).unwrap();
        fake.add(set, fake.event(event).unwrap()).unwrap();
        PapiSource {
            api: fake,
            counters: Counters::new(NAME, vec![counter(event)]),
            scope: Scope::Attached,
            sets: vec![set],
        }
    };
    let good = source("PAPI_TOT_CYC").stop().unwrap();
    assert_eq!(good, [Reading::whole(100.0)]);
    let wrapped = source("PAPI_RES_STL").stop().unwrap();
    assert!(matches!(&wrapped[0], Reading::NotCounted(reason) if reason.contains("overflowed")));
}

/// Page faults of both threads of a pool, which exists before anything is counted. A thread that counts twice would
/// make it more than 1,000.
#[test]
fn the_installed_papi_counts_software_events_of_every_thread_of_the_pool() {
    let Ok(api) = papi() else {
        optestkit::skip("PAPI's software events", "libpapi is not installed");
        return;
    };
    if let Err(error) = check(api, "perf::PAGE-FAULTS") {
        optestkit::skip("PAPI's software events", &error.to_string());
        return;
    }
    let pool = Pool::start(2).unwrap();
    let touch = super::super::perf::tests::touch_pages;
    let mut opened = open(api, &names(&["perf::PAGE-FAULTS", "perf::TASK-CLOCK"]));
    assert!(opened.refused.is_empty(), "{:?}", opened.refused);
    let source = &mut opened.meters[0];
    let mut counted = || {
        source.start().unwrap();
        pool.run(&|thread, _| touch([200, 300][thread])).unwrap();
        source.stop().unwrap()
    };
    for _ in 0..3 {
        let readings = counted();
        assert!(
            matches!(readings[0], Reading::Counted { value, .. } if (500.0..900.0).contains(&value)),
            "{readings:?}"
        );
        assert!(matches!(readings[1], Reading::Counted { value, .. } if value > 0.0));
    }
}
