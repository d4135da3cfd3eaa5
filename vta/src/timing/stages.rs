//! The stages, their queues and their tokens: the order and the times of instructions.

use std::collections::VecDeque;

use super::cycles;
use crate::error::StreamError;
use crate::isa::{Instruction, Operation, Stage};
use crate::profile::{Hardware, Timing};

/// Instructions that the queue of a stage holds. Source: the HLS description of VTA.
const QUEUE_DEPTH: usize = 512;

/// An instruction that ran.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Span {
    /// Its place in the stream.
    pub at: usize,
    /// When it began, cycles.
    pub begin: f64,
    /// When it ended, cycles.
    pub end: f64,
}

/// A stage: the instructions fetched for it, and its progress.
#[derive(Debug, Default)]
struct Lane {
    /// Index in the stream and time of the fetch, of waiting instructions.
    waiting: VecDeque<(usize, f64)>,
    /// Instructions that were fetched.
    fetched: usize,
    /// Start times of instructions that ran, except those whose place in the queue was reused.
    begun: VecDeque<f64>,
    free: f64,
}

/// Token queues by the stage that pops: from the stage before, from the stage after.
type Queues = [[VecDeque<f64>; 2]; 3];

const QUEUE_NAMES: [[&str; 2]; 3] = [
    ["none", "compute-to-load"],
    ["load-to-compute", "store-to-compute"],
    ["compute-to-store", "none"],
];

/// Runs a stream through the stages. `each` is called for every instruction in an order in which effects may happen; what it
/// returns as an error ends the run. Returns the cycles until all is done.
///
/// # Errors
/// Fails if tokens do not come, a token has no queue, there is no FINISH, or `each` fails.
pub fn run(
    stream: &[Instruction],
    timing: &Timing,
    hardware: &Hardware,
    mut each: impl FnMut(Span) -> Result<(), StreamError>,
) -> Result<f64, StreamError> {
    let has_finish = stream.iter().any(|i| i.operation == Operation::Finish);
    if !has_finish {
        return Err(StreamError::NoFinish {
            instructions: stream.len(),
        });
    }
    let mut lanes: [Lane; 3] = Default::default();
    let mut queues = Queues::default();
    let (mut fetched, mut fetch_time, mut end) = (0, 0.0_f64, 0.0_f64);
    loop {
        let before = (fetched, lanes.each_ref().map(|lane| lane.waiting.len()));
        while let Some(instruction) = stream.get(fetched) {
            let lane = &mut lanes[instruction.stage() as usize];
            if lane.waiting.len() == QUEUE_DEPTH {
                break;
            }
            fetch_time += timing.fetch;
            if lane.fetched >= QUEUE_DEPTH {
                // Its place in the queue was free when an earlier instruction began.
                fetch_time = fetch_time.max(lane.begun.pop_front().unwrap_or_default());
            }
            lane.waiting.push_back((fetched, fetch_time));
            lane.fetched += 1;
            fetched += 1;
        }
        for stage in Stage::ALL {
            while let Some(&(at, ready)) = lanes[stage as usize].waiting.front() {
                let instruction = &stream[at];
                let Some(token) = take_tokens(&mut queues, stage, instruction, at)? else {
                    break;
                };
                let lane = &mut lanes[stage as usize];
                lane.waiting.pop_front();
                let begin = lane.free.max(ready).max(token);
                let done = begin + cycles(timing, hardware, instruction);
                lane.free = done;
                lane.begun.push_back(begin);
                end = end.max(done);
                each(Span {
                    at,
                    begin,
                    end: done,
                })?;
                send_tokens(&mut queues, stage, instruction, at, done + timing.token)?;
            }
        }
        let after = (fetched, lanes.each_ref().map(|lane| lane.waiting.len()));
        if before == after {
            break;
        }
    }
    let stuck = Stage::ALL.into_iter().filter_map(|stage| {
        let at = lanes[stage as usize].waiting.front()?.0;
        Some((stage, at))
    });
    match stuck.min_by_key(|(_, at)| *at) {
        None => Ok(end),
        Some((stage, at)) => {
            let own = &queues[stage as usize];
            let tokens = stream[at].tokens;
            let side = usize::from(!(tokens.pop_prev && own[0].is_empty()));
            Err(StreamError::Deadlock {
                stage,
                at,
                queue: QUEUE_NAMES[stage as usize][side],
            })
        }
    }
}

/// The time when the tokens of an instruction were available. `None` if one is still missing.
fn take_tokens(
    queues: &mut Queues,
    stage: Stage,
    instruction: &Instruction,
    at: usize,
) -> Result<Option<f64>, StreamError> {
    let own = &mut queues[stage as usize];
    let wanted = [instruction.tokens.pop_prev, instruction.tokens.pop_next];
    for (side, wanted) in wanted.into_iter().enumerate() {
        if wanted && QUEUE_NAMES[stage as usize][side] == "none" {
            return Err(no_neighbour(stage, at, side));
        }
        if wanted && own[side].is_empty() {
            return Ok(None);
        }
    }
    let mut time = 0.0_f64;
    for (queue, wanted) in own.iter_mut().zip(wanted) {
        if wanted {
            time = time.max(queue.pop_front().unwrap_or_default());
        }
    }
    Ok(Some(time))
}

fn send_tokens(
    queues: &mut Queues,
    stage: Stage,
    instruction: &Instruction,
    at: usize,
    time: f64,
) -> Result<(), StreamError> {
    let place = stage as usize;
    if instruction.tokens.push_prev {
        match place.checked_sub(1) {
            Some(before) => queues[before][1].push_back(time),
            None => return Err(no_neighbour(stage, at, 0)),
        }
    }
    if instruction.tokens.push_next {
        match queues.get_mut(place + 1) {
            Some(after) => after[0].push_back(time),
            None => return Err(no_neighbour(stage, at, 1)),
        }
    }
    Ok(())
}

fn no_neighbour(stage: Stage, at: usize, side: usize) -> StreamError {
    StreamError::Illegal {
        at,
        what: format!(
            "the {stage} stage has no stage {} it",
            ["before", "after"][side]
        ),
    }
}
