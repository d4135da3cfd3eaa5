//! Composite operators in the forms of the sources, and an import's record of its steps.
//!
//! `models/patterns/patterns.toml` names small models of one composite operator each; every import leaves `steps.json`,
//! the operators of its file and the Relax operators that they became.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::error::{ImportError, Result};
use crate::files;
use crate::sources::Source;
use crate::sources::request::ImportRequest;

/// The format of patterns.toml that this crate reads.
const FORMAT: u32 = 1;

/// The file of all patterns.
#[derive(Debug, Deserialize)]
struct Patterns {
    format: u32,
    #[serde(rename = "pattern", default)]
    patterns: Vec<Pattern>,
}

/// One form of a composite operator.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Pattern {
    /// Its computation: `qconv2d`, `gelu`, …
    pub composite: String,
    /// The pattern in its source's own notation, for people.
    pub form: String,
    /// Source of the model.
    pub source: Source,
    /// The model, relative to patterns.toml.
    file: PathBuf,
    /// Folder of patterns.toml.
    #[serde(skip)]
    folder: PathBuf,
}

/// The steps of an import before anything fuses.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Steps {
    /// Operators of the model's file, in order.
    pub source: Vec<String>,
    /// Relax operators that they became.
    pub relax: Vec<String>,
}

impl Pattern {
    /// The patterns of a file.
    ///
    /// # Errors
    /// Fails with [`ImportError::MissingFile`] or [`ImportError::BadRegistry`].
    pub fn load(path: &Path) -> Result<Vec<Pattern>> {
        let bad = |reason: String| ImportError::BadRegistry {
            path: path.to_path_buf(),
            reason,
        };
        let read: Patterns = toml::from_str(&files::read_text(path)?)
            .map_err(|e| bad(e.to_string().trim().to_owned()))?;
        if read.format != FORMAT {
            return Err(bad(format!(
                "format {} is not {FORMAT}, which this program reads",
                read.format
            )));
        }
        let folder = path.parent().unwrap_or(Path::new("."));
        let placed = read.patterns.into_iter().map(|pattern| Pattern {
            folder: folder.to_path_buf(),
            ..pattern
        });
        Ok(placed.collect())
    }

    /// The request to import it.
    #[must_use]
    pub fn request(&self) -> ImportRequest {
        ImportRequest::new(self.source, self.folder.join(&self.file).to_string_lossy())
    }
}

impl Steps {
    /// The steps of the import in a folder.
    ///
    /// # Errors
    /// Fails if the file is missing or damaged.
    pub fn read(folder: &Path) -> Result<Steps> {
        let path = folder.join("steps.json");
        let text = files::read_text(&path)?;
        serde_json::from_str(&text).map_err(|e| ImportError::CorruptModel {
            message: format!("{}: {e}", path.display()),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_lie_beside_their_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("patterns.toml");
        let entry = "[[pattern]]\ncomposite = \"gelu\"\nform = \"ONNX\"\nsource = \"onnx\"\nfile = \"g.onnx\"\n";
        std::fs::write(&path, format!("format = 1\n{entry}")).unwrap();
        let patterns = Pattern::load(&path).unwrap();
        let request = patterns[0].request();
        assert_eq!(request.source, Source::ONNX);
        assert_eq!(Path::new(&request.model), folder.path().join("g.onnx"));
        std::fs::write(&path, format!("format = 2\n{entry}")).unwrap();
        let error = Pattern::load(&path).unwrap_err().to_string();
        assert!(error.contains("format 2"), "{error}");
        std::fs::write(&path, entry.replace("onnx\"\nfile", "abacus\"\nfile")).unwrap();
        assert!(Pattern::load(&path).is_err());
    }
}
