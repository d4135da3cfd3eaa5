//! Sources `tflite`, `stablehlo` and `tvm`: the path of one file that the importer reads by itself. Its side is
//! `opbench_import/{tflite,stablehlo,tvm}_files.py`.

use std::path::Path;

use super::{Context, ModelSource, Resolved};
use crate::error::Result;
use crate::files;
use crate::sources::request::ImportRequest;

/// A source whose models are files of one format.
pub(super) struct SingleFile {
    name: &'static str,
    naming: &'static str,
    /// The expected kind of file.
    wanted: &'static str,
    extra: Option<&'static str>,
}

/// TFLite's flatbuffers.
pub(super) static TFLITE: SingleFile = SingleFile {
    name: "tflite",
    naming: "give the path of a .tflite file",
    wanted: "a TFLite file",
    extra: None,
};

/// StableHLO modules, as JAX and others write them.
pub(super) static STABLEHLO: SingleFile = SingleFile {
    name: "stablehlo",
    naming: "give the path of a StableHLO module, as text (.mlir) or as a portable artifact",
    wanted: "a StableHLO file",
    extra: Some("stablehlo"),
};

/// Relax modules of TVM's own.
pub(super) static TVM: SingleFile = SingleFile {
    name: "tvm",
    naming: "give the path of a Relax module: JSON of tvm.ir.save_json, or TVMScript (.py)",
    wanted: "a TVM module",
    extra: None,
};

impl ModelSource for SingleFile {
    fn name(&self) -> &'static str {
        self.name
    }

    fn naming(&self) -> &'static str {
        self.naming
    }

    fn short_name(&self, model: &str) -> String {
        super::stem(model)
    }

    fn extra(&self) -> Option<&'static str> {
        self.extra
    }

    fn resolve(&self, request: &ImportRequest, _context: &mut Context<'_>) -> Result<Resolved> {
        files::require_file(Path::new(&request.model), self.wanted)?;
        Resolved::at_path(request)
    }
}
