//! The run with scripted workers.
