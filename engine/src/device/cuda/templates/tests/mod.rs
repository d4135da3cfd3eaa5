//! The templates on real operators: the loop nests that come out, and that emulated kernels compute what the unscheduled
//! operators do, whatever the knobs.

mod cases;

use std::cell::RefCell;
use std::collections::HashMap;

use proptest::prelude::*;
use tvm_bridge::compile::{Asserts, Lowered};
use tvm_bridge::{DesignSpace, Schedule, Tensor};

use self::cases::{CONV3D, Case, HALVES, MAXIMA, OPERATORS, chosen, count, gpu, templates};
use super::*;
use crate::device::cuda::emulation::is_possible as can_emulate;
use crate::schedule::FactorValue;
use crate::schedule::testing::nest;
use crate::schedule::{Space, default_schedule, with_choice};

#[test]
fn default_schedules_have_the_loops_of_their_template() {
    for name in [
        "batch_matmul_prime",
        "conv2d_prime",
        "dense",
        "depthwise",
        "softmax",
    ] {
        let case = Case::named(name);
        let scheduled = default_schedule(&case.function, &templates(), 0).unwrap();
        let choice = serde_json::to_string(&scheduled.choice).unwrap();
        let function = scheduled.schedule.function().unwrap();
        insta::assert_snapshot!(name, format!("{choice}\n{}", nest(&function)));
    }
}

#[test]
fn default_schedules_compute_what_the_operators_do() {
    assert_default_schedules_compute(OPERATORS.into_iter().map(Case::named));
}

#[test]
fn default_schedules_of_halves_compute_what_the_operators_do() {
    assert_default_schedules_compute(HALVES.into_iter().map(Case::half));
}

#[test]
fn extremes_of_halves_are_shared_by_threads() {
    let cases = || MAXIMA.into_iter().map(Case::half);
    for case in cases() {
        let scheduled = default_schedule(&case.function, &templates(), 0).unwrap();
        assert_eq!(scheduled.choice.template, "reduction", "{}", case.name);
        let module = scheduled.schedule.module().unwrap();
        Lowered::new(&module, &gpu(), Asserts::Dropped).unwrap();
    }
    assert_default_schedules_compute(cases());
}

#[test]
fn a_block_keeps_no_more_than_its_results_in_shared_memory() {
    let case = Case::half(CONV3D);
    let knobs = Knobs::Reduction(ReductionKnobs {
        block_size: 96,
        results: 3,
        vector: 4,
        unroll: 16,
    });
    let scheduled = with_choice(&case.function, &templates(), 0, &knobs.choice()).unwrap();
    let module = scheduled.schedule.module().unwrap();
    let lowered = Lowered::new(&module, &gpu(), Asserts::Dropped).unwrap();
    let source = lowered.device_source().unwrap().unwrap().text;
    let kept: Vec<&str> = source
        .lines()
        .filter(|l| l.contains("__shared__"))
        .collect();
    assert_eq!(kept.len(), 1, "{kept:?}");
    assert!(kept[0].ends_with("[3];"), "{kept:?}");
    assert_default_schedules_compute([case].into_iter());
}

fn assert_default_schedules_compute(cases: impl Iterator<Item = Case>) {
    if !can_emulate() {
        return;
    }
    let mut complaints = Vec::new();
    for case in cases {
        let scheduled = default_schedule(&case.function, &templates(), 0).unwrap();
        let found = case.complaint(&scheduled.schedule, &case.reference());
        complaints.extend(found.map(|c| format!("{} ({:?}): {c}", case.name, scheduled.choice)));
    }
    assert!(complaints.is_empty(), "{}", complaints.join("\n"));
}

#[test]
fn products_of_half_precision_and_of_bfloat16_run_on_tensor_cores() {
    for half in HALVES {
        let case = Case::half(half);
        let schedule = Schedule::new(&case.function, 0).unwrap();
        let choice = templates().suggest(&schedule, 0).unwrap();
        let template = choice.map(|c| c.template).map_err(|e| e.to_string());
        assert_eq!(template.as_deref(), Ok("tensor_core"), "{}", case.name);
    }
}

#[test]
fn products_with_asynchronous_copies_compute_what_the_operators_do() {
    assert_products_compute(&[("stages", 3), ("block_k", 16)]);
}

#[test]
fn products_whose_sums_are_shared_by_blocks_compute_what_the_operators_do() {
    assert_products_compute(&[("split", 2)]);
}

