//! The cache key: a hash of all inputs of an import.
//!
//! Importer sources, pinned requirements, the model file with its companions (external weights, expected outputs) and
//! the resolved request. Paths are not part of it: a moved checkout keeps its cache.

use std::path::{Path, PathBuf};

use opdata::safe_file_name;
use sha2::{Digest, Sha256};

use crate::error::{ImportError, Result};
use crate::files;
use crate::graph;
use crate::hex::hex;
use crate::python::Tooling;
use crate::sources::Resolved;

/// Characters of the hash in a folder name; 64 bits are enough for a cache.
const DIGITS: usize = 16;

/// Largest model file that is searched for the names of external weights: 4 MiB.
const LARGEST_GRAPH_BYTES: u64 = 4 << 20;
/// Shorter names would occur in any file by chance.
const SHORTEST_NAME: usize = 5;

/// The folder name of an import: the model's name for people, the hash for certainty.
pub(crate) fn cache_key(resolved: &Resolved, tooling: &Tooling) -> Result<String> {
    let mut hash = Sha256::new();
    part(
        &mut hash,
        "graph format",
        graph::FORMAT.to_string().as_bytes(),
    );
    for source in importer_sources(&tooling.importer)? {
        let name = source
            .strip_prefix(&tooling.importer)
            .unwrap_or(&source)
            .to_string_lossy()
            .into_owned();
        part(
            &mut hash,
            &name,
            &std::fs::read(&source).map_err(|e| ImportError::io(&source, e))?,
        );
    }
    pinned(&mut hash, "requirements", &tooling.requirements)?;
    if let Some(extra) = resolved.source.extra() {
        let name = format!("requirements-{extra}.txt");
        pinned(
            &mut hash,
            &name,
            &tooling.requirements.with_file_name(&name),
        )?;
    }
    if let Some(file) = &resolved.file {
        for path in model_files(file)? {
            stream(&mut hash, &path)?;
        }
    }
    let request = Resolved {
        file: None,
        ..resolved.clone()
    };
    part(
        &mut hash,
        "request",
        serde_json::to_string(&request)
            .unwrap_or_default()
            .as_bytes(),
    );
    Ok(format!(
        "{}-{}",
        safe_file_name(&resolved.model, 40),
        &hex(&hash.finalize())[..DIGITS]
    ))
}

/// Adds one named part, with its length, so that parts cannot run into each other.
fn part(hash: &mut Sha256, name: &str, bytes: &[u8]) {
    hash.update(format!("{name}\0{}\0", bytes.len()));
    hash.update(bytes);
}

/// Adds a file of pinned requirements, if it is there.
fn pinned(hash: &mut Sha256, name: &str, path: &Path) -> Result<()> {
    if path.exists() {
        let text = std::fs::read(path).map_err(|e| ImportError::io(path, e))?;
        part(hash, name, &text);
    }
    Ok(())
}

/// Adds a file without holding it in memory, its name and length first.
fn stream(hash: &mut Sha256, path: &Path) -> Result<()> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let facts = std::fs::metadata(path).map_err(|e| ImportError::io(path, e))?;
    hash.update(format!("{name}\0{}\0", facts.len()));
    files::hash(hash, path).map(|_| ())
}

/// The importer's Python files in a fixed order; tests beside it do not count.
fn importer_sources(folder: &Path) -> Result<Vec<PathBuf>> {
    let package = folder.join("opbench_import");
    let entries = std::fs::read_dir(&package).map_err(|e| ImportError::io(&package, e))?;
    let mut sources: Vec<PathBuf> = entries
        .filter_map(|e| Some(e.ok()?.path()))
        .filter(|p| p.extension().is_some_and(|x| x == "py"))
        .collect();
    sources.sort();
    Ok(sources)
}

