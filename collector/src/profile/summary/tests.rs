//! Lines of a made-up profile.

use super::testing::model;
use super::*;

fn of(model: &ProfiledModel, group_by: GroupBy) -> Summary {
    summary(model, &model.profiled.cycles[0], group_by, SortBy::Own)
}

#[test]
fn own_times_add_up_and_the_threads_tasks_say_how_busy_they_were() {
    let model = model();
    let table = of(&model, GroupBy::Operator);
    assert_eq!((table.sum_ns, table.total_ns), (900.0, 1_000.0));
    assert_eq!(table.explained(), 0.9);
    let [conv, alloc] = &table.lines[..] else {
        panic!("{:?}", table.lines)
    };
    assert_eq!((conv.name.as_str(), conv.own_ns), ("conv2d_relu", 800.0));
    assert_eq!(conv.layer.as_deref(), Some("layer1.conv1"));
    assert_eq!((conv.flops, conv.bytes), (Some(32_000), Some(1_200)));
    assert_eq!(conv.busy_share, Some(1_200.0 / 1_600.0));
    assert_eq!((alloc.class, alloc.layer.as_ref()), (Class::Machine, None));
    assert_eq!(table.peak_bytes, 400);
}

#[test]
fn a_call_inside_another_counts_once() {
    let mut model = model();
    // The convolution is called inside the allocation, and both end together.
    model.profiled.calls[1].parent = Some(0);
    for step in &mut model.profiled.cycles[0].steps {
        step.calls[0].1 = step.calls[1].1;
    }
    let table = of(&model, GroupBy::Call);
    assert_eq!(table.sum_ns, 940.0);
    let outer = table.lines.iter().find(|l| l.class == Class::Machine);
    let outer = outer.unwrap();
    assert_eq!((outer.own_ns, outer.total_ns), (140.0, 940.0));
}

#[test]
fn lines_that_are_put_together_keep_what_they_agree_on() {
    let mut model = model();
    let again = model.profiled.calls[1].clone();
    model.profiled.calls.push(ProfiledCall {
        arguments: again.arguments[..1].to_vec(),
        ..again
    });
    for step in &mut model.profiled.cycles[0].steps {
        step.calls.push((step.calls[1].1, step.calls[1].1 + 20));
    }
    for group_by in [GroupBy::Operator, GroupBy::Kind, GroupBy::Shape] {
        let table = of(&model, group_by);
        let line = &table.lines[0];
        assert_eq!((line.count, line.own_ns), (2, 820.0), "{group_by:?}");
        assert_eq!(line.extremes_ns, (20.0, 800.0));
        assert_eq!(
            (line.shapes.as_ref(), line.kind.as_deref()),
            (None, Some("conv2d"))
        );
    }
    let named = of(&model, GroupBy::Shape);
    assert_eq!(named.lines[0].name, "conv2d_relu float32[1, 100]");
    assert_eq!(of(&model, GroupBy::Call).lines.len(), 3);
    // The call without a weight of its own reads the result of the layer before it.
    assert_eq!(of(&model, GroupBy::Layer).lines[0].name, "layer1.conv1");
}

#[test]
fn any_order() {
    let model = model();
    let first = |sort_by| {
        let table = summary(&model, &model.profiled.cycles[0], GroupBy::Call, sort_by);
        table.lines[0].name.clone()
    };
    assert_eq!(first(SortBy::Live), "conv2d_relu");
    assert_eq!(first(SortBy::Name), "conv2d_relu");
    assert_eq!(first(SortBy::Program), "vm.builtin.alloc_storage");
    assert_eq!(first(SortBy::Count), "vm.builtin.alloc_storage");
}

#[test]
fn what_watching_costs_is_the_median_of_pairs() {
    let (median, interval) = overhead(&model().profiled.pairs).unwrap();
    assert!((median - 0.0091).abs() < 1e-3, "{median}");
    let (low, high) = interval.unwrap();
    assert!(low <= median && median <= high);
    assert_eq!(overhead(&[(1.0, 1.0); 3]).unwrap(), (0.0, None));
    assert_eq!(overhead(&[]), None);
}
