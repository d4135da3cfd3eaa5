//! The files written of a profile: one module for each kind.

pub mod comparison;
pub mod csv;
pub mod host_trace;
pub mod json;
mod layout;
pub mod parquet;
pub mod perfetto;
pub mod reginfo;
pub mod rows;
pub mod summary;
pub mod table;
pub mod web;
pub mod xlsx;
