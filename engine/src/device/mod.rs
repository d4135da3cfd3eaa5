//! Devices: what differs between kinds of hardware that operators are measured on.

mod conditions;

pub use conditions::Conditions;
