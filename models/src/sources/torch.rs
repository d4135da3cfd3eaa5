//! Source `torch`: models of torchvision and timm by name, and files of PyTorch. The importer's side is
//! `opbench_import/torch_models.py`.

use std::path::Path;

use super::{Context, ModelSource, Resolved, transformers};
use crate::error::{ImportError, Result};
use crate::files;
use crate::sources::request::ImportRequest;

/// The source.
pub(super) struct Torch;

/// Endings of files that hold a model: exported programs, and TorchScript.
const PROGRAMS: [&str; 3] = ["pt2", "pt", "pth"];
/// Ending of files that hold weights alone.
const WEIGHTS: &str = "safetensors";

impl ModelSource for Torch {
    fn name(&self) -> &'static str {
        "torch"
    }

    fn naming(&self) -> &'static str {
        "name a model of torchvision or timm, e.g. --modelname resnet18 or timm/dpn68, or give the path of a .pt2, .pt or \
         .safetensors file"
    }

    fn extra(&self) -> Option<&'static str> {
        Some("torch")
    }

    /// A file's stem, or the name itself.
    fn short_name(&self, model: &str) -> String {
        match ending(model) {
            Some(_) => super::stem(model),
            None => model.to_owned(),
        }
    }

    fn resolve(&self, request: &ImportRequest, _context: &mut Context<'_>) -> Result<Resolved> {
        let path = Path::new(&request.model);
        let Some(ending) = ending(&request.model) else {
            return Ok(Resolved::named(request));
        };
        files::require_file(path, "a model of PyTorch")?;
        if ending == WEIGHTS {
            // Weights alone are no model: the configuration beside them names it.
            let folder = path.parent().unwrap_or(Path::new(""));
            let config = folder.join(transformers::CONFIG);
            files::require_file(&config, "the configuration of the weights")?;
            let config = std::path::absolute(&config).map_err(|e| ImportError::io(&config, e))?;
            return transformers::built(request, self.short_name(&request.model), Some(config));
        }
        Resolved::at_path(request)
    }
}

/// The ending that makes a name a file's.
fn ending(model: &str) -> Option<&str> {
    let ending = Path::new(model).extension()?.to_str()?;
    (PROGRAMS.contains(&ending) || ending == WEIGHTS).then_some(ending)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_endings_of_files_make_a_file() {
        assert_eq!(ending("resnet18"), None);
        assert_eq!(ending("timm/resnet18.a1_in1k"), None);
        assert_eq!(ending("nets/net.pt2"), Some("pt2"));
        assert_eq!(Torch.short_name("nets/net.pt2"), "net");
        assert_eq!(Torch.short_name("timm/dpn68"), "timm/dpn68");
    }
}
