//! Flags of `opcollect nightly`: syntax only, turned into a plain request.

use std::path::PathBuf;

use clap::Args;
use clap::error::ErrorKind;
use opdata::Timestamp;

use super::args::command;
use crate::nightly::NightlyRequest;
use crate::nightly::history::is_date;

/// `opcollect nightly`; its configuration is the file of `--config`.
#[derive(Debug, Args)]
pub struct NightlyArgs {
    /// Date of the nightly run, as 2026-11-20 [default: today, UTC]; an interrupted run is resumed
    #[arg(long, value_name = "DATE", value_parser = date)]
    pub date: Option<String>,
    /// Print the jobs, their shares of the time and what would be removed, and stop
    #[arg(long)]
    pub dry_run: bool,
}

fn date(text: &str) -> Result<String, String> {
    if is_date(text) {
        Ok(text.to_owned())
    } else {
        Err("give a date as 2026-11-20".to_owned())
    }
}

impl NightlyArgs {
    /// The request that the arguments make; `config` is the file of `--config`.
    ///
    /// # Errors
    /// Fails if there is no file of this name.
    pub fn request(
        self,
        config: Option<PathBuf>,
        now: Timestamp,
    ) -> Result<NightlyRequest, clap::Error> {
        let Some(config) = config else {
            let message =
                "which night? give its configuration, such as --config configs/nightly.toml";
            return Err(command().error(ErrorKind::MissingRequiredArgument, message));
        };
        Ok(NightlyRequest {
            config,
            // The first ten characters of a time are its date.
            date: self
                .date
                .unwrap_or_else(|| now.to_string()[..10].to_owned()),
            dry_run: self.dry_run,
        })
    }
}
