//! The ONNX model zoo by name, through its manifest.
//!
//! Format: `ONNX_HUB_MANIFEST.json` of github.com/onnx/models, a list of models with their paths in that repository,
//! which `onnx.hub` of the Python package reads too. A name may have several versions of the operator set; the newest
//! wins.

use opreport::nearest::nearest;
use serde::Deserialize;

use super::{Wanted, Watch, file};
use crate::cache::Cache;
use crate::error::{ImportError, Result, did_you_mean};

/// Environment variable with the address of another hub of the same form, without a slash at its end.
pub(crate) const HUB_VARIABLE: &str = "OPBENCH_MODEL_HUB";
/// Server of the repository's large files.
const HUB: &str = "https://media.githubusercontent.com/media/onnx/models/main";
/// Where its manifest is: a small file, kept elsewhere by that server.
const MANIFEST: &str = "https://raw.githubusercontent.com/onnx/models/main/ONNX_HUB_MANIFEST.json";
/// Name of the manifest in a hub.
const MANIFEST_NAME: &str = "ONNX_HUB_MANIFEST.json";

/// A model of the manifest; other members mean nothing here.
#[derive(Debug, Deserialize)]
struct Listed {
    model: String,
    model_path: String,
    opset_version: u64,
    metadata: Metadata,
}

#[derive(Debug, Deserialize)]
struct Metadata {
    model_sha: Option<String>,
    model_with_data_path: Option<String>,
    model_with_data_sha: Option<String>,
}

/// The file to fetch for a name: the archive with inputs and outputs for a check, if there is one.
///
/// # Errors
/// Fails if the manifest is not available or not readable, or has no such name.
pub(crate) fn find(name: &str, cache: &Cache, watch: &mut Watch<'_>) -> Result<Wanted> {
    let other = std::env::var(HUB_VARIABLE)
        .ok()
        .filter(|hub| !hub.is_empty());
    let hub = other.as_deref().unwrap_or(HUB);
    let manifest = match &other {
        Some(hub) => format!("{hub}/{MANIFEST_NAME}"),
        None => MANIFEST.to_owned(),
    };
    let path = file(
        &Wanted {
            url: manifest,
            sha256: None,
        },
        cache,
        watch,
    )?;
    let text = std::fs::read(&path).map_err(|e| ImportError::io(&path, e))?;
    choose(name, hub, &text).map_err(|reason| match reason {
        Reason::Damaged(reason) => ImportError::CorruptModel {
            message: format!("{}: not the manifest of a model hub ({reason}); remove it to fetch it again", path.display()),
        },
        Reason::Unknown(nearest) => ImportError::NotInLibrary {
            message: format!(
                "no model '{name}' in {}{}; give the address of an ONNX file or a .tar.gz archive instead",
                path.display(),
                did_you_mean(&nearest)
            ),
        },
    })
}

/// Why a name gave nothing to fetch.
#[derive(Debug)]
enum Reason {
    Damaged(String),
    Unknown(Vec<String>),
}

fn choose(name: &str, hub: &str, manifest: &[u8]) -> Result<Wanted, Reason> {
    let models: Vec<Listed> =
        serde_json::from_slice(manifest).map_err(|e| Reason::Damaged(e.to_string()))?;
    let simple = |name: &str| name.to_lowercase().replace([' ', '_'], "-");
    let found = models
        .iter()
        .filter(|m| simple(&m.model) == simple(name))
        .max_by_key(|m| m.opset_version);
    let Some(found) = found else {
        let mut names: Vec<&str> = models.iter().map(|m| m.model.as_str()).collect();
        names.dedup();
        let close = nearest(name, names);
        return Err(Reason::Unknown(
            close.into_iter().map(str::to_owned).collect(),
        ));
    };
    let metadata = &found.metadata;
    let (path, sha256) = match &metadata.model_with_data_path {
        Some(path) => (path, &metadata.model_with_data_sha),
        None => (&found.model_path, &metadata.model_sha),
    };
    Ok(Wanted {
        url: format!("{hub}/{path}"),
        sha256: sha256.as_ref().map(|hash| hash.to_lowercase()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const MANIFEST: &str = r#"[
        {"model": "MNIST", "model_path": "vision/mnist-7.onnx", "opset_version": 7, "metadata": {"model_sha": "AA"}},
        {"model": "MNIST", "model_path": "vision/mnist-12.onnx", "opset_version": 12, "onnx_version": "1.9",
         "metadata": {"model_sha": "BB", "model_with_data_path": "vision/mnist-12.tar.gz", "model_with_data_sha": "cc"}},
        {"model": "ResNet50-v2", "model_path": "vision/resnet50-v2-7.onnx", "opset_version": 7, "metadata": {"model_sha": "DD"}}
    ]"#;

    fn chosen(name: &str) -> Result<Wanted, Reason> {
        choose(name, "https://hub", MANIFEST.as_bytes())
    }

    #[test]
    fn the_newest_version_with_data_wins() {
        let wanted = chosen("mnist").unwrap();
        assert_eq!(wanted.url, "https://hub/vision/mnist-12.tar.gz");
        assert_eq!(wanted.sha256.as_deref(), Some("cc"));
        let wanted = chosen("resnet50_v2").unwrap();
        assert_eq!(wanted.url, "https://hub/vision/resnet50-v2-7.onnx");
        assert_eq!(wanted.sha256.as_deref(), Some("dd"));
    }

    #[test]
    fn unknown_names_have_neighbours_and_damage_is_named() {
        let Err(Reason::Unknown(nearest)) = chosen("mnits") else {
            panic!("there is no such model")
        };
        assert_eq!(nearest, ["MNIST"]);
        assert!(matches!(
            choose("mnist", "", b"<html>"),
            Err(Reason::Damaged(_))
        ));
    }
}
