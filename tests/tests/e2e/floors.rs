//! The structure of the workspace. No two folders of a crate import each other, directly or around a corner: what the compiler
//! checks between crates, this checks inside them. Tests and their helpers may import what they like. Build scripts name only
//! paths that exist.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// The crates' folders, as the workspace lists its members; the tests themselves have none.
fn crates(root: &Path) -> Vec<String> {
    let manifest = std::fs::read_to_string(root.join("Cargo.toml")).unwrap();
    let list = manifest.split("members = [").nth(1).unwrap();
    let list = list.split(']').next().unwrap();
    let names = list.split('"').skip(1).step_by(2).map(str::to_owned);
    let crates: Vec<String> = names.filter(|name| name != "tests").collect();
    assert!(crates.len() > 5, "{crates:?}");
    crates
}

type Imports = BTreeMap<String, BTreeSet<String>>;

#[test]
fn no_folders_import_each_other() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut circles = Vec::new();
    for name in crates(&root) {
        let imports = imports(&root.join(&name).join("src"));
        if let Some(circle) = circle(&imports) {
            circles.push(format!("{name}: {}", circle.join(" -> ")));
        }
    }
    assert!(
        circles.is_empty(),
        "folders import each other; move what both use below them:\n{}",
        circles.join("\n")
    );
}

#[test]
fn a_circle_is_found_and_a_ladder_is_none() {
    let folder = tempfile::tempdir().unwrap();
    let write = |path: &str, text: &str| {
        let path = folder.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    };
    write("a/mod.rs", "use crate::{b::B, c};\n// use crate::d::D;");
    write(
        "b.rs",
        "fn f() { crate::c::g() }\n#[cfg(test)]\nmod tests { use crate::a; }",
    );
    write("c/mod.rs", "use std::io;");
    write("c/tests.rs", "use crate::a;");
    write("d.rs", "use crate::a;");
    assert_eq!(circle(&imports(folder.path())), None);
    write("c/deep/mod.rs", "use crate::a::A;");
    let found = circle(&imports(folder.path())).unwrap();
    assert_eq!(found.first(), found.last());
    assert!(found.contains(&"c".to_owned()), "{found:?}");
}

/// If a path that a build script names is missing, Cargo rebuilds the package at every call.
#[test]
fn build_scripts_name_paths_that_exist() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut named = 0;
    for name in crates(&root) {
        let package = root.join(&name);
        let manifest = std::fs::read_to_string(package.join("Cargo.toml")).unwrap();
        let script = manifest.lines().find_map(|l| l.strip_prefix("build = "));
        let script = package.join(script.unwrap_or("build.rs").trim_matches('"'));
        let text = std::fs::read_to_string(script).unwrap_or_default();
        for path in text.split("cargo:rerun-if-changed=").skip(1) {
            let path = package.join(path.split('"').next().unwrap());
            assert!(path.exists(), "{name}: no {}", path.display());
            named += 1;
        }
    }
    assert!(named > 3, "{named}");
}

/// Which folders (and files) at the root of a crate import which others.
fn imports(src: &Path) -> Imports {
    let mut imports = Imports::new();
    let files = rust_files(src);
    let top = |path: &Path| {
        let first = path.strip_prefix(src).ok()?.components().next()?;
        let name = first.as_os_str().to_str()?;
        Some(name.strip_suffix(".rs").unwrap_or(name).to_owned())
    };
    let tops: BTreeSet<String> = files.iter().filter_map(|f| top(f)).collect();
    for file in &files {
        let Some(from) = top(file).filter(|t| t != "lib" && t != "main") else {
            continue;
        };
        let text = std::fs::read_to_string(file).unwrap();
        let named = names_in_crate(&code(&text));
        let found = named
            .into_iter()
            .filter(|to| *to != from && tops.contains(to));
        imports.entry(from.clone()).or_default().extend(found);
    }
    imports
}

/// The Rust files below a folder, without tests and their helpers.
fn rust_files(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    for path in entries.map(|e| e.path()) {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if matches!(name.as_ref(), "tests" | "tests.rs" | "testing.rs") {
            continue;
        }
        if path.is_dir() {
            files.extend(rust_files(&path));
        } else if name.ends_with(".rs") {
            files.push(path);
        }
    }
    files
}

/// A file's text without comments and without the tests at its end.
fn code(text: &str) -> String {
    let text = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or("");
    let lines = text.lines().map(|l| l.split("//").next().unwrap_or(""));
    lines.collect::<Vec<_>>().join("\n")
}

/// The first names after `crate::`, those in braces too.
fn names_in_crate(code: &str) -> BTreeSet<String> {
    let name = |text: &str| -> String {
        let word = |c: &char| c.is_alphanumeric() || *c == '_';
        text.trim_start().chars().take_while(word).collect()
    };
    let mut names = BTreeSet::new();
    for (_, behind) in code
        .match_indices("crate::")
        .map(|(at, m)| (at, &code[at + m.len()..]))
    {
        match behind.strip_prefix('{') {
            None => drop(names.insert(name(behind))),
            Some(list) => names.extend(of_list(list).into_iter().map(name)),
        }
    }
    names
}

/// The entries of a list in braces that has just begun, without what stands in braces of their own.
fn of_list(list: &str) -> Vec<&str> {
    let (mut depth, mut begin, mut entries) = (0, 0, Vec::new());
    for (at, c) in list.char_indices() {
        match c {
            '{' => depth += 1,
            '}' if depth == 0 => {
                entries.push(&list[begin..at]);
                break;
            }
            '}' => depth -= 1,
            ',' if depth == 0 => {
                entries.push(&list[begin..at]);
                begin = at + 1;
            }
            _ => {}
        }
    }
    entries
}

/// A way from a folder back to itself, if there is one.
fn circle(imports: &Imports) -> Option<Vec<String>> {
    fn search(
        at: &str,
        way: &mut Vec<String>,
        done: &mut BTreeSet<String>,
        imports: &Imports,
    ) -> bool {
        if let Some(begin) = way.iter().position(|w| w == at) {
            way.drain(..begin);
            way.push(at.to_owned());
            return true;
        }
        if done.contains(at) {
            return false;
        }
        way.push(at.to_owned());
        for next in imports.get(at).into_iter().flatten() {
            if search(next, way, done, imports) {
                return true;
            }
        }
        way.pop();
        done.insert(at.to_owned());
        false
    }
    let mut done = BTreeSet::new();
    imports.keys().find_map(|start| {
        let mut way = Vec::new();
        search(start, &mut way, &mut done, imports).then_some(way)
    })
}
