//! The output of both programs, `opcollect` and `oppredict`, for people and scripts.
//!
//! Owns the forms: units ([`units`]), text tables ([`table`]), colour and width ([`style`]), progress ([`progress`]).
//! Standard output survives a closed pipe ([`output`]), and text is free of control characters ([`safe`]). It also owns
//! exit codes ([`exit`]), pictures ([`svg`]), charts of pages ([`chart`]), flame graphs ([`flame`]), HTML ([`html`])
//! and pages of sections ([`page`]). Traces ([`trace`]) and suggestions for mistyped names ([`nearest`]) are here too.
//! It knows nothing of runs, operators or predictions: callers hand it plain text and numbers.

pub mod chart;
pub mod exit;
pub mod flame;
pub mod html;
pub mod nearest;
pub mod output;
pub mod page;
pub mod progress;
pub mod safe;
pub mod style;
pub mod svg;
pub mod table;
pub mod trace;
pub mod units;

pub use exit::{Exit, Misuse};
pub use output::{OutputFormat, Verbosity, View};
pub use progress::Progress;
pub use style::{Colour, Style};
pub use table::{Align, Cell, Column, Table};
