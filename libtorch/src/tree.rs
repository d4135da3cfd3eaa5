//! Nests events: an event is inside another of its thread that began earlier and ended later. Work of a GPU has a clock
//! of its own and belongs to the call that launched it.

use std::collections::HashMap;

use crate::protocol::{Event, What};

/// An event's place among the others.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Node {
    /// The innermost event around it.
    pub parent: Option<usize>,
    /// Its time without the events inside it.
    pub own_ns: u64,
    /// Bytes taken less bytes given back in it, outside of the events inside it.
    pub own_bytes: i64,
    /// The same with the events inside it.
    pub total_bytes: i64,
    /// Time of the GPU's work that it launched, without that of nested events.
    pub own_device_ns: u64,
    /// The same with the events inside it.
    pub total_device_ns: u64,
    /// Whether it is part of the call around it: the only one inside, of the same operator.
    pub repeats: bool,
}

/// A node for each event, in their order.
pub(crate) fn nodes(events: &[Event]) -> Vec<Node> {
    let is_kernel = |&i: &usize| events[i].what == What::Kernel;
    let mut order: Vec<usize> = (0..events.len()).filter(|i| !is_kernel(i)).collect();
    // If two events begin together, the longer one is around the other.
    order.sort_by_key(|&i| {
        let event = &events[i];
        let end = event.start_ns + event.duration_ns;
        (event.thread, event.start_ns, std::cmp::Reverse(end))
    });
    let mut nodes: Vec<Node> = events
        .iter()
        .map(|event| Node {
            own_ns: event.duration_ns,
            ..Node::default()
        })
        .collect();
    let mut open: Vec<usize> = Vec::new();
    for index in order {
        let event = &events[index];
        while open
            .last()
            .is_some_and(|&outer| !is_inside(event, &events[outer]))
        {
            open.pop();
        }
        nodes[index].parent = open.last().copied();
        if event.what == What::Memory {
            if let Some(&innermost) = open.last() {
                nodes[innermost].own_bytes += event.bytes;
            }
            for &outer in &open {
                nodes[outer].total_bytes += event.bytes;
            }
            continue;
        }
        if let Some(&outer) = open.last() {
            let own = &mut nodes[outer].own_ns;
            *own = own.saturating_sub(event.duration_ns);
        }
        open.push(index);
    }
    add_device(events, &mut nodes);
    join_repeats(events, &mut nodes);
    nodes
}

/// Gives the GPU's times to the calls that asked for the work, and to all calls around those.
fn add_device(events: &[Event], nodes: &mut [Node]) {
    let numbered = events.iter().enumerate();
    let callers: HashMap<u64, usize> = numbered
        .filter(|(_, event)| event.what == What::Operator && event.correlation != 0)
        .map(|(index, event)| (event.correlation, index))
        .collect();
    for kernel in events.iter().filter(|event| event.what == What::Kernel) {
        let caller = callers.get(&kernel.correlation).copied();
        if let Some(caller) = caller {
            nodes[caller].own_device_ns += kernel.duration_ns;
        }
        let mut around = caller;
        while let Some(index) = around {
            nodes[index].total_device_ns += kernel.duration_ns;
            around = nodes[index].parent;
        }
    }
}

/// Joins a call with the only call inside it if both are of the same operator, as `torch.profiler` does. `div_` of a number
/// calls `div_` of a tensor.
fn join_repeats(events: &[Event], nodes: &mut [Node]) {
    let is_call = |&index: &usize| !matches!(events[index].what, What::Memory | What::Kernel);
    let mut inside = vec![0; nodes.len()];
    for index in (0..nodes.len()).filter(is_call) {
        if let Some(parent) = nodes[index].parent {
            inside[parent] += 1;
        }
    }
    let mut innermost_first: Vec<usize> = (0..nodes.len()).filter(is_call).collect();
    innermost_first
        .sort_by_key(|&i| (events[i].duration_ns, std::cmp::Reverse(events[i].start_ns)));
    for index in innermost_first {
        let Some(parent) = nodes[index].parent else {
            continue;
        };
        let same = events[index].name == events[parent].name;
        if same && inside[parent] == 1 && events[index].what == What::Operator {
            nodes[index].repeats = true;
            nodes[parent].own_ns += nodes[index].own_ns;
            nodes[parent].own_bytes += nodes[index].own_bytes;
            nodes[parent].own_device_ns += nodes[index].own_device_ns;
        }
    }
}

