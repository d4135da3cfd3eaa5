//! The comparison after tuning: default and tuned schedules in turn, each operator's as it is the fastest inside the model.

use opengine::device::Conditions;
use opengine::runner::RunnerFactory;
use opengine::runner::testing::order;

use super::*;
use crate::report::{Comparison, TunedOperator};

/// The convolution of the model with sample 1 of a space, the fastest alone, and others that were measured again.
fn tuned(others: &[u64]) -> TunedOperator {
    let operator = crate::render::testing::graph().operators.remove(1);
    let spec = |seed| ScheduleSpec::Metaschedule { seed };
    TunedOperator {
        name: operator.name,
        symbol: operator.symbol,
        count: operator.count,
        conditions: Conditions::new(1, CacheState::Model),
        default_ns: Some(1e3),
        best_ns: 500.0,
        schedules: 3,
        row_id: "run.000001".to_owned(),
        spec: spec(1),
        others: others.iter().map(|seed| spec(*seed)).collect(),
    }
}

/// The comparison, where sample 1 makes the model slower, sample 2 cannot be built and sample 3 makes it faster.
fn compared(others: &[u64]) -> (Comparison, Vec<String>) {
    let bench = Bench::new();
    let graph = crate::render::testing::graph();
    let seed_of = |model: &opengine::protocol::WholeModelSpec| match model.schedules.values().next()
    {
        Some(ScheduleSpec::Metaschedule { seed }) => *seed,
        _ => 0,
    };
    let fake = FakeRunner::new(move |step| match step {
        WorkerStep::BuildWholeModel(model) if seed_of(model) == 2 => {
            Act::Refuse(opdata::Status::Crashed, "no memory".to_owned())
        }
        WorkerStep::MeasureWholeModel { model, .. } => match seed_of(model) {
            0 => Act::takes(100e3),
            1 => Act::takes(120e3),
            _ => Act::takes(60e3),
        },
        _ => Act::takes(1e3),
    });
    let mut notes = Vec::new();
    let all = compare_models(
        &bench.plan(),
        &graph,
        1,
        &[tuned(others)],
        &[Conditions::new(1, CacheState::Model)],
        &mut || Ok(fake.runner(order(), &bench.folder.path().join("log"))),
        &mut |text| notes.push(text.to_owned()),
    );
    (all.unwrap().remove(0), notes)
}

#[test]
fn the_fastest_inside_the_model_is_compared_with_the_default_one() {
    let (alone, notes) = compared(&[]);
    assert_eq!((alone.before_ns, alone.after_ns), (100e3, 120e3));
    assert_eq!(notes.len(), 1);
    let (chosen, _) = compared(&[3]);
    assert_eq!((chosen.before_ns, chosen.after_ns), (100e3, 60e3));
    assert_eq!(chosen.ratio.median, 0.6);
}

#[test]
fn a_schedule_that_cannot_be_built_into_the_model_is_left_out_with_a_note() {
    let (chosen, notes) = compared(&[2, 3]);
    assert_eq!(chosen.after_ns, 60e3);
    assert!(
        notes[1].contains("rank 2") && notes[1].contains("no memory"),
        "{notes:?}"
    );
}