#[test]
fn a_developers_choice_of_operators_computes_what_it_should() {
    let mut complaints = Vec::new();
    let chosen = chosen();
    assert!(chosen.is_empty() || can_emulate());
    for case in chosen {
        let reference = case.reference();
        let mut complain = |what: &str, schedule: &Schedule| {
            let found = case.complaint(schedule, &reference);
            let state = found.clone().unwrap_or_else(|| "right".to_owned());
            eprintln!("{} {what}: {state}", case.name);
            complaints.extend(found.map(|c| format!("{} {what}: {c}", case.name)));
        };
        let scheduled = default_schedule(&case.function, &templates(), 0).unwrap();
        complain(&scheduled.choice.template, &scheduled.schedule);
        let samples = count("OPBENCH_EMULATE_SAMPLES", 0);
        if samples == 0 {
            continue;
        }
        let space = DesignSpace::generate(&case.function, &gpu(), 0).unwrap();
        for seed in 0..samples {
            match space.sample(seed) {
                Ok(sample) => complain(&format!("sample {seed}"), &sample.schedule),
                Err(refused) => eprintln!("{} sample {seed}: {refused}", case.name),
            }
        }
    }
    assert!(complaints.is_empty(), "{}", complaints.join("\n"));
}

#[test]
fn every_operator_of_a_developers_choice_has_a_template_and_source() {
    let mut failures = Vec::new();
    for case in chosen() {
        let scheduled = default_schedule(&case.function, &templates(), 0).unwrap();
        let module = scheduled.schedule.module().unwrap();
        let lowered = Lowered::new(&module, &gpu(), Asserts::Dropped);
        let template = &scheduled.choice.template;
        match lowered.and_then(|l| l.generate()) {
            Ok(_) => eprintln!("{}: {template}", case.name),
            Err(e) => failures.push(format!("{} ({template}): {e}", case.name)),
        }
        for attempt in 0..if template == "unscheduled" {
            SUGGESTIONS.len()
        } else {
            0
        } {
            let schedule = Schedule::new(&case.function, 0).unwrap();
            let unfit = templates()
                .suggest(&schedule, attempt)
                .unwrap()
                .unwrap_err();
            failures.push(format!("  {unfit}"));
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

#[test]
fn samples_of_metaschedules_space_compute_what_the_operators_do() {
    if !can_emulate() {
        return;
    }
    for (name, seeds) in [
        ("batch_matmul_prime", 0..2),
        ("softmax", 0..2),
        ("max_pool_strided", 0..1),
    ] {
        let case = Case::named(name);
        let space = DesignSpace::generate(&case.function, &gpu(), 0).unwrap();
        let reference = case.reference();
        for seed in seeds {
            let schedule = space.sample(seed).unwrap().schedule;
            assert_eq!(
                case.complaint(&schedule, &reference),
                None,
                "{name}, seed {seed}"
            );
        }
    }
}

#[test]
fn samples_of_half_precision_use_tensor_cores() {
    let case = Case::half(HALVES[0]);
    let space = DesignSpace::generate(&case.function, &gpu(), 0).unwrap();
    let scripts = (0..4).filter_map(|seed| space.sample(seed).ok());
    let mut fragments = scripts.map(|s| s.schedule.script().unwrap().contains("wmma"));
    assert!(fragments.any(|found| found), "no sample has a fragment");
}

#[test]
fn samples_whose_sums_are_rounded_to_halves_compute_what_the_operator_does() {
    if !can_emulate() {
        return;
    }
    let case = Case::half(HALVES[8]);
    assert_eq!(case.name, "half matmul_rounded");
    let space = DesignSpace::generate(&case.function, &gpu(), 0).unwrap();
    let schedule = space.sample(0).unwrap().schedule;
    assert_eq!(case.complaint(&schedule, &case.reference()), None);
}

#[test]
fn impossible_combinations_are_refused_with_their_reason() {
    let case = Case::named("conv2d_prime");
    let space = templates().space(&case.function).unwrap();
    let refusal = |wanted: &[(&str, i64)]| {
        let value = |name: &str| space.dimensions.iter().find(|d| d.name() == name).unwrap();
        let values: Vec<_> = wanted
            .iter()
            .map(|(_, v)| FactorValue::Number(*v))
            .collect();
        let settings: Vec<_> = wanted
            .iter()
            .zip(&values)
            .map(|((n, _), v)| (value(n), v))
            .collect();
        combine(&space, &settings).unwrap_err()
    };
    let threads = refusal(&[
        ("block-tile.m", 256),
        ("block-tile.n", 256),
        ("thread-tile.m", 1),
        ("thread-tile.n", 1),
    ]);
    assert_eq!(threads, "65536 threads of a block; 1 to 1024 are possible");
    let shared = refusal(&[
        ("block-tile.m", 256),
        ("block-tile.n", 256),
        ("thread-tile.m", 8),
        ("thread-tile.n", 8),
        ("reduction-tile", 32),
    ]);
    assert!(
        shared.contains("bytes of shared memory, more than 49152"),
        "{shared}"
    );
    let uneven = refusal(&[("block-tile.m", 8), ("thread-tile.m", 16)]);
    assert!(uneven.contains("do not divide"), "{uneven}");
}

/// Products of the default schedules with some knobs changed, on tensor cores and on plain ones.
fn assert_products_compute(knobs: &[(&str, i64)]) {
    if !can_emulate() {
        return;
    }
    let plain = CudaTemplates {
        limits: Limits {
            has_tensor_cores: false,
            ..templates().limits
        },
    };
    let on_plain = [0, 2, 4].map(|place| (plain, HALVES[place]));
    let on_tensor_cores = [1, 3, 4, 5, 7].map(|place| (templates(), HALVES[place]));
    let mut complaints = Vec::new();
    for (templates, half) in on_plain.into_iter().chain(on_tensor_cores) {
        let case = Case::half(half);
        let mut choice = default_schedule(&case.function, &templates, 0)
            .unwrap()
            .choice;
        for (name, value) in knobs {
            choice.knobs.insert((*name).to_owned(), (*value).into());
        }
        let found = match with_choice(&case.function, &templates, 0, &choice) {
            Ok(scheduled) => case.complaint(&scheduled.schedule, &case.reference()),
            Err(refused) => Some(refused.to_string()),
        };
        complaints.extend(found.map(|c| format!("{} ({choice:?}): {c}", case.name)));
    }
    assert!(complaints.is_empty(), "{}", complaints.join("\n"));
}

#[test]
fn threads_without_a_result_store_nothing() {
    if !can_emulate() {
        return;
    }
    let mut complaints = Vec::new();
    for name in ["max_pool_strided", "depthwise", "depthwise_strided"] {
        let case = Case::named(name);
        let reference = case.reference();
        // Neither 96 nor 64 × 4 divides the number of results of any of them.
        for (block_size, thread_tile) in [(96, 1), (64, 4), (1024, 1)] {
            let knobs = Knobs::Window(WindowKnobs {
                block_size,
                thread_tile,
                unroll: 64,
            });
            let scheduled = with_choice(&case.function, &templates(), 0, &knobs.choice());
            let found = match scheduled {
                Ok(scheduled) => case.complaint(&scheduled.schedule, &reference),
                Err(refused) => Some(refused.to_string()),
            };
            complaints.extend(found.map(|c| format!("{name} {knobs:?}: {c}")));
        }
    }
    assert!(complaints.is_empty(), "{}", complaints.join("\n"));
}

#[test]
fn rows_of_a_padded_tile_store_nothing_where_the_tail_moves_results() {
    if !can_emulate() {
        return;
    }
    // 20 rows in tiles of 16, whose results the tail puts elsewhere and takes a part of.
    let case = Case::named("conv_transpose");
    let knobs = Knobs::Contraction(TileKnobs {
        block_m: 16,
        block_n: 32,
        block_k: 16,
        thread_m: 1,
        thread_n: 2,
        vector: 1,
        unroll: 16,
        stages: 1,
        split: 1,
    });
    let scheduled = with_choice(&case.function, &templates(), 0, &knobs.choice()).unwrap();
    let complaint = case.complaint(&scheduled.schedule, &case.reference());
    assert_eq!(complaint, None);
}

/// An operator with its space, and what it computes.
struct Subject {
    case: Case,
    space: Space,
    reference: Vec<Tensor>,
}

impl Subject {
    fn new(place: usize) -> Subject {
        let case = match OPERATORS.get(place) {
            Some(name) => Case::named(name),
            None => Case::half(HALVES[place - OPERATORS.len()]),
        };
        Subject {
            space: templates().space(&case.function).unwrap(),
            reference: case.reference(),
            case,
        }
    }
}

thread_local! {
    static SUBJECTS: RefCell<HashMap<usize, Subject>> = RefCell::default();
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: count("OPBENCH_EMULATE_CASES", 24) as u32,
        max_shrink_iters: 0,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]
    #[test]
    fn no_combination_of_knobs_changes_the_result(
        place in 0..OPERATORS.len() + HALVES.len(),
        picks in prop::collection::vec(prop::option::weighted(0.4, any::<prop::sample::Index>()), 16),
    ) {
        if !can_emulate() {
            return Ok(());
        }
        SUBJECTS.with_borrow_mut(|subjects| {
            let subject = subjects.entry(place).or_insert_with(|| Subject::new(place));
            let settings: Vec<_> = subject.space.dimensions.iter()
                .zip(&picks)
                .filter_map(|(dimension, pick)| Some((dimension, pick.as_ref()?.get(&dimension.values))))
                .collect();
            let choice = match combine(&subject.space, &settings) {
                Ok(choice) => choice,
                Err(reason) => {
                    prop_assert!(!reason.is_empty());
                    return Ok(());
                }
            };
            let scheduled = with_choice(&subject.case.function, &templates(), 0, &choice);
            // What was not refused is possible.
            let scheduled = scheduled.map_err(|e| TestCaseError::fail(format!("{choice:?}: {e}")))?;
            let complaint = subject.case.complaint(&scheduled.schedule, &subject.reference);
            prop_assert_eq!(complaint, None, "{} with {:?}", subject.case.name, choice);
            Ok(())
        })?;
    }
}
