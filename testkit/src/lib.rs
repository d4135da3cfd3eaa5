//! How a test says that this machine does not allow it: the same way in every crate.
//!
//! A check that is left out is written to the file that `OPBENCH_SKIPPED` names, which `scripts/test` prints at its end.
//! In continuous integration (`CI` is set) it is a failure, unless `.ci/allowed-skips` names the check.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::path::Path;

/// Says that a check is left out, and why.
///
/// # Panics
/// Panics in continuous integration, if the check is not among those that may be left out there.
pub fn skip(check: &str, why: &str) {
    let line = format!("skipped: {check}: {why}");
    eprintln!("{line}");
    if let Some(path) = std::env::var_os("OPBENCH_SKIPPED") {
        let file = OpenOptions::new().append(true).create(true).open(path);
        // The line on stderr stands in any case.
        let _ = file.and_then(|mut file| writeln!(file, "{line}"));
    }
    if std::env::var_os("CI").is_some_and(|ci| !ci.is_empty() && ci != "false") {
        let list = Path::new(env!("CARGO_MANIFEST_DIR")).join("../.ci/allowed-skips");
        let allowed = std::fs::read_to_string(&list).unwrap_or_default();
        assert!(
            may_be_skipped(&allowed, check),
            "{line}; continuous integration must run it, or {} name it",
            list.display()
        );
    }
}

/// Whether a list, one check a line with comments after `#`, names a check.
fn may_be_skipped(list: &str, check: &str) -> bool {
    let names = list
        .lines()
        .map(|line| line.split('#').next().unwrap_or_default().trim());
    names
        .filter(|name| !name.is_empty())
        .any(|name| name == check)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_names_checks_and_says_why() {
        let list =
            "# what a bare machine lacks\nperf counts  # no PMU in a virtual machine\n\nlibpapi\n";
        assert!(may_be_skipped(list, "perf counts"));
        assert!(may_be_skipped(list, "libpapi"));
        assert!(!may_be_skipped(list, "a full disk"));
        assert!(!may_be_skipped(list, ""));
    }
}
