//! A simulator of VTA, the int8 tensor accelerator of TVM, as built for PYNQ boards.
//!
//! A [`Workload`] and a [`Config`] are lowered to VTA's own instructions ([`mod@lower`]). The functional executor runs
//! them bit for bit ([`execute`]). The timing model says how long a board would take ([`timing`]). A [`Profile`] holds
//! the sizes of a hardware build and the parameters of its timing model.
//!
//! Nothing here measures anything: every time is simulated. Sources of the facts: the public hardware description and
//! runtime of VTA (apache/tvm-vta), and the compiler of TVM before VTA was removed.

pub mod config;
pub mod error;
pub mod execute;
pub mod file;
pub mod isa;
pub mod log;

pub mod lower;
pub mod profile;
pub mod reference;
pub mod show;

pub mod stream;
pub mod timing;
pub mod workload;

pub use config::{Config, Space};
pub use error::{Invalid, ProfileError, StreamError};
pub use lower::{Program, Tail, lower};
pub use profile::Profile;
pub use workload::Workload;
