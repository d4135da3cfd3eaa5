//! The result of one check.

use serde::Serialize;

/// The possible results of a check.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum CheckStatus {
    /// Works as it should.
    Ok,
    /// Works, but numbers will be worse or fewer for it.
    Warn,
    /// Does not work.
    Fail,
}

/// One check: its subject, its finding, and its fix.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Check {
    /// The subject, in a word or two.
    pub name: &'static str,
    /// Result of the check.
    pub status: CheckStatus,
    /// The finding, on one line.
    pub finding: String,
    /// How to mend it; `None` when all is well.
    pub fix: Option<String>,
}

impl Check {
    /// A check without a finding to mend.
    pub fn ok(name: &'static str, finding: impl Into<String>) -> Self {
        Self {
            name,
            status: CheckStatus::Ok,
            finding: finding.into(),
            fix: None,
        }
    }

    /// It works, but not as well as it could.
    pub fn warn(name: &'static str, finding: impl Into<String>, fix: impl Into<String>) -> Self {
        Self {
            name,
            status: CheckStatus::Warn,
            finding: finding.into(),
            fix: Some(fix.into()),
        }
    }

    /// A check of something that does not work.
    pub fn fail(name: &'static str, finding: impl Into<String>, fix: impl Into<String>) -> Self {
        Self {
            name,
            status: CheckStatus::Fail,
            finding: finding.into(),
            fix: Some(fix.into()),
        }
    }
}

/// A fault, and its fix.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// Description of the fault.
    pub finding: String,
    /// How to mend the problem.
    pub fix: String,
}
