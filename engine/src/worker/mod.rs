//! The child's side of measuring: kernels are built, checked and timed here, in a process of their own.
//!
//! [`mod@serve`] reads requests of [`crate::protocol`] and answers them. [`build`] and [`mod@bench`] do it for single
//! operators, [`whole_model`] and [`profile`] for whole models, and [`side_by_side`] for calls that run at the same
//! time. The parent's side is [`crate::runner`].

mod arguments;
mod bench;
mod build;
mod profile;
mod rotation;
mod serve;
mod shared;
mod side_by_side;
mod whole_model;

pub use serve::serve;
