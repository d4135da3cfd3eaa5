//! The command line: arguments → plain options → library → renderers. Data goes to stdout, talk to stderr.

mod adapt;
mod args;
mod batch;
mod correlate;
mod eval;
mod model_path;
mod parse;
mod plots;
mod predict;
mod query;
mod render;
mod render_suggest;
mod serve;
mod suggest;
mod surfaces;
mod train;
mod turning;

use std::process::ExitCode;

use args::{Args, Command};
use clap::Parser;
use opdata::DeviceKind;

/// Exit code of a failure.
const FAILED: u8 = 1;

/// Runs the program.
pub fn main() -> ExitCode {
    let args = Args::parse();
    let result = match args.command {
        Command::Eval(arguments) => eval::run(&arguments),
        Command::Train(arguments) => train::run(&arguments),
        Command::Query(arguments) => query::run(&arguments),
        Command::Predict(arguments) => predict::run(&arguments),
        Command::Correlate(arguments) => correlate::run(&arguments),
        Command::Batch(arguments) => batch::run(&arguments),
        Command::Serve(arguments) => serve::run(&arguments),
        Command::Adapt(arguments) => adapt::run(&arguments),
        Command::Suggest(arguments) => suggest::run(&arguments),
        Command::Turning(arguments) => turning::run(&arguments),
        Command::Features => {
            print!("{}", render::features_markdown());
            Ok(())
        }
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {}", chain(&error));
            ExitCode::from(FAILED)
        }
    }
}

/// The messages of an error and its causes, without those that the one before tells already.
fn chain(error: &anyhow::Error) -> String {
    let mut text = String::new();
    for cause in error.chain() {
        let message = cause.to_string();
        if text.is_empty() {
            text = message;
        } else if !text.contains(&message) {
            text.push_str(": ");
            text.push_str(&message);
        }
    }
    text
}

/// Refuses a target that is not the model's.
fn check_target(target: Option<&str>, device: DeviceKind) -> anyhow::Result<()> {
    let Some(target) = target else { return Ok(()) };
    let kind = target.split_whitespace().next().unwrap_or_default();
    let fits = match device {
        DeviceKind::Cpu => matches!(kind, "llvm" | "c" | "cpu"),
        DeviceKind::Cuda => kind == "cuda",
        other => kind == other.as_str(),
    };
    if !fits {
        anyhow::bail!(
            "--target {target}: the model predicts for {device}; name another model with --model, or train one for that target"
        );
    }
    Ok(())
}