fn is_inside(event: &Event, outer: &Event) -> bool {
    let end = |event: &Event| event.start_ns + event.duration_ns;
    // A call that begins when another one ends is not inside it.
    let begins = match event.what {
        What::Memory => event.start_ns <= end(outer),
        _ => event.start_ns < end(outer),
    };
    event.thread == outer.thread && begins && end(event) <= end(outer)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(what: What, thread: u64, start_ns: u64, duration_ns: u64) -> Event {
        Event {
            name: format!("from {start_ns} for {duration_ns}"),
            what,
            thread,
            start_ns,
            duration_ns,
            ..Event::default()
        }
    }

    #[test]
    fn calls_are_inside_calls_of_their_own_thread_that_last_longer() {
        let call = |thread, start, duration| event(What::Operator, thread, start, duration);
        let events = [
            call(1, 10, 5),
            call(1, 0, 100),
            call(2, 12, 2),
            call(1, 10, 20),
            call(1, 40, 60),
            call(1, 100, 7),
        ];
        let nodes = nodes(&events);
        let parents: Vec<_> = nodes.iter().map(|n| n.parent).collect();
        assert_eq!(parents, [Some(3), None, None, Some(1), Some(1), None]);
        let own: Vec<_> = nodes.iter().map(|n| n.own_ns).collect();
        assert_eq!(own, [5, 20, 2, 15, 60, 7]);
    }

    #[test]
    fn the_only_call_inside_one_of_the_same_operator_is_part_of_it() {
        let call = |name: &str, start, duration| Event {
            name: name.to_owned(),
            ..event(What::Operator, 1, start, duration)
        };
        let events = [
            call("div_", 0, 100),
            call("div_", 10, 80),
            call("to", 20, 30),
            call("to", 200, 100),
            call("to", 210, 10),
            call("to", 230, 10),
        ];
        let nodes = nodes(&events);
        let repeats: Vec<_> = nodes.iter().map(|n| n.repeats).collect();
        assert_eq!(repeats, [false, true, false, false, false, false]);
        assert_eq!((nodes[0].own_ns, nodes[3].own_ns), (70, 80));
    }

    #[test]
    fn work_of_a_gpu_belongs_to_the_call_that_asked_for_it_and_to_all_around_it() {
        let call = |start, duration, correlation| Event {
            correlation,
            ..event(What::Operator, 1, start, duration)
        };
        let kernel = |start, duration, correlation| Event {
            correlation,
            ..event(What::Kernel, 7, start, duration)
        };
        // Kernels end after the calls; one was requested by a call that was not recorded.
        let events = [
            call(0, 10, 1),
            call(2, 3, 2),
            kernel(4, 50, 2),
            kernel(60, 5, 1),
            kernel(70, 9, 3),
        ];
        let nodes = nodes(&events);
        let device = |i: usize| (nodes[i].own_device_ns, nodes[i].total_device_ns);
        assert_eq!((device(0), device(1)), ((5, 55), (50, 50)));
        assert_eq!((nodes[0].own_ns, nodes[1].own_ns), (7, 3));
    }

    #[test]
    fn memory_belongs_to_the_innermost_call_and_to_all_around_it() {
        let memory = |at, bytes| Event {
            bytes,
            ..event(What::Memory, 1, at, 0)
        };
        let call = |start, duration| event(What::Operator, 1, start, duration);
        let events = [call(0, 10), call(2, 3), memory(3, 64), memory(8, -16)];
        let nodes = nodes(&events);
        assert_eq!((nodes[0].own_bytes, nodes[0].total_bytes), (-16, 48));
        assert_eq!((nodes[1].own_bytes, nodes[1].total_bytes), (64, 64));
    }
}
