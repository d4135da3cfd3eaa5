//! The typed values of a row beyond numbers and plain text.
//!
//! Each has one text form, the same in every file format, given by its `Display` and read by its
//! `FromStr`. Nothing here knows about files.

mod decisions;
mod device_kind;
mod json_text;
mod loop_nest;
mod shapes;
mod timestamp;
mod words;

pub use decisions::Decisions;
pub use device_kind::DeviceKind;
pub use json_text::JsonText;
pub(crate) use json_text::fault as json_fault;
pub use loop_nest::{Loop, LoopKind, LoopNest};
pub use shapes::{Dims, Shapes};
pub use timestamp::Timestamp;
pub use words::{CacheState, Quality, Status};
