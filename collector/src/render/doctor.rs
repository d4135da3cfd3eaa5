//! `opcollect doctor`: one line a check, and under each problem its fix.

use serde_json::{Value, json};

use super::{Style, units};
use crate::doctor::{Check, CheckStatus};

/// The checks as text.
pub fn checks_text(checks: &[Check], style: Style) -> String {
    let width = checks
        .iter()
        .map(|check| check.name.len())
        .max()
        .unwrap_or(0);
    let mut out = String::new();
    for check in checks {
        let pad = " ".repeat(width - check.name.len());
        let mark = match check.status {
            CheckStatus::Ok => style.green("ok  "),
            CheckStatus::Warn => style.yellow("warn"),
            CheckStatus::Fail => style.red("FAIL"),
        };
        out.push_str(&format!("{mark}  {}{pad}  {}\n", check.name, check.finding));
        if let Some(fix) = &check.fix {
            out.push_str(&format!("{}  fix: {fix}\n", " ".repeat(width + 6)));
        }
    }
    let (warned, failed) = (of(checks, CheckStatus::Warn), of(checks, CheckStatus::Fail));
    out.push_str(&format!(
        "{}, {}, {}\n",
        units::plural(checks.len() as u64, "check"),
        units::plural(warned, "warning"),
        units::plural(failed, "failure")
    ));
    out
}

/// The checks as `{checks, warnings, failures}`.
pub fn checks_json(checks: &[Check]) -> Value {
    json!({
        "checks": checks,
        "warnings": of(checks, CheckStatus::Warn),
        "failures": of(checks, CheckStatus::Fail),
    })
}

fn of(checks: &[Check], status: CheckStatus) -> u64 {
    checks.iter().filter(|check| check.status == status).count() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn problems_come_with_their_fix() {
        let checks = [
            Check::ok("cores", "2 online, 2 usable"),
            Check::warn(
                "governor",
                "powersave",
                "cpupower frequency-set -g performance",
            ),
            Check::fail("TVM", "libtvm_runtime.so is missing", "run scripts/setup"),
        ];
        insta::assert_snapshot!(checks_text(&checks, Style::PLAIN), @r#"
        ok    cores     2 online, 2 usable
        warn  governor  powersave
                        fix: cpupower frequency-set -g performance
        FAIL  TVM       libtvm_runtime.so is missing
                        fix: run scripts/setup
        3 checks, 1 warning, 1 failure
        "#);
        let object = checks_json(&checks);
        assert_eq!(object["failures"], 1);
        assert_eq!(object["checks"][1]["status"], "warn");
    }
}
