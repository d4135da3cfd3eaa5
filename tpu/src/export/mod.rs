//! What is written of a profile, a kind a file.

pub mod reginfo;
