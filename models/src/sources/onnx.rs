//! Source `onnx`: the path of an ONNX file.

use std::path::Path;

use super::{Context, ModelSource, Resolved};
use crate::error::Result;
use crate::files;
use crate::sources::request::ImportRequest;

/// The source.
pub(super) struct Onnx;

impl ModelSource for Onnx {
    fn name(&self) -> &'static str {
        "onnx"
    }

    fn naming(&self) -> &'static str {
        "give the path of an ONNX file"
    }

    fn short_name(&self, model: &str) -> String {
        super::stem(model)
    }

    fn is_onnx(&self) -> bool {
        true
    }

    fn resolve(&self, request: &ImportRequest, _context: &mut Context<'_>) -> Result<Resolved> {
        files::require_model(Path::new(&request.model))?;
        Resolved::at_path(request)
    }
}
