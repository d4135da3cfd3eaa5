//! One import, cached: resolve the request, look into the cache, and run the importer when it is not there.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use opinstall::Home;

use crate::cache::Cache;
use crate::deployed::{Deployed, Form};
use crate::error::{ImportError, Result};
use crate::graph::Graph;
use crate::key::cache_key;
use crate::python::{self, Tooling};
use crate::remote::Watch;
use crate::sources::registry::Registry;
use crate::sources::request::ImportRequest;
use crate::sources::{Context, Resolved, resolve};

/// A finished import.
#[derive(Debug, Clone)]
pub struct Imported {
    /// The operators of the model.
    pub graph: Graph,
    /// The resolved request, with all defaults in place.
    pub resolved: Resolved,
    /// Folder of the import's files.
    pub folder: PathBuf,
    /// Whether the importer had to run.
    pub provenance: Provenance,
}

/// The origin of an import.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Provenance {
    /// Out of the cache.
    Cached,
    /// The importer ran for this long.
    Fresh(Duration),
}

/// Imports models: the registry, the Python program and the cache.
#[derive(Debug, Clone)]
pub struct Importer {
    /// The models of source `local`.
    pub registry: Registry,
    /// The Python program.
    pub tooling: Tooling,
    /// Where imports are kept.
    pub cache: Cache,
}

impl Importer {
    /// The importer of an installation, with another Python if one is given.
    ///
    /// # Errors
    /// Fails if the registry is missing or damaged.
    pub fn new(home: &Home, python: Option<&Path>) -> Result<Importer> {
        let python = python.map_or_else(|| home.python(), Path::to_path_buf);
        Ok(Importer {
            registry: Registry::load(&home.registry())?,
            tooling: Tooling::new(python, home.importer(), home.requirements()),
            cache: Cache::new(home.imports()),
        })
    }

    /// Imports a model, or finds the import in the cache.
    ///
    /// `watch` hears how far a download has come, for models of other machines.
    ///
    /// A damaged cache entry is imported again silently, because the result is the same.
    ///
    /// # Errors
    /// Fails with any [`ImportError`]. Then nothing is left in the cache, except the log of an importer that broke.
    pub fn import(&self, request: &ImportRequest, watch: &mut Watch<'_>) -> Result<Imported> {
        let resolved = self.resolved(request, watch)?;
        let cache = &self.cache;
        let key = cache_key(&resolved, &self.tooling)?;
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
        let read = |folder: &Path| Graph::read(&folder.join("graph.json"));
        let graph = run_importer(&self.tooling, cache, &resolved, &key, read)?;
        Ok(finish(graph, Provenance::Fresh(started.elapsed())))
    }

    /// A model in the form that another framework reads, out of the cache if it is there.
    ///
    /// # Errors
    /// Fails with any [`ImportError`]; with [`ImportError::BadShape`] for a source whose models have no such form.
    pub fn deploy(
        &self,
        request: &ImportRequest,
        form: Form,
        watch: &mut Watch<'_>,
    ) -> Result<Deployed> {
        form.check(request.source)?;
        let mut resolved = self.resolved(request, watch)?;
        resolved
            .details
            .insert("form".to_owned(), form.name().into());
        let key = cache_key(&resolved, &self.tooling)?;
        let find = || {
            let folder = self.cache.complete(&key)?;
            Deployed::read(&folder)
        };
        if let Ok(found) = find() {
            return Ok(found);
        }
        let _lock = self.cache.lock(&key)?;
        // Another process may have made it while this one waited for the lock.
        if let Ok(found) = find() {
            return Ok(found);
        }
        let made = run_importer(&self.tooling, &self.cache, &resolved, &key, Deployed::read)?;
        Ok(Deployed {
            folder: self.cache.entry(&key),
            ..made
        })
    }

    fn resolved(&self, request: &ImportRequest, watch: &mut Watch<'_>) -> Result<Resolved> {
        self.tooling.check()?;
        let mut context = Context {
            registry: &self.registry,
            cache: &self.cache,
            watch,
        };
        resolve(request, &mut context)
    }
}

/// Runs the importer and publishes what it made, once `read` can read it. Call with the lock held.
fn run_importer<T>(
    tooling: &Tooling,
    cache: &Cache,
    resolved: &Resolved,
    key: &str,
    read: impl FnOnce(&Path) -> Result<T, String>,
) -> Result<T> {
    let staging = cache.stage(key)?;
    let folder =
        std::path::absolute(staging.folder()).map_err(|e| ImportError::io(staging.folder(), e))?;
    let mut order = serde_json::to_value(resolved).unwrap_or_default();
    order["out"] = serde_json::Value::from(folder.to_string_lossy().into_owned());
    python::run(tooling, &order, &cache.log(key))?;
    let made = read(&folder).map_err(|message| ImportError::CorruptModel {
        message: format!("the importer's result is not readable: {message}"),
    })?;
    cache.publish(key, &staging)?;
    Ok(made)
}
