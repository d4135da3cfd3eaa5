//! `oppredict batch`: queries as JSON lines, answers as JSON lines, without a server.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};

use anyhow::Context;
use opreport::output::Stream;

use super::args::BatchArgs;
use super::model_path;
use crate::query::answer::Detail;
use crate::query::batch::{MAX_QUERY_BYTES, Reply, replies};
use crate::query::whatif::WhatIf;

/// Queries that are answered together.
const TOGETHER: usize = 4096;
/// The path that means standard input.
const STDIN: &str = "-";

/// Answers every line of a file.
pub fn run(args: &BatchArgs) -> anyhow::Result<()> {
    let trained = model_path::load(args.model.as_deref())?;
    let detail = Detail::of(args.explain);
    let name = args.queries.display();
    let input: Box<dyn BufRead> = if args.queries.as_os_str() == STDIN {
        Box::new(std::io::stdin().lock())
    } else {
        let file =
            File::open(&args.queries).map_err(|e| opdata::Error::io("read", &args.queries, e))?;
        Box::new(BufReader::new(file))
    };
    let mut lines = Lines::new(input).enumerate();
    let mut out = Stream::stdout();
    let (mut asked, mut refused) = (0, 0);
    loop {
        let mut queries = Vec::new();
        for (place, line) in lines.by_ref() {
            let line = line.with_context(|| format!("cannot read {name}"))?;
            if line.trim().is_empty() {
                continue;
            }
            let query = serde_json::from_str::<WhatIf>(&line);
            queries.push(query.map_err(|error| format!("line {}: {error}", place + 1)));
            if queries.len() == TOGETHER {
                break;
            }
        }
        if queries.is_empty() {
            break;
        }
        for reply in replies(&trained, queries, detail) {
            asked += 1;
            refused += usize::from(matches!(reply, Reply::Refused { .. }));
            out.write((serde_json::to_string(&reply)? + "\n").as_bytes())?;
        }
    }
    out.finish()?;
    if asked == 0 {
        anyhow::bail!("{name} has no query; write one JSON object a line, such as {EXAMPLE}");
    }
    if refused > 0 {
        anyhow::bail!("{refused} of {asked} queries have no answer; their lines say why");
    }
    Ok(())
}

/// The lines of a file, each of at most [`MAX_QUERY_BYTES`], so that a file without line ends does not fill the memory.
struct Lines<R>(R);

impl<R: BufRead> Lines<R> {
    fn new(input: R) -> Self {
        Self(input)
    }
}

impl<R: BufRead> Iterator for Lines<R> {
    type Item = std::io::Result<String>;

    fn next(&mut self) -> Option<Self::Item> {
        let mut line = Vec::new();
        let most = MAX_QUERY_BYTES as u64;
        match self.0.by_ref().take(most + 1).read_until(b'\n', &mut line) {
            Err(error) => Some(Err(error)),
            Ok(0) => None,
            Ok(read) if read as u64 > most => Some(Err(std::io::Error::new(
                std::io::ErrorKind::InvalidData,
                format!("a line has more than {most} bytes, the most that a query may have"),
            ))),
            Ok(_) => Some(String::from_utf8(line).map_err(|_| {
                std::io::Error::new(std::io::ErrorKind::InvalidData, "a line is not UTF-8")
            })),
        }
    }
}

const EXAMPLE: &str = r#"{"op": "conv2d", "input": [1, 64, 56, 56], "kernel": [3, 3], "channels": 64, "threads": [1, 2]}"#;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_without_an_end_is_refused_and_others_are_read() {
        let read: Vec<_> = Lines::new(&b"one\ntwo"[..])
            .collect::<Result<_, _>>()
            .unwrap();
        assert_eq!(read, ["one\n", "two"]);
        let endless = Lines::new(BufReader::new(std::io::repeat(0)))
            .next()
            .unwrap();
        assert!(
            endless
                .unwrap_err()
                .to_string()
                .contains("more than 65536 bytes")
        );
    }
}
