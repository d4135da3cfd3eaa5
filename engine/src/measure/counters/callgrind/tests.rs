//! What is refused; runs under valgrind are tested with the whole program (`collector/tests/counters.rs`).

use super::super::SourceKind;
use super::super::request::Selection;
use super::*;

#[test]
fn an_unknown_counter_comes_with_the_one_that_was_meant() {
    let error = Callgrind.check("instruction").unwrap_err().to_string();
    assert!(error.contains("did you mean instructions?"), "{error}");
}

#[test]
fn listed_counters_alone_are_counted() {
    let events = Selection::Listed(vec!["llc-misses".to_owned()]);
    let opened = Callgrind.open(&events);
    assert_eq!(
        opened.simulators[0].counters.all,
        [Counter::new("llc-misses", "events")]
    );
}
