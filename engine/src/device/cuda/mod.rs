//! NVIDIA GPUs through TVM's CUDA code.

#![allow(dead_code)]

#[cfg(test)]
mod emulation;
mod templates;
