//! The templates on real operators.
