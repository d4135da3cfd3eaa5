//! Model registry, import and the operator graph.
//!
//! Owns the way from what a user names (`local resnet-18`, a path to an ONNX file, `simple conv2d:c=64`) to a cached
//! import: fused Relax IR as JSON, the values that come with the model, and a [`Graph`] that describes every distinct
//! operator, with the register tiles ([`tile`]) that suit it. The conversion itself is the Python program in
//! `models/python`, run once as a child process; this crate never touches TVM and never prints.
//!
//! ```no_run
//! # use opmodels::{import, Cache, ImportRequest, Registry, Source, Tooling};
//! # fn main() -> Result<(), opmodels::ImportError> {
//! let registry = Registry::load("models/registry.toml".as_ref())?;
//! let tooling = Tooling::new(".venv/bin/python", "models/python", "scripts/requirements.txt");
//! let request = ImportRequest::new(Source::Local, "resnet-18");
//! let imported = import(&request, &registry, &tooling, &Cache::new(".cache/imports"))?;
//! println!("{} operators", imported.graph.operators.len());
//! # Ok(())
//! # }
//! ```

mod cache;
mod describe;
mod error;
pub mod graph;
mod home;
mod import;
mod key;
mod python;
mod registry;
mod request;
mod resolve;
pub mod simple;
pub mod tile;

pub use cache::Cache;
pub use describe::describe;
pub use error::ImportError;
pub use graph::Graph;
pub use home::{HOME_VARIABLE, Home, NoHome};
pub use import::{Imported, Provenance, import};
pub use python::Tooling;
pub use registry::{Defaults, Model, ModelInput, Origin, Registry};
pub use request::{ImportRequest, InputOverride, Source};
pub use resolve::{Resolved, resolve};
