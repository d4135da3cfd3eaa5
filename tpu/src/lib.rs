//! Sophgo TPU profile dumps: parsing, matching, exports.
