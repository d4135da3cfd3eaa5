//! Disks that are full or read-only, without harm to the machine: a tmpfs in a mount namespace of the command's own.

use std::path::Path;
use std::process::Command;

/// A disk to run a command on.
#[derive(Debug, Clone, Copy)]
pub enum Disk {
    /// This many KiB in all.
    Small(u32),
    /// Nothing can be written.
    ReadOnly,
}

impl Disk {
    /// The command, with this disk mounted at `folder` and its outcome kept there out of everybody's sight; none where
    /// the machine allows no mount namespaces. `keep` names a folder that gets a copy of the disk's contents afterwards.
    #[must_use]
    pub fn around(self, command: &Command, folder: &Path, keep: &Path) -> Option<Command> {
        let options = match self {
            Self::Small(kib) => format!("size={kib}k"),
            Self::ReadOnly => "ro".to_owned(),
        };
        let unshare = namespaces()?;
        let script = r#"mount -t tmpfs -o "$1" tmpfs "$2" || exit 125
            keep=$3; folder=$2; shift 3
            "$@"; code=$?
            cp -r "$folder/." "$keep"; exit $code"#;
        let mut outer = Command::new("unshare");
        outer
            .args(unshare)
            .args(["sh", "-c", script, "sh", &options])
            .arg(folder)
            .arg(keep)
            .arg(command.get_program())
            .args(command.get_args());
        if let Some(folder) = command.get_current_dir() {
            outer.current_dir(folder);
        }
        for (name, value) in command.get_envs() {
            match value {
                Some(value) => outer.env(name, value),
                None => outer.env_remove(name),
            };
        }
        Some(outer)
    }
}

/// The arguments of `unshare` that give a mount namespace here: as root, or with a user namespace.
fn namespaces() -> Option<&'static [&'static str]> {
    let ways: [&[&str]; 2] = [&["--mount"], &["--mount", "--user", "--map-root-user"]];
    ways.into_iter().find(|way| {
        let probe = "mount -t tmpfs tmpfs /mnt";
        Command::new("unshare")
            .args(*way)
            .args(["sh", "-c", probe])
            .output()
            .is_ok_and(|output| output.status.success())
    })
}
