//! Plans and runs measurements of a model's operators through TVM, and reports, compares and merges the results: all of the
//! `opcollect` program but its `main`.
//!
//! [`cli`] and [`config`] turn arguments, variables and files into requests and a [`plan`]; [`run`] measures by `opengine`;
//! [`sweep`] says which schedules; [`frameworks`] runs a model by others beside TVM; [`side_by_side`] measures operators at the
//! same time and runs models by a schedule; [`nightly`], [`compare`], [`merge`] and
//! [`doctor`] are the other commands; [`render`] makes text of their results, and [`app`] calls them all and prints.

pub mod app;
pub mod apply;
pub mod cli;
pub mod compare;
pub mod config;
pub mod doctor;
pub mod frameworks;
pub mod merge;
pub mod nightly;
pub mod operator_ir;
pub mod patterns;
pub mod plan;
pub mod preview;
pub mod profile;
pub mod propose;
pub mod render;
pub mod replay;
pub mod report;
pub mod run;
pub mod run_list;
pub mod run_report;
pub mod side_by_side;
pub mod store;
pub mod sweep;
pub mod tuners;
