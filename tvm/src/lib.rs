//! Every call into TVM's FFI.
