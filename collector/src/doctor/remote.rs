//! Checks of `doctor --host` on another machine: tracker, key, architecture, versions, linker.

use std::time::Duration;

use opdata::contract::RemoteAddress;
use opengine::device::Target;
use opengine::device::remote::{architecture_of, connect, facts, find_linker};
use tvm_bridge::libs::TVM_VERSION;

use super::check::Check;

/// Longest wait for a free server.
const WAIT: Duration = Duration::from_secs(5);

/// Checks the servers at an address, for kernels of a target.
pub fn check_remote(address: &RemoteAddress, target: &Target) -> Vec<Check> {
    let mut checks = vec![match find_linker() {
        Ok(linker) => Check::ok("linker", linker.display().to_string()),
        Err(error) => Check::fail("linker", "none", error.to_string()),
    }];
    let server = match connect::connect_once(address, &[], WAIT) {
        Ok(server) => server,
        Err(error) => {
            checks.push(Check::fail(
                "server",
                format!("{error:#}"),
                "start a tracker (python -m tvm.exec.rpc_tracker) and a server (opcollect serve-device \
                 --tracker HOST:PORT --key KEY), or give the key of one that is there: opcollect list devices"
                    .to_owned(),
            ));
            return checks;
        }
    };
    let found = format!("{} of {}", server.address, address.key);
    let machine = facts::of_server(&server);
    if machine.machine.arch.is_empty() {
        checks.push(Check::ok(
            "server",
            format!(
                "{found}: a stock server, which says nothing of its machine; rows have times alone"
            ),
        ));
        return checks;
    }
    let name = machine
        .machine
        .cpu
        .name
        .as_deref()
        .unwrap_or("unknown processor");
    checks.push(Check::ok("server", format!("{found}: {name}")));
    let wanted = target
        .value("mtriple")
        .map_or(std::env::consts::ARCH, architecture_of);
    checks.push(match machine.machine.arch == wanted {
        true => Check::ok("architecture", wanted.to_owned()),
        false => Check::fail(
            "architecture",
            format!(
                "the server is of {}, the target of {wanted}",
                machine.machine.arch
            ),
            format!(
                "give --target \"llvm -mtriple={}-linux-gnu\"",
                machine.machine.arch
            ),
        ),
    });
    let version = machine.software.versions.get("apache-tvm");
    checks.push(
        match version.is_some_and(|version| version == TVM_VERSION) {
            true => Check::ok("versions", format!("TVM {TVM_VERSION} on both sides")),
            false => Check::fail(
                "versions",
                format!(
                    "TVM {TVM_VERSION} here, {} there",
                    version.map_or("an unknown one", String::as_str)
                ),
                "install the same version on both: the protocol may differ".to_owned(),
            ),
        },
    );
    checks
}
