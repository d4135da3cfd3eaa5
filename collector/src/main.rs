//! The `opcollect` program: hands the process's arguments and environment to the library and ends with its exit code.

use std::process::ExitCode;

use opcollect::app;
use opcollect::cli::{self, Process};
use opcollect::plan::HostFacts;
use opengine::env::{Cores, Root};
use opinstall::Home;
use opreport::Exit;
use opreport::output::{complain, limit_file_sizes_by_errors, printed};

fn main() -> ExitCode {
    limit_file_sizes_by_errors();
    let process = Process {
        args: std::env::args_os().collect(),
        environment: std::env::vars_os().collect(),
        host: HostFacts {
            cores: Cores::read(&Root::system()).usable(),
            now: opdata::Timestamp::now(),
        },
        // Without an installation, no sweep is found, and only actions that need one fail.
        sweeps: Home::find().map_or_else(|_| "configs/sweeps".into(), |home| home.sweeps()),
    };
    let exit = match cli::parse(process) {
        Ok(invocation) => app::perform(invocation).unwrap_or_else(|error| error.complain()),
        Err(cli::CliError::Syntax(error)) => {
            // Help and versions are printed by the parser, too.
            match printed(error.print()) {
                Ok(()) => cli::CliError::Syntax(error).exit(),
                Err(error) => {
                    complain(&error.to_string());
                    Exit::Failed
                }
            }
        }
        Err(error) => {
            complain(&error.to_string());
            error.exit()
        }
    };
    exit.into()
}
