//! What is written of a profile, a kind a file.

pub mod host_trace;
pub mod perfetto;
pub mod proto;
pub mod reginfo;
pub mod summary;
