//! Flags of `opcollect report`.

use std::path::PathBuf;

use clap::{Args, ValueHint};

use crate::run_report::ReportRequest;

/// `opcollect report`.
#[derive(Debug, Args)]
pub struct ReportArgs {
    /// A run: its folder, its name, or `latest`
    #[arg(value_name = "RUN", value_hint = ValueHint::DirPath)]
    pub run: PathBuf,
    /// A later run, to say what changed
    #[arg(value_name = "RUN2", value_hint = ValueHint::DirPath)]
    pub later: Option<PathBuf>,
    /// Directory of report.html and report.md [default: that of the run, the later one of two]
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub out: Option<PathBuf>,
}

impl ReportArgs {
    /// The request that the arguments make.
    pub fn request(self) -> ReportRequest {
        ReportRequest {
            run: self.run,
            later: self.later,
            out: self.out,
        }
    }
}
