//! Entries and a throwaway PostgreSQL server for tests.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use opengine::schedule::Choice;
use serde_json::json;

use super::{Entry, Key};

/// A schedule of a workload with a time, on machine `m` at one thread.
pub(crate) fn entry(workload: &str, program: u64, time_ns: f64) -> Entry {
    Entry {
        key: Key {
            workload: workload.to_owned(),
            target: json!({"kind": "llvm"}),
            machine: "m".to_owned(),
            threads: 1,
            cache: "hot".to_owned(),
        },
        program_hash: program.to_string(),
        operator: "dense".to_owned(),
        kind: "dense".to_owned(),
        shapes: "1x64".to_owned(),
        choice: Choice::unscheduled(),
        trace: Some(json!([[], []])),
        time_ns,
        half_width_ns: None,
        quality: Some("A".to_owned()),
        model: Some("mlp".to_owned()),
        source: "test".to_owned(),
        tool: None,
        tvm: None,
        measured_at: None,
    }
}

/// The same entry as a convolution by another algorithm.
pub(crate) fn by(algorithm: &str, entry: Entry) -> Entry {
    let choice = json!({"template": Choice::CONVOLUTION, "algorithm": algorithm});
    Entry {
        choice: serde_json::from_value(choice).unwrap(),
        ..entry
    }
}

/// A PostgreSQL server on a socket in a temporary folder, which ends with it.
pub(crate) struct Throwaway {
    folder: tempfile::TempDir,
    programs: PathBuf,
}

impl Throwaway {
    /// Starts a server; none where PostgreSQL is not installed.
    pub fn start() -> Option<Throwaway> {
        let programs = programs()?;
        let folder = tempfile::tempdir().unwrap();
        // The server refuses to run as root.
        let open = std::os::unix::fs::PermissionsExt::from_mode(0o777);
        std::fs::set_permissions(folder.path(), open).unwrap();
        let server = Throwaway { folder, programs };
        let options = [
            "-U",
            "test",
            "-A",
            "trust",
            "--no-sync",
            "--no-instructions",
        ];
        server.run("initdb", &options);
        let socket = format!(
            "-k {} -c listen_addresses= -F",
            server.folder.path().display()
        );
        server.run(
            "pg_ctl",
            &["-s", "-w", "-l", &server.at("log"), "-o", &socket, "start"],
        );
        Some(server)
    }

    /// Its URL.
    pub fn url(&self) -> PathBuf {
        let socket = self.folder.path().display().to_string().replace('/', "%2F");
        format!("postgres://test@{socket}/postgres").into()
    }

    fn at(&self, name: &str) -> String {
        self.folder.path().join(name).display().to_string()
    }

    fn run(&self, program: &str, options: &[&str]) {
        let program = self.programs.join(program);
        let mut command = match rustix::process::getuid().is_root() {
            true => {
                let mut command = Command::new("setpriv");
                command.args(["--reuid=nobody", "--regid=nogroup", "--clear-groups"]);
                command.arg(program);
                command
            }
            false => Command::new(program),
        };
        let status = command
            .args(["-D", &self.at("data")])
            .args(options)
            .current_dir(self.folder.path())
            .stdout(Stdio::null())
            .status();
        assert!(status.unwrap().success(), "{command:?}");
    }
}

impl Drop for Throwaway {
    fn drop(&mut self) {
        self.run("pg_ctl", &["-s", "-w", "-m", "immediate", "stop"]);
    }
}

/// The folder of PostgreSQL's programs, where Debian and others put it.
fn programs() -> Option<PathBuf> {
    let debian = std::fs::read_dir("/usr/lib/postgresql").ok();
    let debian = debian.into_iter().flatten().flatten();
    let debian = debian.map(|version| version.path().join("bin"));
    let path = std::env::var_os("PATH")?;
    let has = |folder: &PathBuf| Path::new(folder).join("initdb").is_file();
    debian.chain(std::env::split_paths(&path)).find(has)
}
