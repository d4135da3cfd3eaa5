//! Text, JSON and HTML for everything that the program shows; made here and nowhere else.
//!
//! There is one file for each thing shown. Each function takes plain data and a [`Style`](opreport::style::Style) and
//! returns a `String`, so that tests compare whole screens. [`app`](crate::app) prints.

mod candidates;
mod compare;
mod compiled;
mod config;
mod counters;
mod doctor;
mod frameworks;
mod knobs;
mod libtorch;
mod lists;
mod merge;
mod nightly;
mod patterns;
mod plan;
mod profile;
mod ranking;
mod replay;
mod run_json;
mod run_page;
mod run_text;
mod runs;
mod side_by_side;
mod store;
mod swept;
#[cfg(test)]
pub(crate) mod testing;
mod tuned;

pub use candidates::candidates_text;
pub use compare::{compare_markdown, compare_text};
pub use config::settings_text;
pub use doctor::{Diagnosis, diagnosis_json, diagnosis_text};
pub use frameworks::{frameworks_csv, frameworks_json, frameworks_text};
pub use libtorch::{torch_csv, torch_json, torch_text};
pub use lists::Listing;
pub use merge::merge_text;
pub use nightly::{
    nightly_html, nightly_json, nightly_markdown, nightly_plan_text, nightly_summary,
};
pub use plan::{plan_json, plan_text};
pub use profile::{profile_csv, profile_json, profile_text};
pub use ranking::{ranking_markdown, ranking_text};
pub use replay::{replay_json, replay_text};
pub use run_json::run_json;
pub use run_page::{report_html, report_json, report_markdown};
pub use run_text::run_text;
pub use side_by_side::{
    cotune_json, cotune_text, graph_json, graph_text, pair_replay_json, pair_replay_text,
    pairs_text,
};
pub use store::{applied_json, applied_text, best_text};
