//! The Python that imports models: is it there, and has it the pinned packages?

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::check::Check;

/// Minimum version of Python for the importer.
const LEAST: (u32, u32) = (3, 10);

/// How to make the environment again.
const SETUP: &str = "run scripts/setup, which makes the virtual environment anew";

/// A package and its pinned version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PackageWanted {
    /// Its name on the package index.
    pub name: String,
    /// Its exact version.
    pub version: String,
}

impl PackageWanted {
    /// The packages of a requirements file that every platform gets (lines `name==version`). Those pinned by Python
    /// version are left out: pip knows which of their pins applies.
    pub fn from_requirements(text: &str) -> Vec<Self> {
        text.lines()
            .map(|line| line.trim_end_matches('\\').trim())
            .filter(|line| !line.starts_with(['#', '-']) && !line.contains(';'))
            .filter_map(|line| line.split_once("=="))
            .map(|(name, version)| Self {
                name: name.trim().to_owned(),
                version: version
                    .split_whitespace()
                    .next()
                    .unwrap_or_default()
                    .to_owned(),
            })
            .collect()
    }
}

/// Facts about Python.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PythonFacts {
    /// Python answered.
    Found {
        /// The program.
        path: PathBuf,
        /// Version, e.g. `3.11.2`.
        version: String,
        /// Versions of the wanted packages that are installed.
        packages: BTreeMap<String, String>,
    },
    /// Python did not answer.
    NotFound {
        /// The program that was tried.
        path: PathBuf,
        /// The reason.
        reason: String,
    },
}

/// Prints Python's version and those of the packages named by its arguments: one `name version` a line. It imports
/// none, because TVM's package takes a second.
const QUESTION: &str = "\
import importlib.metadata as m, platform, sys
print('python', platform.python_version())
for name in sys.argv[1:]:
    try:
        print(name, m.version(name))
    except m.PackageNotFoundError:
        pass
";

impl PythonFacts {
    /// Runs a Python and asks.
    pub fn probe(path: &Path, wanted: &[PackageWanted]) -> Self {
        let not_found = |reason: String| Self::NotFound {
            path: path.to_owned(),
            reason,
        };
        let output = Command::new(path)
            .args(["-I", "-c", QUESTION])
            .args(wanted.iter().map(|package| &package.name))
            .output();
        match output {
            Err(error) => not_found(error.to_string()),
            Ok(output) if !output.status.success() => {
                let talk = String::from_utf8_lossy(&output.stderr);
                let last = talk.lines().last().unwrap_or_default();
                not_found(format!("{}: {last}", output.status))
            }
            Ok(output) => {
                let answer = String::from_utf8_lossy(&output.stdout).into_owned();
                let mut packages: BTreeMap<String, String> = answer
                    .lines()
                    .filter_map(|line| line.split_once(' '))
                    .map(|(name, version)| (name.to_owned(), version.to_owned()))
                    .collect();
                match packages.remove("python") {
                    Some(version) => Self::Found {
                        path: path.to_owned(),
                        version,
                        packages,
                    },
                    None => not_found("it does not answer as a Python".to_owned()),
                }
            }
        }
    }
}

pub(super) fn check(facts: &PythonFacts, wanted: &[PackageWanted]) -> Check {
    const NAME: &str = "Python importer";
    let (path, version, packages) = match facts {
        PythonFacts::NotFound { path, reason } => {
            let finding = format!("{} does not run: {reason}", path.display());
            return Check::fail(NAME, finding, SETUP);
        }
        PythonFacts::Found {
            path,
            version,
            packages,
        } => (path, version, packages),
    };
    if is_older(version, LEAST) {
        let finding = format!("{} is Python {version}", path.display());
        let fix = format!(
            "install Python {}.{} or later, then {SETUP}",
            LEAST.0, LEAST.1
        );
        return Check::fail(NAME, finding, fix);
    }
    let wrong: Vec<String> = wanted
        .iter()
        .filter_map(|package| match packages.get(&package.name) {
            Some(version) if *version == package.version => None,
            Some(version) => Some(format!(
                "{} is {version}, not {}",
                package.name, package.version
            )),
            None => Some(format!("{} is missing", package.name)),
        })
        .collect();
    if wrong.is_empty() {
        let list: Vec<String> = wanted
            .iter()
            .map(|package| format!("{} {}", package.name, package.version))
            .collect();
        Check::ok(NAME, format!("Python {version}, {}", list.join(", ")))
    } else {
        Check::fail(NAME, wrong.join("; "), SETUP)
    }
}

fn is_older(version: &str, least: (u32, u32)) -> bool {
    let mut numbers = version
        .split('.')
        .map(|part| part.parse::<u32>().unwrap_or(0));
    (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0)) < least
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::CheckStatus;

    fn found(version: &str, packages: &[(&str, &str)]) -> PythonFacts {
        PythonFacts::Found {
            path: ".venv/bin/python".into(),
            version: version.to_owned(),
            packages: packages
                .iter()
                .map(|(name, version)| ((*name).to_owned(), (*version).to_owned()))
                .collect(),
        }
    }

    fn wanted() -> Vec<PackageWanted> {
        vec![PackageWanted {
            name: "onnx".to_owned(),
            version: "1.2.3".to_owned(),
        }]
    }

    #[test]
    fn verdicts() {
        let of = |facts: &PythonFacts| check(facts, &wanted());
        assert_eq!(
            of(&found("3.11.2", &[("onnx", "1.2.3")])).status,
            CheckStatus::Ok
        );
        assert_eq!(
            of(&found("3.9.1", &[("onnx", "1.2.3")])).finding,
            ".venv/bin/python is Python 3.9.1"
        );
        assert_eq!(of(&found("3.11.2", &[])).finding, "onnx is missing");
        assert_eq!(
            of(&found("3.11.2", &[("onnx", "1.0")])).finding,
            "onnx is 1.0, not 1.2.3"
        );
    }

    #[test]
    fn pinned_versions_are_read_from_the_requirements() {
        let text = "# made by a tool\nonnx==1.2.3 \\\n    --hash=sha256:00\nnumpy==2.0 ; python_version < '3.11'\n";
        assert_eq!(PackageWanted::from_requirements(text), wanted());
    }

    #[test]
    fn a_program_that_is_not_there_or_no_python() {
        let facts = PythonFacts::probe(Path::new("/no/such/python"), &wanted());
        let check_of = check(&facts, &wanted());
        assert_eq!(check_of.status, CheckStatus::Fail);
        assert!(check_of.finding.starts_with("/no/such/python does not run"));
        let facts = PythonFacts::probe(Path::new("/bin/true"), &wanted());
        assert!(matches!(facts, PythonFacts::NotFound { .. }), "{facts:?}");
        let facts = PythonFacts::probe(Path::new("/bin/false"), &wanted());
        assert!(matches!(facts, PythonFacts::NotFound { .. }), "{facts:?}");
    }
}
