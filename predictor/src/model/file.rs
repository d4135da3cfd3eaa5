//! The `.opm` file: one trained model.
//!
//! `OPBENCHM`, the format (u32, little-endian), the content (JSON), and the SHA-256 of everything before it. The content
//! is the feature list and the model. Its trees are UBJSON of XGBoost in base64. A file of another format or feature
//! list is refused: its trees would read other columns than they were trained on.

use std::io::Read;
use std::path::Path;

use oplearn::features::{FEATURE_VERSION, FEATURES};
use oplearn::models::ensemble::Ensemble;
use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::error::{Error, Result};
use crate::model::trained::Trained;

/// The first bytes.
const MAGIC: &[u8; 8] = b"OPBENCHM";
/// The format of this build.
pub const FORMAT: u32 = 10;
const CHECKSUM_BYTES: usize = 32;
const PREFIX_BYTES: usize = MAGIC.len() + 4;
const RETRAIN: &str = "train it again with `oppredict train`";

#[derive(Serialize, Deserialize)]
struct Body<M> {
    feature_version: u32,
    features: Vec<String>,
    tool_version: String,
    model: M,
}

impl<M> Body<M> {
    /// Whether its features are those of this build.
    fn is_current(&self) -> bool {
        let names = FEATURES.iter().map(|feature| feature.name);
        self.feature_version == FEATURE_VERSION
            && names.eq(self.features.iter().map(String::as_str))
    }
}

/// Writes a model; the old file stays until the new one is whole.
///
/// # Errors
/// Fails if the file cannot be written, or XGBoost's library fails.
pub fn save(model: &Trained, path: &Path) -> Result<()> {
    let content = Body {
        feature_version: FEATURE_VERSION,
        features: FEATURES.iter().map(|f| f.name.to_owned()).collect(),
        tool_version: env!("CARGO_PKG_VERSION").to_owned(),
        model,
    };
    let mut bytes = [&MAGIC[..], &FORMAT.to_le_bytes()].concat();
    serde_json::to_writer(&mut bytes, &content).map_err(|e| damaged(path, e.to_string()))?;
    let checksum = Sha256::digest(&bytes);
    bytes.extend_from_slice(&checksum);
    opdata::write_atomically(path, &bytes)?;
    Ok(())
}

/// The bytes of a regular file: a device may have no end.
fn whole(path: &Path) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    opdata::open_regular(path)?.read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Reads a model.
///
/// # Errors
/// Fails if the file is missing, not a model, damaged, or of another format or feature list, or if XGBoost's library is
/// missing.
pub fn load(path: &Path) -> Result<Trained> {
    let bytes = whole(path).map_err(|error| Error::ModelFile {
        path: path.to_owned(),
        detail: format!("it cannot be read: {error}"),
        next: "check the path, or train a model with `oppredict train`",
    })?;
    let content = checked(path, &bytes)?;
    // A missing library is no damage of the file.
    oplearn::xgboost::version()?;
    let unreadable = |error| damaged(path, format!("its content is damaged: {error}"));
    let read: serde_json::Result<Body<Trained>> = serde_json::from_slice(content);
    // A model of other features may not even be readable.
    let is_current = read.as_ref().is_ok_and(Body::is_current);
    if !is_current {
        let seen: Body<IgnoredAny> = serde_json::from_slice(content).map_err(unreadable)?;
        if !seen.is_current() {
            return Err(damaged(
                path,
                format!(
                    "it was trained on version {} of the feature list ({} features), and this program has version \
                     {FEATURE_VERSION} ({})",
                    seen.feature_version,
                    seen.features.len(),
                    FEATURES.len()
                ),
            ));
        }
    }
    let model = read.map_err(unreadable)?.model;
    let fresh = model.adaptation.as_ref().and_then(|a| a.fresh.as_ref());
    let has_members = |ensemble: &Ensemble| !ensemble.members.is_empty();
    let fits = has_members(&model.ensemble)
        && fresh.is_none_or(|fresh| has_members(&fresh.alone))
        && model.neighbours.is_whole();
    if !fits {
        return Err(damaged(path, "its parts do not fit together".to_owned()));
    }
    Ok(model)
}

/// The content of a file, after every check that does not need to understand it.
fn checked<'a>(path: &Path, bytes: &'a [u8]) -> Result<&'a [u8]> {
    if bytes.len() < MAGIC.len() || &bytes[..MAGIC.len()] != MAGIC {
        return Err(Error::ModelFile {
            path: path.to_owned(),
            detail: "it is no model of oppredict".to_owned(),
            next: "name a file that `oppredict train` wrote",
        });
    }
    if bytes.len() < PREFIX_BYTES + CHECKSUM_BYTES {
        return Err(damaged(path, "it is cut short".to_owned()));
    }
    let format = u32::from_le_bytes([bytes[8], bytes[9], bytes[10], bytes[11]]);
    if format != FORMAT {
        return Err(damaged(
            path,
            format!("it has format {format}, and this program reads format {FORMAT}"),
        ));
    }
    let (content, checksum) = bytes.split_at(bytes.len() - CHECKSUM_BYTES);
    if Sha256::digest(content).as_slice() != checksum {
        return Err(damaged(
            path,
            "its checksum does not fit: it is damaged or cut short".to_owned(),
        ));
    }
    Ok(&content[PREFIX_BYTES..])
}

fn damaged(path: &Path, detail: String) -> Error {
    Error::ModelFile {
        path: path.to_owned(),
        detail,
        next: RETRAIN,
    }
}
