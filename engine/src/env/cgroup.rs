//! The control groups of this process, which hold the limits of containers and services.

use super::Root;

/// The interface version of a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Version {
    /// A hierarchy for each controller.
    One,
    /// One for all.
    Two,
}

/// A group that can limit this process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Group {
    /// Its interface.
    pub version: Version,
    /// Its path in its hierarchy, without slashes at the ends.
    pub path: String,
}

/// The groups of a controller, from the process's own to the root: the tightest limit among them holds.
pub(super) fn groups(root: &Root, controller: &str) -> Vec<Group> {
    let text = root.text("proc/self/cgroup").unwrap_or_default();
    let mut groups = Vec::new();
    for line in text.lines() {
        let mut fields = line.splitn(3, ':');
        let (Some(_), Some(controllers), Some(path)) =
            (fields.next(), fields.next(), fields.next())
        else {
            continue;
        };
        let version = if controllers.is_empty() {
            Version::Two
        } else if controllers.split(',').any(|name| name == controller) {
            Version::One
        } else {
            continue;
        };
        let mut rest = Some(path.trim_matches('/'));
        while let Some(path) = rest {
            groups.push(Group {
                version,
                path: path.to_owned(),
            });
            rest = match path.rsplit_once('/') {
                Some((parent, _)) => Some(parent),
                None if path.is_empty() => None,
                None => Some(""),
            };
        }
    }
    groups
}

/// Memory limit of the groups, bytes. `None` without a limit.
pub(super) fn memory_limit_bytes(root: &Root) -> Option<u64> {
    /// Without a limit, version 1 gives the largest number of whole pages.
    const UNLIMITED: u64 = 1 << 62;
    let limits = groups(root, "memory").into_iter().filter_map(|group| {
        let path = &group.path;
        match group.version {
            // `max` is not a number.
            Version::Two => root.number::<u64>(&format!("sys/fs/cgroup/{path}/memory.max")),
            Version::One => root.number(&format!(
                "sys/fs/cgroup/memory/{path}/memory.limit_in_bytes"
            )),
        }
    });
    limits.filter(|bytes| *bytes < UNLIMITED).min()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::env::root::testing::root_with;

    #[test]
    fn from_the_own_group_to_the_root() {
        let (_folder, root) = root_with(&[("proc/self/cgroup", "4:memory:/x/y\n3:cpu:/z\n0::/\n")]);
        let found: Vec<_> = groups(&root, "memory")
            .into_iter()
            .map(|g| (g.version, g.path))
            .collect();
        let one = |path: &str| (Version::One, path.to_owned());
        let two = (Version::Two, String::new());
        assert_eq!(found, [one("x/y"), one("x"), one(""), two]);
    }

    #[test]
    fn the_tightest_memory_limit_of_either_version() {
        let (_folder, root) = root_with(&[
            ("proc/self/cgroup", "0::/a/b\n"),
            ("sys/fs/cgroup/a/memory.max", "1073741824\n"),
            ("sys/fs/cgroup/a/b/memory.max", "max\n"),
        ]);
        assert_eq!(memory_limit_bytes(&root), Some(1 << 30));
        let (_folder, root) = root_with(&[
            ("proc/self/cgroup", "4:memory:/job\n"),
            (
                "sys/fs/cgroup/memory/job/memory.limit_in_bytes",
                "2147483648\n",
            ),
            (
                "sys/fs/cgroup/memory/memory.limit_in_bytes",
                "9223372036854771712\n",
            ),
        ]);
        assert_eq!(memory_limit_bytes(&root), Some(2 << 30));
        let (_folder, root) = root_with(&[("proc/self/cgroup", "0::/\n")]);
        assert_eq!(memory_limit_bytes(&root), None);
    }
}
