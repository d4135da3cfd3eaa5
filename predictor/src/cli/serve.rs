//! `oppredict serve`.

use std::io::Write;

use anyhow::Context;

use super::args::ServeArgs;
use super::model_path;
use crate::serve;

/// Serves until told to end; prints the address once it listens.
pub fn run(args: &ServeArgs) -> anyhow::Result<()> {
    let trained = model_path::load(args.model.as_deref())?;
    if !args.listen.ip().is_loopback() {
        eprintln!(
            "listening on {}: everyone who reaches this machine can ask; there is no password",
            args.listen
        );
    }
    serve::serve(trained, args.listen, |address| {
        println!("http://{address}/");
        // Whoever waits for the line reads a pipe; if nobody does, serving goes on.
        let _ = std::io::stdout().flush();
    })
    .with_context(|| format!("cannot serve on {}", args.listen))
}
