//! Writes `SCHEMA.md` from the column table.

use std::fmt::Write;

use opdata::schema::{COLUMNS, Column, ColumnType, Group, Presence, SCHEMA_VERSION};
use opdata::{CacheState, DeviceKind, Quality, Status};

const PATH: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/SCHEMA.md");

fn main() -> std::io::Result<()> {
    std::fs::write(PATH, schema_markdown())
}

/// The schema as a Markdown document.
fn schema_markdown() -> String {
    let mut text = format!(
        "# Schema of the dataset, version {SCHEMA_VERSION}\n\
         \n\
         <!-- Made by `cargo run -p opdata --example schema_md`; change src/schema/columns.rs \
         instead. -->\n\
         \n\
         One row is one point: an operator with one schedule on one target, measured or with the \
         reason why not.\n\
         The {} columns are the same, in the same order, in `rows.csv` and `rows.parquet`; JSON \
         lines use the names as keys.\n\
         \n\
         - Missing is an empty CSV field, a Parquet null, an absent JSON key: never 0, never \
         empty text. Columns marked * are never missing.\n\
         - integer: unsigned, 64 bits (Parquet INT64, unsigned). float: finite, 64 bits (DOUBLE), \
         with enough digits to read the same bits back. All others are\n\
         \x20 UTF-8 text.\n\
         - dims: extents joined with `x`, `scalar` if there are none (`3x3`). shapes: dims \
         joined with `;` (`1x64x56x56;64`). time: UTC, `2026-01-31T12:00:00.000Z`.\n\
         - loops: `name:extent:kind` joined with `,`, kind `s` (spatial) or `r` (reduction). \
         json: one JSON value as text.\n\
         - Units are those of the table; measured times are for one run of the kernel, not for a sample.\n",
        COLUMNS.len()
    );
    let mut group = None;
    for column in COLUMNS {
        if group != Some(column.group) {
            group = Some(column.group);
            let title = title(column.group);
            text.push_str(&format!(
                "\n## {title}\n\n| column | type | unit | meaning |\n| --- | --- | --- | --- |\n"
            ));
        }
        push_column(&mut text, column);
    }
    push_words(
        &mut text,
        "status",
        Status::ALL.iter().map(|w| (w.as_str(), w.meaning())),
    );
    push_words(
        &mut text,
        "cache_state",
        CacheState::ALL.iter().map(|w| (w.as_str(), w.meaning())),
    );
    push_words(
        &mut text,
        "quality",
        Quality::ALL.iter().map(|w| (w.as_str(), w.meaning())),
    );
    push_words(
        &mut text,
        "device_kind",
        DeviceKind::DOCUMENTED
            .iter()
            .map(|(kind, meaning)| (kind.as_str(), *meaning)),
    );
    text
}

fn push_column(text: &mut String, column: &Column) {
    let mark = match column.presence {
        Presence::Required => "*",
        Presence::Optional => "",
    };
    let Column {
        name, unit, doc, ..
    } = column;
    // Writing to a String does not fail.
    let _ = writeln!(
        text,
        "| `{name}`{mark} | {} | {unit} | {doc} |",
        type_name(column.ty)
    );
}

fn push_words(
    text: &mut String,
    column: &str,
    words: impl Iterator<Item = (&'static str, &'static str)>,
) {
    let _ = write!(
        text,
        "\n## Words of `{column}`\n\n| word | meaning |\n| --- | --- |\n"
    );
    for (word, meaning) in words {
        let _ = writeln!(text, "| `{word}` | {meaning} |");
    }
}

fn type_name(ty: ColumnType) -> &'static str {
    match ty {
        ColumnType::Integer => "integer",
        ColumnType::Float => "float",
        ColumnType::Text => "text",
        ColumnType::Word(_) => "word",
        ColumnType::Json => "json",
        ColumnType::Dims => "dims",
        ColumnType::Shapes => "shapes",
        ColumnType::LoopNest => "loops",
        ColumnType::Timestamp => "time",
    }
}

fn title(group: Group) -> &'static str {
    match group {
        Group::Identity => "Identity",
        Group::Model => "Model",
        Group::Operator => "Operator",
        Group::Target => "Target",
        Group::Schedule => "Schedule",
        Group::Measurement => "Measurement",
        Group::Build => "Build stages",
        Group::Counters => "Counters and energy",
        Group::Provenance => "Provenance",
        Group::Resources => "Device kernels, as their compiler says, and the state of their device",
        Group::Simulation => "What a simulator says, where nothing was measured",
        Group::Remote => "Which other machine it was measured on",
        Group::Algorithm => "Which algorithm computed it",
        Group::Counts => "Counts with a fixed meaning, for one run",
        Group::Roofline => "Shares of the calibrated roofs, for as many threads",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_committed_schema_is_current() {
        let committed = std::fs::read_to_string(PATH).unwrap_or_default();
        assert!(
            committed == schema_markdown(),
            "SCHEMA.md is stale: run `cargo run -p opdata --example schema_md`"
        );
    }
}
