//! A model as another framework runs it: a file for that framework, with inputs and the outputs to expect.
//!
//! `deployed.json` of an import in another [`Form`], format 2; values lie in `tensors.bin`, raw and little-endian.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::error::{ImportError, Result};
use crate::graph::ByteRange;
use crate::sources::Source;

/// The only format of deployed.json that this crate reads.
const FORMAT: u32 = 2;
/// The extra whose sources build their models in PyTorch.
const TORCH: &str = "torch";

/// The form of a model, besides TVM's operators.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// TorchScript, for libtorch.
    TorchScript,
    /// One ONNX file with a value for every weight, for ONNX Runtime.
    Onnx,
}

impl Form {
    /// The importer's word for it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Form::TorchScript => "torchscript",
            Form::Onnx => "onnx",
        }
    }

    /// Whether models of a source have this form.
    pub fn fits(self, source: Source) -> bool {
        let is_torch = source.extra() == Some(TORCH);
        match self {
            Form::TorchScript => is_torch,
            Form::Onnx => is_torch || source.is_onnx(),
        }
    }

    /// Refuses sources whose models have no such form.
    ///
    /// # Errors
    /// Fails with [`ImportError::BadShape`], which names the sources that have one.
    pub fn check(self, source: Source) -> Result<()> {
        if self.fits(source) {
            return Ok(());
        }
        let message = match self {
            Form::TorchScript => format!(
                "libtorch runs models of PyTorch: give --modelsource torch or transformers, not {source}"
            ),
            Form::Onnx => format!("a model of source {source} cannot be made into an ONNX file"),
        };
        Err(ImportError::BadShape { message })
    }
}

/// A model in the form of another framework.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Deployed {
    /// Format of the file.
    pub format: u32,
    /// The model's name.
    pub model: String,
    /// Samples at once.
    pub batch: u64,
    /// Name of the framework's file in the folder.
    pub file: String,
    /// Inputs in the order of the model's arguments.
    pub inputs: Vec<StoredTensor>,
    /// Outputs to expect for them.
    pub outputs: Vec<StoredTensor>,
    /// The program that computed them.
    pub origin: String,
    /// Tolerance of the outputs, over the largest expected value.
    pub rtol: f64,
    /// Folder of the files.
    #[serde(skip)]
    pub folder: PathBuf,
}

/// A tensor in tensors.bin.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredTensor {
    /// Its name.
    pub name: String,
    /// Its extents.
    pub shape: Vec<u64>,
    /// Element type, as NumPy names it.
    pub dtype: String,
    /// Range of bytes of the tensor.
    #[serde(flatten)]
    pub place: ByteRange,
}

impl Deployed {
    /// Reads deployed.json in a folder.
    pub(crate) fn read(folder: &Path) -> Result<Deployed, String> {
        let path = folder.join("deployed.json");
        let failed = |reason: String| format!("{}: {reason}", path.display());
        let text = std::fs::read(&path).map_err(|e| failed(e.to_string()))?;
        let read: Deployed = serde_json::from_slice(&text).map_err(|e| failed(e.to_string()))?;
        if read.format != FORMAT {
            return Err(failed(format!("format {} is not {FORMAT}", read.format)));
        }
        Ok(Deployed {
            folder: folder.to_owned(),
            ..read
        })
    }

    /// The framework's file.
    pub fn path(&self) -> PathBuf {
        self.folder.join(&self.file)
    }

    /// The file of the tensors' values.
    pub fn tensors(&self) -> PathBuf {
        self.folder.join("tensors.bin")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_models_of_pytorch_become_torchscript() {
        let refused = Form::TorchScript.check(Source::LOCAL).unwrap_err();
        assert!(refused.is_usage(), "{refused}");
        assert!(refused.to_string().contains("--modelsource torch"));
        for name in ["torch", "transformers"] {
            let source = Source::find(name).unwrap();
            assert!(Form::TorchScript.check(source).is_ok());
        }
    }

    #[test]
    fn models_of_pytorch_and_onnx_files_become_onnx_files() {
        let (can, cannot): (Vec<&str>, Vec<&str>) = crate::sources::names()
            .iter()
            .partition(|name| Form::Onnx.fits(Source::find(name).unwrap()));
        assert_eq!(
            can,
            [
                "local",
                "onnx",
                "remoteonnx",
                "transformers",
                "torch",
                "simple"
            ]
        );
        let source = Source::find(cannot[0]).unwrap();
        let refused = Form::Onnx.check(source).unwrap_err().to_string();
        assert!(refused.contains(cannot[0]), "{refused}");
    }

    #[test]
    fn what_the_importer_writes_reads_back_and_other_formats_do_not() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("deployed.json");
        let text = r#"{"format":2,"source":"torch","model":"net","batch":2,"file":"model.pt","versions":{},"outputs":[],
            "origin":"PyTorch","rtol":1e-3,
            "inputs":[{"name":"x","shape":[2,8],"dtype":"float32","offset":64,"bytes":64}]}"#;
        std::fs::write(&path, text).unwrap();
        let read = Deployed::read(folder.path()).unwrap();
        assert_eq!(read.inputs[0].place.offset, 64);
        assert_eq!(read.path(), folder.path().join("model.pt"));
        std::fs::write(&path, text.replace("\"format\":2", "\"format\":9")).unwrap();
        assert!(
            Deployed::read(folder.path())
                .unwrap_err()
                .contains("format 9")
        );
    }
}
