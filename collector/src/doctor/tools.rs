//! TVM's libraries, the C compiler, and LLVM's name for the processor.

use std::path::{Path, PathBuf};

use opdata::contract::LlvmCpu;

use super::check::{Check, Problem};

/// Compilers that Rust's build can link with, in the order of the search.
const COMPILERS: &[&str] = &["cc", "gcc", "clang"];

/// The first C compiler on a `PATH`.
pub fn find_compiler(path: Option<&std::ffi::OsStr>) -> Option<PathBuf> {
    let folders: Vec<PathBuf> = path.map(|path| std::env::split_paths(path).collect())?;
    COMPILERS
        .iter()
        .flat_map(|name| folders.iter().map(move |folder| folder.join(name)))
        .find(|program| program.is_file())
}

pub(super) fn check_tvm(tvm: &Result<Vec<(String, String)>, Problem>) -> Check {
    const NAME: &str = "TVM libraries";
    match tvm {
        Ok(versions) => {
            let list: Vec<String> = versions
                .iter()
                .map(|(name, version)| format!("{name} {version}"))
                .collect();
            Check::ok(NAME, list.join(", "))
        }
        Err(problem) => Check::fail(NAME, &problem.finding, &problem.fix),
    }
}

pub(super) fn check_compiler(compiler: Option<&Path>) -> Check {
    const NAME: &str = "C compiler";
    match compiler {
        Some(path) => Check::ok(NAME, path.display().to_string()),
        None => Check::warn(
            NAME,
            "none found; it is needed to build this program, not to run it",
            "apt install build-essential",
        ),
    }
}

pub(super) fn check_llvm_cpu(cpu: &LlvmCpu, known: Option<bool>) -> Check {
    const NAME: &str = "LLVM target";
    let give = "give the name yourself, e.g. --target \"llvm -mcpu=haswell\"";
    match (&cpu.name, known) {
        (Some(name), Some(true)) => Check::ok(NAME, name),
        (Some(name), None) => Check::ok(NAME, format!("{name} (LLVM was not asked)")),
        (Some(name), Some(false)) => Check::fail(NAME, format!("LLVM does not know {name}"), give),
        (None, _) => Check::warn(
            NAME,
            "this processor has no name here, so code is generic and slow",
            give,
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::CheckStatus;

    #[test]
    fn compilers_are_found_on_the_path() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().as_os_str();
        assert_eq!(find_compiler(Some(path)), None);
        std::fs::write(folder.path().join("gcc"), "").unwrap();
        assert_eq!(find_compiler(Some(path)), Some(folder.path().join("gcc")));
        assert_eq!(find_compiler(None), None);
    }

    #[test]
    fn verdicts() {
        let cpu = |name: &str| LlvmCpu {
            name: Some(name.to_owned()),
            features: Vec::new(),
        };
        assert_eq!(
            check_llvm_cpu(&cpu("znver5"), Some(true)).status,
            CheckStatus::Ok
        );
        assert_eq!(
            check_llvm_cpu(&cpu("znver9"), Some(false)).status,
            CheckStatus::Fail
        );
        assert_eq!(
            check_llvm_cpu(&LlvmCpu::default(), None).status,
            CheckStatus::Warn
        );
        assert_eq!(check_compiler(None).status, CheckStatus::Warn);
        let problem = Problem {
            finding: "libtvm_runtime.so is missing".to_owned(),
            fix: "run scripts/setup".to_owned(),
        };
        assert_eq!(
            check_tvm(&Err(problem)).fix.as_deref(),
            Some("run scripts/setup")
        );
        let versions = vec![("tvm".to_owned(), "0.27".to_owned())];
        assert_eq!(check_tvm(&Ok(versions)).finding, "tvm 0.27");
    }
}
