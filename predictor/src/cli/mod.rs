//! The command line: arguments → plain options → library → renderers. Data goes to stdout, talk to stderr.

mod args;
mod eval;
mod render;

use std::process::ExitCode;

use clap::Parser;

use args::{Args, Command};

/// Exit code of a failure.
const FAILED: u8 = 1;

/// Runs the program.
pub fn main() -> ExitCode {
    let args = Args::parse();
    let result = match args.command {
        Command::Eval(arguments) => eval::run(&arguments),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::from(FAILED)
        }
    }
}
