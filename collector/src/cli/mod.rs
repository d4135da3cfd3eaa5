//! The command line: arguments in, one [`Invocation`] out.
//!
//! Owns the flags ([`args`]), completions and the man page. It turns syntax into plain requests and validated plans, and
//! does no work itself. Flags that a command uses as they are given are declared in its request. Flags that are also
//! settings reach the plan through `config`, so that all layers are read by the same parser.
// The comment on a flag is its help text, in which `<time>` and `[:dtype]` are not markup.
#![allow(rustdoc::broken_intra_doc_links, rustdoc::invalid_html_tags)]

pub mod args;
pub mod compare;
mod docs;
mod error;
mod invocation;
mod libtorch;
pub mod model;
pub mod nightly;
pub mod profile;
pub mod serve;
pub mod side_by_side;
pub mod store;
mod suggest;
pub mod tpu;
pub mod vta;

pub use docs::{completions, man_page};
pub use error::CliError;
pub use invocation::{Action, Invocation, ListRequest, Process, parse};
