//! Number of cores, and how many this process may use.

use std::collections::BTreeSet;

use super::Root;
use super::cgroup::{Version, groups};

/// Cores of the machine and of this process.
#[derive(Debug, Clone, PartialEq)]
pub struct Cores {
    /// Cores online, at least 1.
    pub online: u32,
    /// Physical cores among them, where the topology is known.
    pub physical: Option<u32>,
    /// Numbers of the cores that this process may run on.
    pub affinity: Vec<u32>,
    /// Cores' worth of time the control group allows.
    pub quota: Option<f64>,
}

impl Cores {
    /// Reads them.
    pub fn read(root: &Root) -> Self {
        let online = root
            .line("sys/devices/system/cpu/online")
            .map(|list| parse_list(&list))
            .unwrap_or_default();
        let affinity = affinity();
        Self {
            physical: physical(root, &online),
            online: (online.len().max(affinity.len()).max(1)) as u32,
            affinity,
            quota: quota(root),
        }
    }

    /// Number of cores that this process can keep busy: those of its affinity, but no more than its quota rounded up;
    /// at least 1.
    pub fn usable(&self) -> u32 {
        let by_affinity = match self.affinity.len() as u32 {
            0 => self.online,
            cores => cores,
        };
        let by_quota = self
            .quota
            .map_or(u32::MAX, |cores| cores.ceil().clamp(1.0, 1e6) as u32);
        by_affinity.min(by_quota).max(1)
    }
}

/// `0-3,8` → 0, 1, 2, 3, 8. Other text is left out.
pub(super) fn parse_list(text: &str) -> Vec<u32> {
    text.trim()
        .split(',')
        .filter_map(|piece| {
            let (first, last) = piece.split_once('-').unwrap_or((piece, piece));
            let range = first.trim().parse::<u32>().ok()?..=last.trim().parse::<u32>().ok()?;
            (range.clone().count() < 1 << 16).then_some(range)
        })
        .flatten()
        .collect()
}

fn physical(root: &Root, online: &[u32]) -> Option<u32> {
    let cores: Option<BTreeSet<(i64, i64)>> = online
        .iter()
        .map(|cpu| {
            let file = |name: &str| format!("sys/devices/system/cpu/cpu{cpu}/topology/{name}");
            Some((
                root.number(&file("physical_package_id"))?,
                root.number(&file("core_id"))?,
            ))
        })
        .collect();
    cores
        .filter(|cores| !cores.is_empty())
        .map(|cores| cores.len() as u32)
}

/// The cores that the kernel lets this process run on.
fn affinity() -> Vec<u32> {
    // SAFETY: cpu_set_t is a plain bit mask, for which all zeroes is a valid value.
    let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    let size = std::mem::size_of::<libc::cpu_set_t>();
    // SAFETY: the pointer is to a mask of `size` bytes that outlives the call; 0 is this thread.
    if unsafe { libc::sched_getaffinity(0, size, &mut set) } != 0 {
        return Vec::new();
    }
    (0..libc::CPU_SETSIZE as u32)
        // SAFETY: the index is below CPU_SETSIZE, so it stays inside the mask.
        .filter(|cpu| unsafe { libc::CPU_ISSET(*cpu as usize, &set) })
        .collect()
}

/// Cores' worth of time by control group, version 2 or 1; the tightest on the way to the root.
fn quota(root: &Root) -> Option<f64> {
    let limits = groups(root, "cpu").into_iter().filter_map(|group| {
        let path = &group.path;
        match group.version {
            Version::Two => quota_v2(root, &format!("sys/fs/cgroup/{path}")),
            Version::One => ["cpu", "cpu,cpuacct"]
                .iter()
                .find_map(|mount| quota_v1(root, &format!("sys/fs/cgroup/{mount}/{path}"))),
        }
    });
    limits.min_by(f64::total_cmp)
}

fn quota_v2(root: &Root, folder: &str) -> Option<f64> {
    let text = root.line(&format!("{folder}/cpu.max"))?;
    let (quota, period) = text.split_once(' ')?;
    ratio(quota.parse().ok()?, period.parse().ok()?)
}

fn quota_v1(root: &Root, folder: &str) -> Option<f64> {
    // −1 means that there is no limit.
    let quota: f64 = root.number(&format!("{folder}/cpu.cfs_quota_us"))?;
    ratio(quota, root.number(&format!("{folder}/cpu.cfs_period_us"))?)
}

fn ratio(quota: f64, period: f64) -> Option<f64> {
    (quota > 0.0 && period > 0.0).then(|| quota / period)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::env::root::testing::root_with;

    #[test]
    fn lists() {
        assert_eq!(parse_list("0-3,8\n"), [0, 1, 2, 3, 8]);
        assert_eq!(parse_list("0"), [0]);
        assert_eq!(parse_list(""), [] as [u32; 0]);
        assert_eq!(parse_list("x,3-1,5"), [5]);
    }

    #[test]
    fn hyperthreads_are_not_cores() {
        let (_folder, root) = root_with(&[
            (
                "sys/devices/system/cpu/cpu0/topology/physical_package_id",
                "0",
            ),
            ("sys/devices/system/cpu/cpu0/topology/core_id", "0"),
            (
                "sys/devices/system/cpu/cpu1/topology/physical_package_id",
                "0",
            ),
            ("sys/devices/system/cpu/cpu1/topology/core_id", "0"),
        ]);
        assert_eq!(physical(&root, &[0, 1]), Some(1));
        assert_eq!(physical(&root, &[0, 1, 2]), None);
    }

    #[test]
    fn quotas_of_both_versions() {
        let (_folder, root) = root_with(&[
            ("proc/self/cgroup", "0::/a/b\n"),
            ("sys/fs/cgroup/a/cpu.max", "150000 100000\n"),
            ("sys/fs/cgroup/a/b/cpu.max", "max 100000\n"),
        ]);
        assert_eq!(quota(&root), Some(1.5));
        let (_folder, root) = root_with(&[
            ("proc/self/cgroup", "4:memory:/x\n3:cpu,cpuacct:/job\n"),
            ("sys/fs/cgroup/cpu,cpuacct/job/cpu.cfs_quota_us", "400000"),
            ("sys/fs/cgroup/cpu,cpuacct/job/cpu.cfs_period_us", "100000"),
            ("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "-1"),
            ("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "100000"),
        ]);
        assert_eq!(quota(&root), Some(4.0));
    }

    #[test]
    fn the_smaller_of_affinity_and_quota() {
        let cores = Cores {
            online: 8,
            physical: Some(4),
            affinity: vec![0, 1, 2, 3],
            quota: Some(1.5),
        };
        assert_eq!(cores.usable(), 2);
        assert_eq!(
            Cores {
                quota: None,
                ..cores.clone()
            }
            .usable(),
            4
        );
        assert_eq!(
            Cores {
                quota: Some(0.1),
                affinity: vec![],
                ..cores
            }
            .usable(),
            1
        );
    }
}
