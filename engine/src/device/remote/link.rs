//! Linking objects of any architecture into shared libraries, with the linker of the Rust tool chain (LLVM's).

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, bail};

/// Names of LLVM's linker, which are tried before that of the Rust tool chain.
const NAMES: [&str; 2] = ["ld.lld", "lld"];

/// LLVM's linker: on the path, else that of the Rust tool chain.
///
/// # Errors
/// Fails if there is none.
pub fn find_linker() -> anyhow::Result<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let on_path = std::env::split_paths(&path)
        .flat_map(|folder| NAMES.map(|name| folder.join(name)))
        .find(|program| program.is_file());
    if let Some(program) = on_path {
        return Ok(program);
    }
    let sysroot = Command::new("rustc").args(["--print", "sysroot"]).output();
    let sysroot = sysroot.ok().filter(|said| said.status.success());
    let of_rust = sysroot.and_then(|said| {
        let root = PathBuf::from(String::from_utf8(said.stdout).ok()?.trim());
        let triples = std::fs::read_dir(root.join("lib/rustlib")).ok()?;
        let mut programs = triples.flatten().map(|t| t.path().join("bin/rust-lld"));
        programs.find(|program| program.is_file())
    });
    of_rust.context(
        "there is no linker for other machines: put ld.lld on PATH (Debian, Ubuntu: apt-get install lld), or a Rust tool chain",
    )
}

/// The architecture of a triple, as the kernel calls it (`uname -m`).
pub fn architecture_of(triple: &str) -> &str {
    let first = triple.split('-').next().unwrap_or_default();
    match first {
        "arm64" => "aarch64",
        "amd64" => "x86_64",
        arm if arm.starts_with("arm") => "arm",
        other => other,
    }
}

/// Links objects into a shared library.
///
/// # Errors
/// Fails if the linker does not run, or refuses.
pub(crate) fn link(linker: &Path, objects: &[PathBuf], library: &Path) -> anyhow::Result<()> {
    let mut command = Command::new(linker);
    if linker.file_name().is_none_or(|name| name != "ld.lld") {
        command.args(["-flavor", "gnu"]);
    }
    // The emulation follows from the objects. Starting threads takes longer than linking a kernel.
    let said = command
        .args(["-shared", "--threads=1"])
        .args(objects)
        .arg("-o")
        .arg(library)
        .output()
        .with_context(|| format!("the linker {}", linker.display()))?;
    if !said.status.success() {
        let words = String::from_utf8_lossy(&said.stderr);
        bail!(
            "the linker refuses: {}",
            words.lines().next().unwrap_or("no reason given")
        );
    }
    Ok(())
}
