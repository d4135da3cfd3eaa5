//! `opcollect doctor`: one line for each check, under each problem its fix, then the rates of a calibration.

use std::path::Path;

use opdata::contract::{Calibration, Level, Rate};
use opreport::{Cell, Style, Table, units};
use serde_json::{Value, json};

use crate::doctor::{Check, CheckStatus};

/// The doctor's report.
#[derive(Debug, Clone, Copy)]
pub struct Diagnosis<'a> {
    /// The checks.
    pub checks: &'a [Check],
    /// The rates, if they were measured just now.
    pub measured: Option<&'a Calibration>,
    /// The file that keeps the rates.
    pub file: &'a Path,
}

/// Checks and rates as text.
pub fn diagnosis_text(diagnosis: &Diagnosis<'_>, style: Style) -> String {
    let mut out = checks_text(diagnosis.checks, style);
    if let Some(calibration) = diagnosis.measured {
        out.push('\n');
        out.push_str(&rates_text(calibration, style));
        out.push_str(&format!(
            "kept in {}; runs on this machine record it from now on\n",
            diagnosis.file.display()
        ));
    }
    out
}

/// Checks and rates as `{checks, warnings, failures}`, with `calibration` and `calibration_file` if it was measured.
pub fn diagnosis_json(diagnosis: &Diagnosis<'_>) -> Value {
    let mut object = checks_json(diagnosis.checks);
    if let Some(calibration) = diagnosis.measured {
        object["calibration"] = json!(calibration);
        object["calibration_file"] = json!(diagnosis.file);
    }
    object
}

/// The rates of the fastest samples, a line for each number of threads.
fn rates_text(calibration: &Calibration, style: Style) -> String {
    let mut table = Table::headed("#threads|#GFLOP/s|#L1 GB/s|#L2 GB/s|#L3 GB/s|#memory GB/s|#±");
    let cell = |rate: Option<Rate>| {
        Cell::from(rate.map_or_else(String::new, |rate| units::giga(rate.best * 1e9)))
    };
    for rates in &calibration.rates {
        let read = |level: Level| rates.read_gbytes_per_s.get(&level).map(|read| read.rate);
        let peak = rates.peak_gflops_per_s;
        let all = Level::ALL.into_iter().filter_map(read).chain([peak]);
        let spread = all.map(|rate| rate.spread).fold(0.0, f64::max);
        let cells = [Cell::from(rates.threads.to_string()), cell(Some(peak))];
        let levels = Level::ALL.into_iter().map(|level| cell(read(level)));
        table.row(
            cells
                .into_iter()
                .chain(levels)
                .chain([Cell::from(units::percent(spread))]),
        );
    }
    let clock = calibration.clock_ghz.map_or_else(String::new, |ghz| {
        format!("one core runs at {ghz:.2} GHz\n")
    });
    table.render(style) + &clock
}

/// The checks as text.
fn checks_text(checks: &[Check], style: Style) -> String {
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
fn checks_json(checks: &[Check]) -> Value {
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
    use opengine::calibrate::testing::calibration;

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

    #[test]
    fn rates_stand_behind_the_checks() {
        let calibration = calibration("m");
        let checks = [Check::ok("cores", "2 online, 2 usable")];
        let diagnosis = Diagnosis {
            checks: &checks,
            measured: Some(&calibration),
            file: Path::new("m.json"),
        };
        insta::assert_snapshot!(diagnosis_text(&diagnosis, Style::PLAIN), @r"
        ok    cores  2 online, 2 usable
        1 check, 0 warnings, 0 failures

        threads  GFLOP/s  L1 GB/s  L2 GB/s  L3 GB/s  memory GB/s      ±
              1      100      400      150                  12.0  0.4 %
              2      200      800      300                  24.0  0.4 %
        one core runs at 3.10 GHz
        kept in m.json; runs on this machine record it from now on
        ");
        let object = diagnosis_json(&diagnosis);
        assert_eq!(
            object["calibration"]["rates"][1]["peak_gflops_per_s"]["best"],
            200.0
        );
        assert_eq!(
            object["calibration"]["rates"][0]["read_gbytes_per_s"]["l1"]["best"],
            400.0
        );
        let unmeasured = diagnosis_json(&Diagnosis {
            measured: None,
            ..diagnosis
        });
        assert_eq!(unmeasured.get("calibration"), None);
    }
}
