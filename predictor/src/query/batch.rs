//! Many queries at once, as JSON: what `oppredict batch` and `POST /v1/batch` answer.
//!
//! A query is a [`WhatIf`]; its reply `{"lines": […]}` or, where it has none, `{"error": "…"}`. An invalid query does
//! not affect the answers to the others.

use rayon::prelude::*;
use serde::Serialize;

use super::answer::Detail;
use super::whatif::{Line, WhatIf};
use crate::model::trained::Trained;

/// Maximum size of one query, bytes.
pub const MAX_QUERY_BYTES: usize = 64 << 10;
/// Maximum number of combinations of threads and batch sizes in one query.
pub const MAX_LINES: usize = 256;

/// The answer to one query.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Reply {
    /// A line for each combination of threads and batch sizes.
    Answer {
        /// The lines.
        lines: Vec<Line>,
    },
    /// The query cannot be answered.
    Refused {
        /// The fault of the query.
        error: String,
    },
}

/// The reply to one query, which is [`Reply::Refused`] already if it could not be read.
pub fn reply(trained: &Trained, query: Result<WhatIf, String>, detail: Detail) -> Reply {
    let answered = query.and_then(|query| {
        if query.lines() > MAX_LINES {
            return Err(format!(
                "more than {MAX_LINES} combinations of threads and batch sizes"
            ));
        }
        query.ask(trained, detail).map_err(|e| e.to_string())
    });
    match answered {
        Ok(lines) => Reply::Answer { lines },
        Err(error) => Reply::Refused { error },
    }
}

/// The replies to many queries, in their order, worked out on all cores.
pub fn replies(
    trained: &Trained,
    queries: Vec<Result<WhatIf, String>>,
    detail: Detail,
) -> Vec<Reply> {
    queries
        .into_par_iter()
        .map(|query| reply(trained, query, detail))
        .collect()
}
