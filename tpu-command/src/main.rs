//! The program behind `opcollect tpu`, with the same arguments. It is built when it is first used: nothing else needs to
//! read dumps.

use std::process::ExitCode;

use clap::Parser as _;
use opcollect::app::AppError;
use opcollect::cli::args::{Cli, Command};
use opreport::Exit;
use opreport::output::{complain, limit_file_sizes_by_errors};

mod diff;
mod read;
mod request;
mod tables;

fn main() -> ExitCode {
    limit_file_sizes_by_errors();
    let cli = Cli::parse();
    let Some(Command::Tpu(args)) = cli.command else {
        complain("this program serves `opcollect tpu` alone; run opcollect");
        return Exit::Usage.into();
    };
    let exit = read::perform(request::request(*args), cli.view.view());
    exit.map_err(AppError::from)
        .unwrap_or_else(|error| error.complain())
        .into()
}
