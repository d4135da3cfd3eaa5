//! One model in several frameworks as text, CSV and JSON: kinds of operators side by side, then the whole.

use opreport::table::{Cell, Column, Table};
use opreport::{Style, units};
use serde_json::{Value, json};

use super::profile::{calls_text, plain_us, quoted, us};
use crate::frameworks::{Measured, SideBySide};

/// The table, and how surely the frameworks differ.
pub fn frameworks_text(compared: &SideBySide, style: Style) -> String {
    let mut text = format!(
        "{}, batch {}; {}, {}; medians of runs, operators from runs that were watched\n\n",
        style.bold(&compared.model),
        compared.batch,
        compared.cpu.as_deref().unwrap_or("an unknown processor"),
        units::plural(u64::from(compared.threads), "thread"),
    );
    text.push_str(&table(compared, style));
    text.push('\n');
    for measured in &compared.frameworks {
        text.push_str(&format!(
            "{} {}: {}, outputs {}\n",
            measured.framework.name(),
            measured.version,
            units::plural(measured.runs() as u64, "run"),
            check(measured),
        ));
    }
    text
}

/// How a framework's outputs compare with the expected ones.
fn check(measured: &Measured) -> String {
    let origin = &measured.checked_against;
    match measured.error {
        _ if measured.is_reference() => "are those that the others are checked against".to_owned(),
        None => format!("checked against {origin}"),
        Some(0.0) => format!("equal to those of {origin}"),
        Some(error) => format!("within {error:.1e} of those of {origin}"),
    }
}

fn table(compared: &SideBySide, style: Style) -> String {
    let frameworks = &compared.frameworks;
    let mut columns = vec![Column::left("Kind")];
    for measured in frameworks {
        let name = measured.framework.name();
        columns.push(Column::right("").titled(format!("{name} (us)")));
        columns.push(Column::right("calls").hides(0));
    }
    let mut table = Table::new(&columns);
    for kind in compared.kinds() {
        let cells = frameworks.iter().flat_map(|measured| {
            let (calls, ns) = measured.of_kind(kind);
            // A kind that a framework has no operator for is empty, not 0.
            match calls > 0.0 {
                true => [us(ns).into(), calls_text(calls).into()],
                false => ["".into(), "".into()],
            }
        });
        table.row(std::iter::once(Cell::from(kind.name())).chain(cells));
    }
    let heading = |name: &str| Cell::painted(name, Style::bold);
    let sums = frameworks.iter().flat_map(|measured| {
        let operators = measured.operators();
        let ns = operators.iter().map(|operator| operator.ns).sum();
        let calls = operators.iter().map(|operator| operator.calls).sum();
        [us(ns).into(), calls_text(calls).into()]
    });
    table.row(std::iter::once(heading("Operators")).chain(sums));
    let whole = frameworks.iter().flat_map(|measured| {
        let whole = measured.end_to_end_ns().map_or_else(String::new, us);
        [whole.into(), "".into()]
    });
    table.row(std::iter::once(heading("End to end")).chain(whole));
    if let Some((base, rest)) = frameworks.split_first() {
        let ratios = rest.iter().flat_map(|measured| {
            let ratio = measured.ratio(base);
            let ratio = ratio.map_or_else(String::new, |(ratio, interval)| match interval {
                Some((low, high)) => format!("{ratio:.2} ({low:.2} … {high:.2})"),
                None => format!("{ratio:.2}"),
            });
            [ratio.into(), "".into()]
        });
        let title = format!("of {}'s time", base.framework.name());
        let cells = [heading(&title), "1".into(), "".into()];
        table.row(cells.into_iter().chain(ratios));
    }
    table.render(style)
}

/// The comparison as one object; times in nanoseconds for one run.
pub fn frameworks_json(compared: &SideBySide) -> Value {
    let base = compared.frameworks.first();
    let frameworks = compared.frameworks.iter().map(|measured| {
        let ratio = base.and_then(|base| measured.ratio(base));
        let kinds = compared.kinds().into_iter().map(|kind| {
            let (calls, ns) = measured.of_kind(kind);
            json!({"kind": kind.name(), "calls": calls, "ns": ns})
        });
        let operators = measured.operators().into_iter().map(|operator| {
            json!({
                "name": operator.name,
                "kind": operator.kind.name(),
                "calls": operator.calls,
                "ns": operator.ns,
            })
        });
        json!({
            "framework": measured.framework.name(),
            "version": measured.version,
            "end_to_end_ns": measured.end_to_end_ns(),
            "runs": measured.runs(),
            "ratio": ratio.map(|(ratio, _)| ratio),
            "ratio_interval": ratio.and_then(|(_, interval)| interval),
            "checked_against": measured.checked_against,
            "largest_error": measured.error,
            "kinds": kinds.collect::<Vec<_>>(),
            "operators": operators.collect::<Vec<_>>(),
        })
    });
    json!({
        "model": compared.model,
        "batch": compared.batch,
        "cpu": compared.cpu,
        "threads": compared.threads,
        "frameworks": frameworks.collect::<Vec<_>>(),
    })
}

/// The comparison as CSV: each framework's operators by its own names, then its whole.
pub fn frameworks_csv(compared: &SideBySide) -> String {
    let mut text = "Framework,Version,Kind,Operator,Calls,Time (us)\n".to_owned();
    for measured in &compared.frameworks {
        let name = measured.framework.name();
        let version = quoted(&measured.version);
        for operator in measured.operators() {
            text.push_str(&format!(
                "{name},{version},{},{},{},{}\n",
                operator.kind.name(),
                quoted(&operator.name),
                calls_text(operator.calls),
                plain_us(operator.ns)
            ));
        }
        let whole = measured.end_to_end_ns().map_or_else(String::new, plain_us);
        text.push_str(&format!("{name},{version},end to end,,,{whole}\n"));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frameworks::testing::side_by_side;

    #[test]
    fn the_table() {
        insta::assert_snapshot!(frameworks_text(&side_by_side(), Style::PLAIN));
    }

    #[test]
    fn csv_has_each_frameworks_own_names() {
        insta::assert_snapshot!(frameworks_csv(&side_by_side()), @r#"
        Framework,Version,Kind,Operator,Calls,Time (us)
        torch,2.13.0,convolution,aten::conv2d,2,300.000
        torch,2.13.0,elementwise,aten::relu,2,20.000
        torch,2.13.0,end to end,,,400.000
        tvm,0.27.0,convolution,fused_conv2d_relu,2,150.000
        tvm,0.27.0,end to end,,,200.000
        "#);
    }

    #[test]
    fn json_has_ratios_to_the_first() {
        let json = frameworks_json(&side_by_side());
        assert_eq!(json["frameworks"][0]["ratio"], 1.0);
        assert_eq!(json["frameworks"][1]["ratio"], 0.5);
        assert_eq!(json["frameworks"][1]["ratio_interval"][1], 0.5);
        assert_eq!(json["frameworks"][1]["kinds"][1]["calls"], 0.0);
        assert_eq!(json["frameworks"][1]["largest_error"], Value::Null);
    }
}
