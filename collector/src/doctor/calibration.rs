//! The check for a calibration of the machine: peak rates that runs record.

use opdata::contract::{Calibration, Environment, Level};
use opreport::units;

use super::check::Check;

/// State of the machine's calibration.
#[derive(Debug, Clone, PartialEq)]
pub enum Calibrated {
    /// The machine's peak rates were measured.
    Yes(Calibration),
    /// The machine's peak rates were never measured.
    Never,
    /// The calibration's file cannot be read. The text has the reason and the remedy.
    Unusable(String),
}

const CALIBRATE: &str = "opcollect doctor --calibrate, on the quiet machine: it takes a few seconds for each number of threads, and later runs record the rates";

pub(super) fn check(calibrated: &Calibrated, environment: &Environment) -> Check {
    const NAME: &str = "calibration";
    let calibration = match calibrated {
        Calibrated::Yes(calibration) => calibration,
        Calibrated::Never => {
            return Check::warn(
                NAME,
                "none: predictions will not know this machine's peak and bandwidths",
                CALIBRATE,
            );
        }
        Calibrated::Unusable(why) => return Check::warn(NAME, why, CALIBRATE),
    };
    let finding = finding(calibration);
    if calibration.is_of_busy_machine() {
        let share = calibration.other_cpu_share.unwrap_or_default();
        return Check::warn(
            NAME,
            format!(
                "{finding}; other processes took {} of the CPU time meanwhile: the rates are too low",
                units::percent(share)
            ),
            CALIBRATE,
        );
    }
    let now = environment.state.cores_usable;
    if calibration.cores_usable == now {
        Check::ok(NAME, finding)
    } else {
        let then = units::plural(u64::from(calibration.cores_usable), "core");
        Check::warn(
            NAME,
            format!("{finding}; of {then}, now {now} are usable"),
            CALIBRATE,
        )
    }
}

fn finding(calibration: &Calibration) -> String {
    let mut text = format!("of {}", calibration.measured_at_utc);
    if let Some(version) = calibration.versions.get("opcollect") {
        text.push_str(&format!(" by opcollect {version}"));
    }
    if let Some(rates) = calibration.rates.last() {
        let giga = |rate: f64| units::giga(rate * 1e9);
        text.push_str(&format!(
            "; {}: {} GFLOP/s",
            units::plural(u64::from(rates.threads), "thread"),
            giga(rates.peak_gflops_per_s.best)
        ));
        if let Some(memory) = rates.read_gbytes_per_s.get(&Level::Memory) {
            text.push_str(&format!(", {} GB/s from memory", giga(memory.rate.best)));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::CheckStatus;
    use opdata::contract::Software;
    use opengine::calibrate::testing::calibration;
    use opengine::env::Root;

    #[test]
    fn it_says_since_when_and_how() {
        let nothing = tempfile::tempdir().unwrap();
        let mut environment =
            opengine::env::capture(&Root::at(nothing.path()), Software::default());
        environment.state.cores_usable = 2;
        let known = Calibrated::Yes(calibration("m"));
        let checked = check(&known, &environment);
        assert_eq!(checked.status, CheckStatus::Ok);
        insta::assert_snapshot!(
            checked.finding,
            @"of 2026-01-02T03:04:05.000Z by opcollect 0.1.0; 2 threads: 200 GFLOP/s, 24.0 GB/s from memory"
        );
        environment.state.cores_usable = 8;
        let fewer = check(&known, &environment);
        assert_eq!(fewer.status, CheckStatus::Warn);
        assert!(
            fewer.finding.ends_with("of 2 cores, now 8 are usable"),
            "{}",
            fewer.finding
        );
        let mut disturbed = calibration("m");
        disturbed.other_cpu_share = Some(0.4);
        let disturbed = check(&Calibrated::Yes(disturbed), &environment);
        assert_eq!(disturbed.status, CheckStatus::Warn);
        assert!(
            disturbed.finding.contains("took 40.0 %"),
            "{}",
            disturbed.finding
        );
        for state in [
            Calibrated::Never,
            Calibrated::Unusable("it is damaged".to_owned()),
        ] {
            let check = check(&state, &environment);
            assert_eq!(check.status, CheckStatus::Warn);
            assert!(check.fix.unwrap().contains("doctor --calibrate"));
        }
    }
}
