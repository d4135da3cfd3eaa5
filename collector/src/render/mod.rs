//! Everything a person or a script reads from this program, made into text here and nowhere else.
//!
//! One file a thing shown; each function takes plain data and a [`Style`] and returns a `String`,
//! so that tests compare whole screens and the binary's `main` is the only place that prints.

mod candidates;
mod compare;
mod config;
mod doctor;
mod lists;
mod merge;
mod night;
mod plan;
mod replay;
mod run_json;
mod run_text;
mod swept;
#[cfg(test)]
pub(crate) mod testing;

pub use candidates::{candidates_json, candidates_text};
pub use compare::{compare_json, compare_text};
pub use config::{settings_json, settings_text};
pub use doctor::{Diagnosis, diagnosis_json, diagnosis_text};
pub use lists::Listing;
pub use merge::{merge_json, merge_text};
pub use night::{night_files, night_json, night_markdown, night_plan_json, night_plan_text};
pub use plan::{plan_json, plan_text};
pub use replay::{replay_json, replay_text};
pub use run_json::run_json;
pub use run_text::run_text;
