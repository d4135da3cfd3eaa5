//! Cutting a graph of calls into blocks that follow each other.
//!
//! A cut is good where nothing after it can begin before the call in front of it has ended. Long blocks without a good cut are
//! cut after [`MOST_CALLS`] calls: stages then do not cross that cut, which is a restriction and no error.

use std::ops::Range;

use super::problem::Call;

/// Maximum number of calls in a block: the states of a wide block grow with the product of its branches' lengths.
pub const MOST_CALLS: usize = 24;

/// Ranges of the calls, which are in topological order.
pub fn blocks(calls: &[Call]) -> Vec<Range<usize>> {
    // For each call, the first later call that does not depend on it, directly or through others.
    let mut blocks = Vec::new();
    let mut begin = 0;
    for call in 0..calls.len() {
        let is_full = call + 1 - begin >= MOST_CALLS;
        if is_full || is_cut(calls, begin, call) {
            blocks.push(begin..call + 1);
            begin = call + 1;
        }
    }
    if begin < calls.len() {
        blocks.push(begin..calls.len());
    }
    blocks
}

/// Whether every later call needs the result of this one, and this one those of all earlier calls of its block,
/// directly or through others. Then nothing of the block can run beside later calls.
fn is_cut(calls: &[Call], begin: usize, at: usize) -> bool {
    let mut needed = vec![false; at + 1];
    needed[at] = true;
    for call in (begin..=at).rev() {
        if !needed[call] {
            return false;
        }
        for &input in &calls[call].inputs {
            needed[input] = true;
        }
    }
    let mut needs = vec![false; calls.len()];
    needs[at] = true;
    for (number, call) in calls.iter().enumerate().skip(at + 1) {
        needs[number] = call.inputs.iter().any(|&input| input >= at && needs[input]);
        if !needs[number] {
            return false;
        }
    }
    true
}
