//! `oppredict batch`: questions as JSON lines, answers as JSON lines, without a server.

use std::fs::File;
use std::io::{BufRead, BufReader};

use anyhow::Context;
use opreport::output::Stream;

use super::args::BatchArgs;
use super::model_path;
use crate::query::answer::Detail;
use crate::query::batch::{Reply, replies};
use crate::query::whatif::WhatIf;

/// Questions that are answered together.
const TOGETHER: usize = 4096;
/// What stands for standard input.
const STDIN: &str = "-";

/// Answers every line of a file.
pub fn run(args: &BatchArgs) -> anyhow::Result<()> {
    let trained = model_path::load(args.model.as_deref())?;
    let detail = if args.explain {
        Detail::Full
    } else {
        Detail::Short
    };
    let name = args.questions.display();
    let input: Box<dyn BufRead> = if args.questions.as_os_str() == STDIN {
        Box::new(std::io::stdin().lock())
    } else {
        let file = File::open(&args.questions).with_context(|| format!("cannot read {name}"))?;
        Box::new(BufReader::new(file))
    };
    let mut lines = input.lines().enumerate();
    let mut out = Stream::stdout();
    let (mut asked, mut refused) = (0, 0);
    loop {
        let mut questions = Vec::new();
        for (place, line) in lines.by_ref() {
            let line = line.with_context(|| format!("cannot read {name}"))?;
            if line.trim().is_empty() {
                continue;
            }
            let question = serde_json::from_str::<WhatIf>(&line);
            questions.push(question.map_err(|error| format!("line {}: {error}", place + 1)));
            if questions.len() == TOGETHER {
                break;
            }
        }
        if questions.is_empty() {
            break;
        }
        for reply in replies(&trained, questions, detail) {
            asked += 1;
            refused += usize::from(matches!(reply, Reply::Refused { .. }));
            out.write((serde_json::to_string(&reply)? + "\n").as_bytes())?;
        }
    }
    out.finish()?;
    if asked == 0 {
        anyhow::bail!("{name} has no question; write one JSON object a line, such as {EXAMPLE}");
    }
    if refused > 0 {
        anyhow::bail!("{refused} of {asked} questions have no answer; their lines say why");
    }
    Ok(())
}

const EXAMPLE: &str = r#"{"op": "conv2d", "input": [1, 64, 56, 56], "kernel": [3, 3], "channels": 64, "threads": [1, 2]}"#;
