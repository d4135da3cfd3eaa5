//! One import, cached: resolve the request, look into the cache, and run the importer when it is not there.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::cache::Cache;
use crate::key::cache_key;
use crate::python::{self, Tooling};
use crate::resolve::{Resolved, resolve};
use crate::{Graph, ImportError, ImportRequest, Registry};

/// A finished import.
#[derive(Debug, Clone)]
pub struct Imported {
    /// What the model consists of.
    pub graph: Graph,
    /// What was imported, with all defaults in place.
    pub resolved: Resolved,
    /// Folder of the import's files.
    pub folder: PathBuf,
    /// Whether the importer had to run.
    pub provenance: Provenance,
}

/// Where an import came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Provenance {
    /// Out of the cache.
    Cached,
    /// The importer ran for this long.
    Fresh(Duration),
}

impl Imported {
    /// The fused Relax module as TVM's JSON.
    #[must_use]
    pub fn module_path(&self) -> PathBuf {
        self.folder.join("module.json")
    }

    /// Values of the weights; None when the model has none.
    #[must_use]
    pub fn params_path(&self) -> Option<PathBuf> {
        existing(&self.folder, "params.bin")
    }

    /// Reference inputs and outputs; None when the model came without.
    #[must_use]
    pub fn refs_path(&self) -> Option<PathBuf> {
        existing(&self.folder, "refs.bin")
    }
}

/// A file of the import, if it is there.
fn existing(folder: &Path, name: &str) -> Option<PathBuf> {
    Some(folder.join(name)).filter(|p| p.is_file())
}

/// Imports a model, or finds the import in the cache.
///
/// A damaged cache entry is imported again without a word: the result is the same.
///
/// # Errors
/// Any [`ImportError`]; nothing is left in the cache after one, except the importer's log when it broke.
pub fn import(
    request: &ImportRequest,
    registry: &Registry,
    tooling: &Tooling,
    cache: &Cache,
) -> Result<Imported, ImportError> {
    let resolved = resolve(request, registry)?;
    let key = cache_key(&resolved, tooling)?;
    let finish = |graph, provenance| Imported {
        graph,
        resolved: resolved.clone(),
        folder: cache.entry(&key),
        provenance,
    };
    if let Ok(graph) = cache.read(&key) {
        return Ok(finish(graph, Provenance::Cached));
    }
    let _lock = cache.lock(&key)?;
    // Another process may have finished the same import while this one waited for the lock.
    if let Ok(graph) = cache.read(&key) {
        return Ok(finish(graph, Provenance::Cached));
    }
    let started = Instant::now();
    let staging = cache.stage(&key)?;
    let folder =
        std::path::absolute(staging.folder()).map_err(|e| ImportError::io(staging.folder(), e))?;
    let mut order = serde_json::to_value(&resolved).unwrap_or_default();
    order["out"] = serde_json::Value::from(folder.to_string_lossy().into_owned());
    python::run(tooling, &order, &cache.log(&key))?;
    let graph =
        Graph::read(&folder.join("graph.json")).map_err(|message| ImportError::CorruptModel {
            message: format!("the importer's result is not readable: {message}"),
        })?;
    cache.publish(&key, &staging)?;
    Ok(finish(graph, Provenance::Fresh(started.elapsed())))
}
