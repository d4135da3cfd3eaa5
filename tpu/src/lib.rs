//! Sophgo TPU profile dumps: parsing, matching, analysis and exports.
//!
//! A dump is a folder `cdm_profile_data_dev{D}-{C}` that Sophgo's runtimes write: PMU records of each engine of each
//! core, and facts about the commands. [`mod@ingest`] reads one into a [`Profile`]: [`input`] owns bytes, [`matching`]
//! order and commands, [`view`] meaning. [`analysis`] draws conclusions, [`export`] writes files. Every profile has an
//! account of lost and guessed data ([`report::Report`]). This crate has neither TVM nor the command line.

mod align;
pub mod analysis;
pub mod chip;
pub mod diff;
pub mod error;
pub mod export;
mod ingest;
pub mod input;
pub mod job;
pub mod matching;
pub mod profile;
pub mod record;
pub mod report;
mod staged;
pub mod view;

pub use error::{Error, Result};
pub use ingest::{Clocks, IngestOptions, Strictness, Window, ingest};
pub use profile::Profile;
