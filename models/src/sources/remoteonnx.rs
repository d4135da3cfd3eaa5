//! Source `remoteonnx`: ONNX files of other machines, by address or by a name of the ONNX model zoo.

use super::{Context, ModelSource, Resolved};
use crate::error::{ImportError, Result};
use crate::files;
use crate::remote::{self, Wanted, hub};
use crate::sources::request::ImportRequest;

/// The source.
pub(super) struct RemoteOnnx;

impl ModelSource for RemoteOnnx {
    fn name(&self) -> &'static str {
        "remoteonnx"
    }

    fn naming(&self) -> &'static str {
        "give the http or https address of an ONNX file or a .tar.gz archive (with #sha256=HEX behind it to have it \
         checked), or a name of the ONNX model zoo"
    }

    /// The file's name without its endings.
    fn short_name(&self, model: &str) -> String {
        if !is_address(model) {
            return model.to_owned();
        }
        let name = remote::file_name(model);
        let endings = [".tar.gz", ".tgz", ".onnx"];
        let stem = endings.iter().find_map(|ending| name.strip_suffix(ending));
        stem.unwrap_or(&name).to_owned()
    }

    fn is_onnx(&self) -> bool {
        true
    }

    fn resolve(&self, request: &ImportRequest, context: &mut Context<'_>) -> Result<Resolved> {
        let wanted = match is_address(&request.model) {
            true => address(&request.model)?,
            false => hub::find(&request.model, context.cache, context.watch)?,
        };
        let file = remote::file(&wanted, context.cache, context.watch)?;
        files::require_model(&file)?;
        let file = std::path::absolute(&file).map_err(|e| ImportError::io(&file, e))?;
        Ok(Resolved {
            model: self.short_name(&request.model),
            ..Resolved::of_file(request, file)
        })
    }
}

fn is_address(model: &str) -> bool {
    model.starts_with("http://") || model.starts_with("https://")
}

/// The address, and the hash that may stand after it.
fn address(model: &str) -> Result<Wanted> {
    let Some((url, fragment)) = model.split_once('#') else {
        return Ok(Wanted {
            url: model.to_owned(),
            sha256: None,
        });
    };
    let hash = fragment.strip_prefix("sha256=").map(str::to_lowercase);
    match hash {
        Some(hash) if hash.len() == 64 && hash.bytes().all(|b| b.is_ascii_hexdigit()) => {
            Ok(Wanted {
                url: url.to_owned(),
                sha256: Some(hash),
            })
        }
        _ => Err(ImportError::BadSpec {
            spec: model.to_owned(),
            reason: "behind the # of an address stands sha256= and 64 hexadecimal digits"
                .to_owned(),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_addresses_have_no_endings() {
        assert_eq!(
            RemoteOnnx.short_name("https://a.b/c/resnet50-v2-7.tar.gz?raw=1"),
            "resnet50-v2-7"
        );
        assert_eq!(RemoteOnnx.short_name("http://a/net.onnx#sha256=00"), "net");
        assert_eq!(RemoteOnnx.short_name("mnist"), "mnist");
    }

    #[test]
    fn a_hash_is_a_whole_one() {
        let hash = "ab".repeat(32);
        let wanted = address(&format!("http://a/net.onnx#sha256={}", hash.to_uppercase())).unwrap();
        assert_eq!(
            (wanted.url.as_str(), wanted.sha256),
            ("http://a/net.onnx", Some(hash))
        );
        for bad in ["http://a/net.onnx#sha256=abc", "http://a/net.onnx#md5=00"] {
            assert!(
                address(bad)
                    .unwrap_err()
                    .to_string()
                    .contains("64 hexadecimal digits")
            );
        }
    }
}
