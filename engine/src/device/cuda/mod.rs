//! NVIDIA GPUs through TVM's CUDA code.

#![allow(dead_code)]

mod templates;
