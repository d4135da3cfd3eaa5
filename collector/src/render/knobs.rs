//! `list tuners` and `list knobs`.

use opengine::schedule::Dimension;
use opreport::table::{Column, Table};
use opreport::{Style, units};
use serde_json::{Value, json};

use crate::preview::OperatorKnobs;
use crate::tuners::TUNERS;

/// The tuners as a table.
pub(super) fn tuners_table() -> Table {
    let mut table = Table::new(&[
        Column::left("tuner"),
        Column::left("other names").hides(0),
        Column::left("about").shrinks_to(30),
    ]);
    for kind in TUNERS {
        table.row([
            kind.name.into(),
            kind.aliases.join(", ").into(),
            kind.about.into(),
        ]);
    }
    table
}

/// Values of a knob that are listed in text.
const SHOWN: usize = 12;

/// The knobs of each operator.
pub(super) fn knobs_text(operators: &[OperatorKnobs], style: Style) -> String {
    let mut out = String::new();
    for operator in operators {
        out.push_str(&format!(
            "{} ({}): template {}, {} combinations\n",
            style.bold(&operator.name),
            operator.symbol,
            operator.space.base.template,
            units::count(operator.space.size()),
        ));
        for dimension in &operator.space.dimensions {
            out.push_str(&format!(
                "    {:<24} {}\n",
                dimension.name(),
                choices(dimension)
            ));
        }
    }
    out
}

fn choices(dimension: &Dimension) -> String {
    let values: Vec<String> = dimension.values.iter().map(ToString::to_string).collect();
    match values.len() {
        all if all > SHOWN => format!("{}, … ({all} choices)", values[..SHOWN].join(" | ")),
        _ => values.join(" | "),
    }
}

/// The knobs as JSON.
pub(super) fn knobs_json(operators: &[OperatorKnobs]) -> Vec<Value> {
    let knobs = |operator: &OperatorKnobs| {
        let dimensions = operator.space.dimensions.iter();
        let dimensions: Vec<Value> = dimensions
            .map(|d| json!({"knob": d.name(), "choices": d.values}))
            .collect();
        json!({
            "name": operator.name,
            "symbol": operator.symbol,
            "template": operator.space.base.template,
            "default": operator.space.base,
            "combinations": operator.space.size(),
            "knobs": dimensions,
        })
    };
    operators.iter().map(knobs).collect()
}
