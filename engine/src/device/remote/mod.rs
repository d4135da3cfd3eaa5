//! A device of another machine, behind a server of TVM's RPC: kernels are compiled and linked here, and run there.
//!
//! [`connect`] finds a server, by its tracker or directly. [`session`] is what a worker measures with, [`compiler`] links
//! and uploads ([`link`]), [`meter`] takes times from the server's own clock, so that the connection is no part of them.
//! [`facts`] asks what the machine is, [`counters`] what its processor counts. Which schedules there are is the device's own to say, as on this machine.

mod compiler;
pub mod connect;
pub(crate) mod counters;
pub mod facts;
mod link;
mod meter;
mod session;

use opdata::contract::RemoteAddress;
use tvm_bridge::DeviceKind;

use super::{Opening, Session};
use crate::schedule::Templates;

pub use link::{architecture_of, find_linker};

/// The name of the function by which `opcollect serve-device` says what its machine is.
pub const ENVIRONMENT: &str = "opbench.environment";

/// Opens a session on a free server of `address`, for kernels of `target` with these schedule templates.
///
/// # Errors
/// No server can be had, it does not serve this device, or there is no linker.
pub(super) fn open(
    address: &RemoteAddress,
    target: tvm_bridge::Target,
    kind: DeviceKind,
    templates: impl Fn() -> Box<dyn Templates> + 'static,
    opening: &Opening,
) -> anyhow::Result<Box<dyn Session>> {
    let linker = find_linker()?;
    let server = connect::connect(address, &opening.avoid, connect::WAIT)?;
    let session = session::RemoteSession::open(server, target, kind, Box::new(templates), linker)?;
    Ok(Box::new(session))
}