/// The model file and its companion files, in a fixed order.
///
/// External weights belong to a model by being named in it: an ONNX file holds their names as plain bytes. A file that
/// happens to be named without belonging only costs its hashing. Weights of a checkpoint belong to its configuration.
fn model_files(file: &Path) -> Result<Vec<PathBuf>> {
    let stem = file
        .file_stem()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned();
    let failed = |e| ImportError::io(file, e);
    // Larger model files contain their weights.
    let small = std::fs::metadata(file).map_err(failed)?.len() <= LARGEST_GRAPH_BYTES;
    let graph = if small {
        std::fs::read(file).map_err(failed)?
    } else {
        Vec::new()
    };
    let named = |name: &str| {
        name.len() >= SHORTEST_NAME && graph.windows(name.len()).any(|w| w == name.as_bytes())
    };
    let is_config = file.file_name().is_some_and(|name| name == "config.json");
    let belongs = |name: &str| {
        let reference = name.starts_with(&format!("{stem}_output_")) && name.ends_with(".pb");
        let weights = is_config && name.ends_with(".safetensors");
        reference || weights || (!name.ends_with(".onnx") && named(name))
    };
    let folder = file.parent().unwrap_or(Path::new("."));
    let beside = std::fs::read_dir(folder)
        .into_iter()
        .flatten()
        .filter_map(|e| Some(e.ok()?.path()));
    let mut files: Vec<PathBuf> = beside
        .filter(|p| p.is_file() && p.file_name().is_some_and(|n| belongs(&n.to_string_lossy())))
        .collect();
    files.extend(test_data(folder));
    files.push(file.to_path_buf());
    files.sort();
    Ok(files)
}

/// Inputs and outputs beside a model of the ONNX zoo. The importer reads the first set.
fn test_data(folder: &Path) -> impl Iterator<Item = PathBuf> {
    let set = folder.join("test_data_set_0");
    let entries = std::fs::read_dir(set).into_iter().flatten();
    let tensors = entries.filter_map(|e| Some(e.ok()?.path()));
    tensors.filter(|p| p.is_file() && p.extension().is_some_and(|ending| ending == "pb"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cache::Cache;
    use crate::sources::registry::Registry;
    use crate::sources::request::ImportRequest;
    use crate::sources::{Context, Source, resolve};

    struct Fixture {
        folder: tempfile::TempDir,
        tooling: Tooling,
        registry: Registry,
    }

    impl Fixture {
        fn new() -> Self {
            let folder = tempfile::tempdir().unwrap();
            let at = |name: &str| folder.path().join(name);
            std::fs::create_dir_all(at("python/opbench_import")).unwrap();
            std::fs::write(at("python/opbench_import/a.py"), "one").unwrap();
            std::fs::write(at("requirements.txt"), "onnx==1").unwrap();
            std::fs::write(at("model.onnx"), "graph").unwrap();
            let tooling = Tooling::new(at("python3"), at("python"), at("requirements.txt"));
            let registry = Registry::parse("format = 1", Path::new("r.toml")).unwrap();
            Self {
                folder,
                tooling,
                registry,
            }
        }

        fn key(&self, change: impl FnOnce(&mut ImportRequest)) -> String {
            let path = self.folder.path().join("model.onnx");
            let mut request = ImportRequest::new(Source::ONNX, path.to_string_lossy());
            change(&mut request);
            let mut context = Context {
                registry: &self.registry,
                cache: &Cache::new("nowhere"),
                watch: &mut |_| {},
            };
            cache_key(&resolve(&request, &mut context).unwrap(), &self.tooling).unwrap()
        }

        fn write(&self, name: &str, text: &str) {
            std::fs::write(self.folder.path().join(name), text).unwrap();
        }
    }

    #[test]
    fn every_dependency_changes_the_key() {
        let fixture = Fixture::new();
        let mut keys = vec![fixture.key(|_| {})];
        assert_eq!(fixture.key(|_| {}), keys[0]);
        assert!(keys[0].starts_with("model-"), "{}", keys[0]);
        keys.push(fixture.key(|r| r.batch = Some(2)));
        keys.push(fixture.key(|r| r.seqlen = Some(2)));
        keys.push(fixture.key(|r| r.inputs = vec!["x:1x2".parse().unwrap()]));
        for (file, text) in [
            ("model.onnx", "another graph with weights.bin"),
            ("model_output_0.pb", "expected"),
            ("weights.bin", "weights"),
            ("requirements.txt", "onnx==2"),
            ("python/opbench_import/a.py", "two"),
            ("python/opbench_import/b.py", "more"),
        ] {
            fixture.write(file, text);
            keys.push(fixture.key(|_| {}));
        }
        let mut distinct = keys.clone();
        distinct.sort();
        distinct.dedup();
        assert_eq!(distinct.len(), keys.len());
    }

    #[test]
    fn neighbours_that_do_not_belong_change_nothing() {
        let fixture = Fixture::new();
        let before = fixture.key(|_| {});
        fixture.write("other.onnx", "graph");
        fixture.write("model_output_0.txt", "notes");
        assert_eq!(fixture.key(|_| {}), before);
    }
}
