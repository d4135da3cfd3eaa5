//! A stand-in for a GPU: NVIDIA's driver, CUDA's runtime and NVML, compiled from `fixtures/stand_in_gpu.c`.
//!
//! The compiler is NVIDIA's own; every kernel computes a rectifier (ReLU), or fails where a script says so.

use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

use crate::installed::nvrtc;
use crate::skip;

/// The libraries, in a toolkit of their own.
#[derive(Debug)]
pub struct StandInGpu {
    folder: TempDir,
}

impl StandInGpu {
    /// Compiles them; none, with a word why, where NVRTC or a C compiler is not installed.
    ///
    /// # Panics
    /// When the C compiler refuses them.
    #[must_use]
    pub fn new() -> Option<StandInGpu> {
        const WHAT: &str = "measuring on a stand-in for a GPU";
        // Links to its parts must not depend on where they stand.
        let toolkit = nvrtc(WHAT)?.canonicalize().expect("NVRTC's folder");
        if Command::new("cc").arg("--version").output().is_err() {
            skip(WHAT, "there is no C compiler");
            return None;
        }
        let gpu = StandInGpu {
            folder: tempfile::tempdir().expect("a temporary folder"),
        };
        let libraries = gpu.libraries();
        std::fs::create_dir(&libraries).expect("a folder for libraries");
        for part in std::fs::read_dir(toolkit.join("lib")).expect("NVRTC's folder") {
            let part = part.expect("an entry").path();
            let name = part.file_name().expect("a name");
            if name.to_string_lossy().starts_with("libnvrtc") {
                std::os::unix::fs::symlink(&part, libraries.join(name)).expect("a link");
            }
        }
        for name in ["include", "bin"] {
            std::os::unix::fs::symlink(toolkit.join(name), gpu.toolkit().join(name))
                .expect("a link");
        }
        gpu.compile("libcuda.so.1", "DRIVER", &[]);
        // TVM asks for the runtime's functions by version.
        let versions = gpu.toolkit().join("versions");
        std::fs::write(&versions, "libcudart.so.13 { global: *; };").expect("a file");
        let script = format!("-Wl,--version-script={}", versions.display());
        gpu.compile("libcudart.so.13", "RUNTIME", &["-l:libcuda.so.1", &script]);
        gpu.compile("libnvidia-ml.so.1", "MANAGEMENT", &[]);
        Some(gpu)
    }

    fn compile(&self, name: &str, part: &str, more: &[&str]) {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/stand_in_gpu.c");
        let mut compiler = Command::new("cc");
        compiler
            .args(["-shared", "-fPIC", "-O1", "-Wall", "-Werror"])
            .arg(format!("-D{part}"))
            .arg(format!("-Wl,-soname,{name}"))
            .arg("-o")
            .arg(self.libraries().join(name))
            .arg(source)
            .arg("-pthread")
            .arg("-isystem")
            .arg(self.toolkit().join("include"))
            .arg(format!("-L{}", self.libraries().display()))
            .args(more);
        let done = compiler.output().expect("the C compiler");
        assert!(
            done.status.success(),
            "{}",
            String::from_utf8_lossy(&done.stderr)
        );
    }

    fn toolkit(&self) -> &Path {
        self.folder.path()
    }

    fn libraries(&self) -> PathBuf {
        self.toolkit().join("lib")
    }

    /// The command with this GPU in its machine, set as `fixtures/stand_in_gpu.c` says.
    #[must_use]
    pub fn around(&self, mut command: Command, settings: &[(&str, &str)]) -> Command {
        command
            .env("CUDA_HOME", self.toolkit())
            .env("LD_LIBRARY_PATH", self.libraries())
            .env_remove("CUDA_VISIBLE_DEVICES")
            .envs(settings.iter().copied());
        command
    }
}
