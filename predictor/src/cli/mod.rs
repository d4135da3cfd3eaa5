//! The command line: arguments → plain options → library → renderers. Data goes to stdout, messages to stderr.

mod adapt;
mod args;
mod batch;
mod correlate;
mod costs;
mod docs;
mod eval;
mod model_path;
mod parse;
mod place;
mod plots;
mod predict;
mod query;
mod schedule;
mod serve;
mod show;
mod source;
mod suggest;
mod train;
mod turning;
mod watch;

use std::process::ExitCode;

use args::{Args, Command};
use clap::Parser;
use opdata::DeviceKind;
use opmodels::ImportError;
use opreport::output::{self, StreamError, complain};
use opreport::{Exit, Misuse};

use crate::error::Error;
use crate::render;

/// Runs the program.
pub fn main() -> ExitCode {
    output::limit_file_sizes_by_errors();
    let end = match Args::try_parse() {
        Ok(args) => end_of(run(args.command)),
        Err(error) => syntax(&error),
    };
    end.into()
}

/// The exit code of a command line that asks for help or the version, or that cannot be parsed.
fn syntax(error: &clap::Error) -> Exit {
    match output::printed(error.print()) {
        Ok(()) if error.use_stderr() => Exit::Usage,
        Ok(()) => Exit::Done,
        Err(error) => end_of(Err(error.into())),
    }
}

/// Prints the error, if there is one, and returns the exit code.
fn end_of(result: anyhow::Result<()>) -> Exit {
    match result {
        Ok(()) => Exit::Done,
        Err(error) if matches!(error.downcast_ref(), Some(StreamError::ReaderGone)) => Exit::Done,
        Err(error) => {
            complain(&chain(&error));
            if is_misuse(&error) {
                Exit::Usage
            } else {
                Exit::Failed
            }
        }
    }
}

/// Whether the command line asks for something that does not exist or makes no sense.
fn is_misuse(error: &anyhow::Error) -> bool {
    let import = error.downcast_ref::<ImportError>();
    error.is::<Misuse>()
        || matches!(error.downcast_ref(), Some(Error::Query(_)))
        || matches!(error.downcast_ref(), Some(opdata::Error::NoSuchRun { .. }))
        || import.is_some_and(ImportError::is_usage)
}

/// Runs a command.
fn run(command: Command) -> anyhow::Result<()> {
    match command {
        Command::Eval(arguments) => eval::run(&arguments),
        Command::Train(arguments) => train::run(&arguments),
        Command::Query(arguments) => query::run(&arguments),
        Command::Predict(arguments) => predict::run(&arguments),
        Command::Correlate(arguments) => correlate::run(&arguments),
        Command::Batch(arguments) => batch::run(&arguments),
        Command::Place(arguments) => place::run(&arguments),
        Command::Schedule(arguments) => schedule::run(&arguments),
        Command::Serve(arguments) => serve::run(&arguments),
        Command::Adapt(arguments) => adapt::run(&arguments),
        Command::Suggest(arguments) => suggest::run(&arguments),
        Command::Turning(arguments) => turning::run(&arguments),
        Command::Features => Ok(output::print(
            render::train::features_markdown().as_bytes(),
        )?),
        Command::Completions { shell } => Ok(output::print(&docs::completions(shell))?),
        Command::Man => Ok(output::print(&docs::man_page()?)?),
    }
}

/// The messages of an error and its causes, without those that an earlier message contains.
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
    let named = DeviceKind::of_target(target).or_else(|| target.parse().ok());
    if named != Some(device) {
        anyhow::bail!(
            "--target {target}: the model predicts for {device}; name another model with --model, or train one for that target"
        );
    }
    Ok(())
}
