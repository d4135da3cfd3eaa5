//! Results on standard output, as text or JSON.

use opreport::{Style, output};
use serde::Serialize;

/// Columns of text that is not for a terminal. Tables cut names and shapes that would take more; JSON has all of them.
const WIDTH: usize = 130;

/// Prints an object as JSON, or its text.
pub fn show(
    json: bool,
    object: &impl Serialize,
    text: impl FnOnce(Style) -> String,
) -> anyhow::Result<()> {
    let data = if json {
        serde_json::to_string_pretty(object)? + "\n"
    } else {
        let style = Style::for_stdout();
        text(Style {
            width: style.width.or(Some(WIDTH)),
            ..style
        })
    };
    Ok(output::print(data.as_bytes())?)
}
