//! Many questions at once, as JSON: what `oppredict batch` and `POST /v1/batch` answer.
//!
//! A question is a [`WhatIf`]; its reply `{"lines": […]}` or, where it has none, `{"error": "…"}`. One that makes no sense
//! does not keep the others from their answers.

use rayon::prelude::*;
use serde::Serialize;

use super::answer::Detail;
use super::whatif::{Line, WhatIf};
use crate::model::trained::Trained;

/// Combinations of threads and batch sizes in one question at most.
pub const MOST_LINES: usize = 256;

/// The answer to one question.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Reply {
    /// A line for each combination of threads and batch sizes.
    Answer {
        /// The lines.
        lines: Vec<Line>,
    },
    /// There is none.
    Refused {
        /// What is wrong with the question.
        error: String,
    },
}

/// The reply to one question, which is [`Reply::Refused`] already if it could not be read.
pub fn reply(trained: &Trained, question: Result<WhatIf, String>, detail: Detail) -> Reply {
    let answered = question.and_then(|question| {
        if question.lines() > MOST_LINES {
            return Err(format!(
                "more than {MOST_LINES} combinations of threads and batch sizes"
            ));
        }
        question.ask(trained, detail).map_err(|e| e.to_string())
    });
    match answered {
        Ok(lines) => Reply::Answer { lines },
        Err(error) => Reply::Refused { error },
    }
}

/// The replies to many questions, in their order, worked out on all cores.
pub fn replies(
    trained: &Trained,
    questions: Vec<Result<WhatIf, String>>,
    detail: Detail,
) -> Vec<Reply> {
    questions
        .into_par_iter()
        .map(|question| reply(trained, question, detail))
        .collect()
}
