//! A device of another machine, behind a server of TVM's RPC: kernels are compiled and linked here, and run there.
//!
//! [`connect`] finds a server, by its tracker or directly. [`session`] is what a worker measures with. [`compiler`] links
//! and uploads (`link`). [`meter`] takes times from the server's own clock, so the connection is no part of them.
//! [`facts`] asks what the machine is, [`counters`] what its processor counts, [`equal`] whether outputs there are as
//! those that were checked. The device's own templates decide the schedules, as on this machine.

mod compiler;
pub mod connect;
pub(crate) mod counters;
mod equal;
pub mod facts;
mod link;
mod meter;
mod session;

use std::sync::Arc;

use opdata::contract::RemoteAddress;
use opdata::contract::device_kernel::DeviceKernel;
use tvm_bridge::{Device, DeviceKind, KernelLaunch, PrimFunc, Target, Tensor};

use super::{Opening, Program, Session};
use crate::schedule::Templates;

pub(crate) use link::link;
pub use link::{architecture_of, find_linker};

/// The name of the function by which `opcollect serve-device` says what its machine is.
pub const ENVIRONMENT: &str = "opbench.environment";

/// An accelerator of another machine: what its session needs beside code of the processor.
pub(super) trait RemoteDevice: Send + Sync {
    /// Checks that the server has the device, and that it runs code for the target.
    ///
    /// # Errors
    /// Fails if it does not.
    fn check(&self, device: Device) -> anyhow::Result<()>;

    /// Compiles the source of kernels to machine code, with a description of them if they are those of one program.
    ///
    /// # Errors
    /// Fails if the source is refused.
    fn compile(
        &self,
        source: &str,
        of: Option<(Program<'_>, &[KernelLaunch])>,
    ) -> anyhow::Result<(Vec<u8>, Vec<DeviceKernel>)>;

    /// A fixed piece of arithmetic on the device, and its arguments.
    ///
    /// # Errors
    /// Fails if TVM does.
    fn reference(&self) -> tvm_bridge::Result<(PrimFunc, Vec<Tensor>)>;
}

/// A device on another machine.
pub(super) struct DeviceThere {
    /// The target that kernels are compiled for.
    pub target: Target,
    /// TVM's kind of the device.
    pub kind: DeviceKind,
    /// Makes its schedule templates.
    pub templates: Box<dyn Fn() -> Box<dyn Templates>>,
    /// `None` if kernels run on the processor itself.
    pub accelerator: Option<Arc<dyn RemoteDevice>>,
}

/// Opens a session on a free server of `address`.
///
/// # Errors
/// Fails if there is no free server, if it does not serve this device, or if there is no linker.
pub(super) fn open(
    address: &RemoteAddress,
    device: DeviceThere,
    opening: &Opening,
) -> anyhow::Result<Box<dyn Session>> {
    let linker = find_linker()?;
    let server = connect::connect(address, &opening.avoid, connect::WAIT)?;
    let session = session::RemoteSession::open(server, device, linker)?;
    Ok(Box::new(session))
}
