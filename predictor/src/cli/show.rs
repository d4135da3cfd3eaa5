//! Results on standard output, as text or JSON.

use opreport::{Style, output};
use serde::Serialize;

/// Prints an object as JSON, or its text.
pub fn show(
    json: bool,
    object: &impl Serialize,
    text: impl FnOnce(Style) -> String,
) -> anyhow::Result<()> {
    let data = if json {
        serde_json::to_string_pretty(object)? + "\n"
    } else {
        text(Style::for_stdout())
    };
    Ok(output::print(data.as_bytes())?)
}
