//! Model registry, import and the operator graph.
//!
//! Owns the way from a user's name (`local resnet-18`, a path to an ONNX file, `simple conv2d:c=64`) to a cached
//! import. An import is fused Relax IR as JSON, the values that come with the model, and a [`Graph`]. The graph
//! describes every distinct operator, with the register tiles ([`tile`]) that suit it. The conversion itself is the
//! Python program in `models/python`, run once as a child process; this crate never touches TVM and never prints.
//!
//! ```no_run
//! # use opmodels::{Importer, ImportRequest, Source};
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let importer = Importer::new(&opinstall::Home::find()?, None)?;
//! let imported = importer.import(&ImportRequest::new(Source::LOCAL, "resnet-18"), &mut |_| {})?;
//! println!("{} operators", imported.graph.operators.len());
//! # Ok(())
//! # }
//! ```

mod cache;
mod composites;
pub mod deployed;
mod describe;
mod error;
mod files;
pub mod graph;
mod hex;
mod import;
mod key;
pub mod patterns;
mod python;
mod remote;
pub mod sources;
pub mod tile;

pub use cache::Cache;
pub use composites::{Composite, Composites};
pub use deployed::{Deployed, Form};
pub use describe::describe;
pub use error::ImportError;
pub use graph::Graph;
pub use import::{Imported, Importer, Provenance};
pub use python::Tooling;
pub use remote::{Transfer, Watch};
pub use sources::registry::{Defaults, Model, ModelInput, Origin, Registry};
pub use sources::request::{Fusion, ImportRequest, InputOverride};
pub use sources::simple;
pub use sources::{Resolved, Source};
