//! Source `tflite`: the path of a TFLite file. The importer's side is `opbench_import/tflite_files.py`.

use std::path::Path;

use super::{Context, ModelSource, Resolved};
use crate::error::ImportError;
use crate::files;
use crate::sources::request::ImportRequest;

/// The source.
pub(super) struct Tflite;

impl ModelSource for Tflite {
    fn name(&self) -> &'static str {
        "tflite"
    }

    fn naming(&self) -> &'static str {
        "give the path of a .tflite file"
    }

    fn short_name(&self, model: &str) -> String {
        super::stem(model)
    }

    fn resolve(
        &self,
        request: &ImportRequest,
        _context: &mut Context<'_>,
    ) -> Result<Resolved, ImportError> {
        let path = Path::new(&request.model);
        files::require_file(path, "a TFLite file")?;
        let file = std::path::absolute(path).map_err(|e| ImportError::io(path, e))?;
        Ok(Resolved {
            model: self.short_name(&request.model),
            ..Resolved::of_file(request, file)
        })
    }
}
