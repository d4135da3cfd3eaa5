//! Facts about the machine of a server: from `opcollect serve-device`, or else unknown.

use std::time::Duration;

use opdata::contract::{Environment, RemoteAddress};

use super::ENVIRONMENT;
use super::connect::{Server, WAIT, connect_once, servers};

/// The environment of a server's machine. Of a stock server only its address is known, and that it is another machine
/// than this one. The fingerprint is a hash of the key and the address of the request.
pub fn of_server(server: &Server) -> Environment {
    let said = server.session.ask(ENVIRONMENT, "");
    let own = said.and_then(|text| serde_json::from_str::<Environment>(&text).ok());
    own.unwrap_or_else(|| unknown(&server.asked))
}

/// The environment of the machine behind an address. If there are several servers, each free one is asked. All must be the
/// same kind of machine, because rows of one run are from one machine.
///
/// # Errors
/// Fails if no server is available, or if two of them differ.
pub fn of_all(address: &RemoteAddress) -> anyhow::Result<Environment> {
    // Fails at once if nothing answers, instead of waiting.
    let count = servers(address)?.servers.len();
    let first = connect_once(address, &[], WAIT)?;
    let environment = of_server(&first);
    // While one is held, the tracker hands out the others.
    let mut held = vec![first];
    for _ in 1..count {
        let Ok(server) = connect_once(address, &[], Duration::from_secs(2)) else {
            break;
        };
        let other = of_server(&server);
        let (own, others) = (&environment, &other);
        let known = !own.machine.arch.is_empty() && !others.machine.arch.is_empty();
        anyhow::ensure!(
            !known || own.env_hash == others.env_hash,
            "the servers of {} are unlike machines: {} ({}) and {} ({}); give each kind a key of its own",
            address.key,
            own.machine.cpu.name.as_deref().unwrap_or("unknown"),
            held[0].address,
            others.machine.cpu.name.as_deref().unwrap_or("unknown"),
            server.address,
        );
        held.push(server);
    }
    Ok(environment)
}

fn unknown(asked: &str) -> Environment {
    let mut environment = Environment {
        format: opdata::contract::ENVIRONMENT_FORMAT,
        machine: Default::default(),
        state: Default::default(),
        software: Default::default(),
        env_hash: String::new(),
        calibration: None,
    };
    environment.machine.cpu.name = Some(format!("an unknown processor ({asked})"));
    environment.env_hash = environment.machine.hash();
    environment
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_machines_differ_by_key_and_address() {
        let (a, b) = (unknown("a at tracker:9190"), unknown("b at tracker:9190"));
        assert_ne!(a.env_hash, b.env_hash);
        assert_eq!(a.state.cores_usable, 0);
    }
}
