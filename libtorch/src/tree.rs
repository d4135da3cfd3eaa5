//! Which event is inside which: calls of one thread that began later and ended earlier.

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
}

/// A node for each event, in their order.
pub(crate) fn nodes(events: &[Event]) -> Vec<Node> {
    let mut order: Vec<usize> = (0..events.len()).collect();
    // Of two that begin together the longer one is around the other.
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
    nodes
}

fn is_inside(event: &Event, outer: &Event) -> bool {
    let end = |event: &Event| event.start_ns + event.duration_ns;
    // A call that begins as another one ends is not in it.
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
