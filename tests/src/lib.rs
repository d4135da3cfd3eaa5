//! End-to-end tests of the commands.
