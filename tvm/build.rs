//! Lets this package's executables find `libtvm_ffi.so` where it was at build time, with no environment set.
//!
//! Shared by every package with executables that link TVM: `build = "../tvm/build.rs"`.

use std::process::Command;

fn main() {
    println!("cargo:rerun-if-env-changed=PATH");
    // Several packages use this file, so the path must exist from each of them. Cargo rebuilds a package at every call if a path
    // that its build script names is missing.
    println!("cargo:rerun-if-changed=../tvm/build.rs");
    match Command::new("tvm-ffi-config").arg("--libdir").output() {
        Ok(output) if output.status.success() => {
            let folder = String::from_utf8_lossy(&output.stdout);
            println!("cargo:rustc-link-arg=-Wl,-rpath,{}", folder.trim());
        }
        _ => {
            println!(
                "cargo::error=tvm-ffi-config does not run: run scripts/setup, then put .venv/bin on PATH"
            );
        }
    }
}
