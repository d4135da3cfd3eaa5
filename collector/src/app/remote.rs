//! `opcollect serve-device`, and `opcollect list devices`.

use std::time::Duration;

use anyhow::Context as _;
use opdata::contract::{Environment, RemoteAddress};
use opengine::device::remote::{connect, facts};
use opengine::interrupt::Interrupt;
use opengine::serve::{ServeRequest, Server};
use opreport::output::show;
use opreport::table::{Column, Table};
use opreport::{Exit, View, units};
use serde_json::{Value, json};
use tvm_bridge::rpc::tracker::{Queue, Tracker};

/// Serves until the user wants to stop.
///
/// # Errors
/// Fails if the address cannot be bound, or sessions cannot be started.
pub(super) fn serve(request: &ServeRequest) -> anyhow::Result<Exit> {
    let program = std::env::current_exe().context("the path of this program")?;
    let interrupt = Interrupt::install()?;
    let mut log = |line: &str| eprintln!("{} {line}", opdata::Timestamp::now());
    let mut server = Server::new(request, program, &mut log)?;
    eprintln!("serving {} at {}", request.key, server.address());
    server.serve(&interrupt)?;
    Ok(Exit::Done)
}

/// Longest wait for a free server to say what it is.
const WAIT: Duration = Duration::from_secs(2);

/// A key of a tracker: its servers, and the facts of a free one about its machine.
struct Offered {
    key: String,
    queue: Queue,
    /// `None` if the server is a stock one, or if no server is free.
    machine: Option<Environment>,
    /// Time of a message to a free server and its answer.
    round_trip: Option<Duration>,
}

/// Lists what a tracker offers.
///
/// # Errors
/// Fails if there is no tracker.
pub(super) fn list(host: &str, port: u16, view: View) -> anyhow::Result<Exit> {
    let mut tracker = Tracker::connect(host, port)?;
    let queues = tracker.summary()?;
    let offered = queues.into_iter().map(|(key, queue)| {
        let address = RemoteAddress {
            host: host.to_owned(),
            port,
            key: key.clone(),
        };
        let server = (queue.free > 0).then(|| connect::connect_once(&address, &[], WAIT).ok());
        let server = server.flatten();
        let machine = server.as_ref().map(facts::of_server);
        let round_trip = server.and_then(|server| server.session.round_trip().ok());
        Offered {
            key,
            queue,
            machine: machine.filter(|machine| !machine.machine.arch.is_empty()),
            round_trip,
        }
    });
    let offered: Vec<Offered> = offered.collect();
    show(
        view,
        || Value::Array(offered.iter().map(Offered::json).collect()),
        |style| table(&offered).render(style),
    )?;
    Ok(Exit::Done)
}

fn table(offered: &[Offered]) -> Table {
    let mut table = Table::new(&[
        Column::left("key"),
        Column::right("servers"),
        Column::right("free"),
        Column::right("waiting"),
        Column::left("architecture"),
        Column::left("processor").shrinks_to(16),
        Column::right("cores"),
        Column::right("memory"),
        Column::right("round trip"),
        Column::left("kernel").hides(0),
        Column::left("addresses").hides(1),
    ]);
    for Offered {
        key,
        queue,
        machine,
        round_trip,
    } in offered
    {
        let of = |read: &dyn Fn(&Environment) -> Option<String>| {
            machine.as_ref().and_then(read).unwrap_or_default()
        };
        table.row(vec![
            key.clone().into(),
            queue.servers.len().to_string().into(),
            queue.free.to_string().into(),
            queue.waiting.to_string().into(),
            of(&|e| Some(e.machine.arch.clone())).into(),
            of(&|e| e.machine.cpu.name.clone()).into(),
            of(&|e| Some(e.state.cores_usable.to_string())).into(),
            of(&|e| Some(units::bytes(e.state.memory.total_bytes? as f64))).into(),
            round_trip
                .map(|time| units::time(time.as_nanos() as f64))
                .unwrap_or_default()
                .into(),
            of(&|e| e.state.kernel.clone()).into(),
            queue.servers.join(", ").into(),
        ]);
    }
    table
}

impl Offered {
    fn json(&self) -> Value {
        json!({
            "key": self.key,
            "servers": self.queue.servers,
            "free": self.queue.free,
            "waiting": self.queue.waiting,
            "round_trip_ns": self.round_trip.map(|time| time.as_nanos() as u64),
            "environment": self.machine,
        })
    }
}
