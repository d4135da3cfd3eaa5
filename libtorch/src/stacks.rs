//! The stacks of a recording: the modules that an operator is called in, then the operators that call each other.

use crate::lines::modules;
use crate::protocol::{Cycle, What};
use crate::tree::nodes;

/// Lists the frames of each operator of a cycle, the outermost first, and its own time in a run in nanoseconds.
pub fn stacks(cycle: &Cycle) -> Vec<(Vec<String>, u64)> {
    let nodes = nodes(&cycle.events);
    let runs = cycle.steps_ns.len().max(1) as u64;
    let operators = cycle.events.iter().zip(&nodes);
    operators
        .filter(|(event, node)| event.what == What::Operator && !node.repeats)
        .map(|(event, node)| {
            let mut calls = vec![event.name.clone()];
            let mut outer = node.parent;
            while let Some(index) = outer {
                let event = &cycle.events[index];
                if event.what == What::Operator && !nodes[index].repeats {
                    calls.push(event.name.clone());
                }
                outer = nodes[index].parent;
            }
            let frames = modules(event).into_iter();
            let frames = frames.chain(calls.into_iter().rev()).collect();
            (frames, node.own_ns / runs)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::Event;

    #[test]
    fn an_operator_stands_below_its_modules_and_callers() {
        let event = |name: &str, start_ns, duration_ns| Event {
            name: name.to_owned(),
            start_ns,
            duration_ns,
            modules: vec![
                "TOP(Net)::forward".to_owned(),
                "fc(Linear)::forward".to_owned(),
            ],
            ..Event::default()
        };
        let cycle = Cycle {
            first_step: 0,
            steps_ns: vec![100, 100],
            events: vec![event("aten::linear", 0, 100), event("aten::addmm", 10, 80)],
        };
        let frames = |calls: &[&str]| {
            let all = ["Net", "fc"].iter().chain(calls);
            all.map(|frame| (*frame).to_owned()).collect::<Vec<_>>()
        };
        assert_eq!(
            stacks(&cycle),
            [
                (frames(&["aten::linear"]), 10),
                (frames(&["aten::linear", "aten::addmm"]), 40),
            ]
        );
    }
}
