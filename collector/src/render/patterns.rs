//! Composite operators and their steps, for people and for programs.

use std::fmt::Write;

use opreport::Style;
use opreport::table::wrapped;
use serde_json::{Value, json};

use crate::patterns::Expanded;

/// Columns before the operators of a step.
const INDENT: usize = 15;

/// Each composite once, below it its forms with one line a step.
pub(super) fn patterns_text(forms: &[Expanded], style: Style) -> String {
    let mut text = String::new();
    let mut composite = "";
    for form in forms {
        if form.pattern.composite != composite {
            let gap = if composite.is_empty() { "" } else { "\n" };
            composite = &form.pattern.composite;
            let _ = writeln!(text, "{gap}{}", style.bold(composite));
        }
        let _ = writeln!(text, "  {} ({})", form.pattern.form, form.pattern.source);
        match &form.outcome {
            Ok(expansion) => {
                let relax: Vec<&str> = expansion.steps.relax.iter().map(|o| short(o)).collect();
                for (step, operators) in [
                    (
                        "file",
                        counted(expansion.steps.source.iter().map(|s| s.as_str())),
                    ),
                    ("Relax", counted(relax.into_iter())),
                    ("TensorIR", counted(expansion.blocks())),
                    ("operators", counted(expansion.operators())),
                ] {
                    let lines = match style.width.or(style.fold) {
                        Some(columns) => wrapped(&operators, columns.saturating_sub(INDENT).max(1)),
                        None => vec![operators],
                    };
                    let _ = writeln!(text, "    {step:<9}  {}", lines[0]);
                    for line in &lines[1..] {
                        let _ = writeln!(text, "{:INDENT$}{line}", "");
                    }
                }
            }
            Err(reason) => {
                let _ = writeln!(text, "    {reason}");
            }
        }
    }
    text
}

/// Names in order; a run of the same name once, with its length.
fn counted<'a>(names: impl Iterator<Item = &'a str>) -> String {
    let mut runs: Vec<(&str, usize)> = Vec::new();
    for name in names {
        match runs.last_mut() {
            Some((last, times)) if *last == name => *times += 1,
            _ => runs.push((name, 1)),
        }
    }
    let shown = runs.into_iter().map(|(name, times)| match times {
        1 => name.to_owned(),
        _ => format!("{name} ×{times}"),
    });
    shown.collect::<Vec<_>>().join(" → ")
}

/// The name of a Relax operator without the common prefix.
fn short(operator: &str) -> &str {
    operator.strip_prefix("relax.").unwrap_or(operator)
}

pub(super) fn pattern_json(form: &Expanded) -> Value {
    let pattern = &form.pattern;
    let head = json!({
        "composite": pattern.composite,
        "form": pattern.form,
        "source": pattern.source,
    });
    let steps = match &form.outcome {
        Ok(expansion) => json!({
            "file": expansion.steps.source,
            "relax": expansion.steps.relax,
            "tir": expansion.blocks().collect::<Vec<_>>(),
            "operators": expansion.operators().collect::<Vec<_>>(),
        }),
        Err(reason) => json!({ "missing": reason }),
    };
    let (Value::Object(mut object), Value::Object(steps)) = (head, steps) else {
        return Value::Null;
    };
    object.extend(steps);
    Value::Object(object)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_of_a_name_are_counted() {
        let names = ["Add", "Mul", "Mul", "Add"];
        assert_eq!(counted(names.into_iter()), "Add → Mul ×2 → Add");
        assert_eq!(counted([].into_iter()), "");
        assert_eq!(short("relax.nn.conv2d"), "nn.conv2d");
    }
}
