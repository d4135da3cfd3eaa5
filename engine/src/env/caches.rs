//! The caches of the first core, from sysfs.

use opdata::contract::Cache;

use super::Root;

/// Reads all caches of the first core.
pub(super) fn read(root: &Root) -> Vec<Cache> {
    let folder = "sys/devices/system/cpu/cpu0/cache";
    root.names(folder)
        .iter()
        .filter(|name| name.starts_with("index"))
        .filter_map(|name| {
            let file = |field: &str| format!("{folder}/{name}/{field}");
            Some(Cache {
                level: root.number(&file("level"))?,
                kind: root.line(&file("type"))?.to_lowercase(),
                size_bytes: size_bytes(&root.line(&file("size"))?)?,
                line_bytes: root.number(&file("coherency_line_size")),
                ways: root.number(&file("ways_of_associativity")),
                shared_by: root
                    .line(&file("shared_cpu_list"))
                    .map(|list| super::cores::parse_list(&list).len() as u32),
            })
        })
        .collect()
}

/// The lowest level of cache that all of these processors share, as in `L3`; `none` if they share none. `None` if the
/// system does not report it.
pub fn shared_cache(root: &Root, processors: &[usize]) -> Option<String> {
    let first = processors.first()?;
    let folder = format!("sys/devices/system/cpu/cpu{first}/cache");
    let mut levels: Vec<u32> = Vec::new();
    let mut is_known = false;
    for name in root.names(&folder) {
        let file = |field: &str| format!("{folder}/{name}/{field}");
        let (Some(level), Some(list)) = (
            root.number(&file("level")),
            root.line(&file("shared_cpu_list")),
        ) else {
            continue;
        };
        is_known = true;
        let sharing = super::cores::parse_list(&list);
        if processors
            .iter()
            .all(|p| sharing.iter().any(|s| *s as usize == *p))
        {
            levels.push(level);
        }
    }
    let lowest = levels.iter().min();
    is_known.then(|| lowest.map_or_else(|| "none".to_owned(), |level| format!("L{level}")))
}

/// `48K`, `2048K` or `16M` in bytes.
fn size_bytes(text: &str) -> Option<u64> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let scale = match &text[digits.len()..] {
        "" => 1,
        "K" => 1 << 10,
        "M" => 1 << 20,
        "G" => 1 << 30,
        _ => return None,
    };
    digits.parse::<u64>().ok()?.checked_mul(scale)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lowest_cache_that_all_processors_share_is_found() {
        let root = tempfile::tempdir().unwrap();
        let cache = |index: u32, level: u32, list: &str| {
            let folder = format!("sys/devices/system/cpu/cpu0/cache/index{index}");
            let folder = root.path().join(folder);
            std::fs::create_dir_all(&folder).unwrap();
            std::fs::write(folder.join("level"), level.to_string()).unwrap();
            std::fs::write(folder.join("shared_cpu_list"), list).unwrap();
        };
        cache(0, 1, "0");
        cache(2, 2, "0-1");
        cache(3, 3, "0-3");
        let shared = |processors: &[usize]| shared_cache(&Root::at(root.path()), processors);
        assert_eq!(shared(&[0]).as_deref(), Some("L1"));
        assert_eq!(shared(&[0, 1]).as_deref(), Some("L2"));
        assert_eq!(shared(&[0, 1, 3]).as_deref(), Some("L3"));
        assert_eq!(shared(&[0, 4]).as_deref(), Some("none"));
        assert_eq!(shared(&[7]), None);
    }

    #[test]
    fn reads_sysfs() {
        let root = tempfile::tempdir().unwrap();
        let write = |index: &str, fields: &[(&str, &str)]| {
            let folder = root
                .path()
                .join("sys/devices/system/cpu/cpu0/cache")
                .join(index);
            std::fs::create_dir_all(&folder).unwrap();
            for (field, value) in fields {
                std::fs::write(folder.join(field), value).unwrap();
            }
        };
        write(
            "index0",
            &[
                ("level", "1\n"),
                ("type", "Data\n"),
                ("size", "48K\n"),
                ("shared_cpu_list", "0,64\n"),
                ("ways_of_associativity", "12\n"),
                ("coherency_line_size", "64\n"),
            ],
        );
        write(
            "index3",
            &[("level", "3\n"), ("type", "Unified\n"), ("size", "32M\n")],
        );
        write("index4", &[("level", "4\n")]);
        let caches = read(&Root::at(root.path()));
        assert_eq!(caches.len(), 2);
        assert_eq!(
            (caches[0].size_bytes, caches[0].shared_by, caches[0].ways),
            (49_152, Some(2), Some(12))
        );
        assert_eq!(caches[1].to_string(), "L3 unified 33554432");
        assert_eq!(caches[1].line_bytes, None);
    }
}
