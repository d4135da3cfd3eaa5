//! Collects operator performance through TVM.
