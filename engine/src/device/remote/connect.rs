//! From an address to a connected server: by a tracker, if one answers there, else directly.

use std::time::{Duration, Instant};

use anyhow::Context as _;
use opdata::contract::RemoteAddress;
use tvm_bridge::rpc::tracker::{Queue, Tracker, TrackerError};
use tvm_bridge::rpc::{self, Session};

/// Longest wait for a free server. A worker has a minute for all of its setup.
pub const WAIT: Duration = Duration::from_secs(45);
/// Maximum duration of a session on a server, seconds: a night of measurements.
const SESSION_SECONDS: u64 = 24 * 3600;
/// Pause before a tracker that is gone is looked for again.
const PAUSE: Duration = Duration::from_millis(500);

/// A connection to a server, and which one it is.
#[derive(Debug, Clone)]
pub struct Server {
    /// The connection.
    pub session: Session,
    /// Host and port of the server.
    pub address: String,
    /// Key and address of the request.
    pub asked: String,
}

impl Server {
    /// Ends this worker if the connection is lost, because a lost connection does not come back. The next worker
    /// connects anew.
    pub fn end_if_lost(&self) {
        if !self.session.is_alive() {
            eprintln!("the connection to the device is lost");
            std::process::exit(1);
        }
    }
}

/// Connects to a free server, waiting for one up to the given time. If the peer is not a server, or the connection is
/// lost at once, it tries again, because a server or a tracker may be restarting. Servers of `avoid` are taken only if
/// there are no others.
///
/// # Errors
/// Fails if there is none, or if it is lost at once.
pub fn connect(
    address: &RemoteAddress,
    avoid: &[String],
    wait: Duration,
) -> anyhow::Result<Server> {
    let deadline = Instant::now() + wait;
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        match connect_once(address, avoid, left) {
            Ok(server) => return Ok(server),
            Err(error) if Instant::now() + PAUSE >= deadline => return Err(error),
            Err(_) => std::thread::sleep(PAUSE),
        }
    }
}

/// Connects without another try.
///
/// # Errors
/// As for [`connect`].
pub fn connect_once(
    address: &RemoteAddress,
    avoid: &[String],
    wait: Duration,
) -> anyhow::Result<Server> {
    let RemoteAddress { host, port, key } = address;
    let asked = format!("{key} at {host}:{port}");
    let connected = |host: &str, port: u16, match_key: &str| {
        let session = Session::connect(host, port, match_key, SESSION_SECONDS);
        let session = session.with_context(|| format!("the server {host}:{port} of {key}"))?;
        anyhow::Ok(Server {
            session,
            address: format!("{host}:{port}"),
            asked: asked.clone(),
        })
    };
    match Tracker::connect(host, *port) {
        Ok(mut tracker) => {
            let queues = tracker.summary()?;
            anyhow::ensure!(
                queues
                    .get(key)
                    .is_some_and(|queue| !queue.servers.is_empty()),
                unknown_key(address, queues.keys().map(String::as_str))
            );
            let found = tracker.request(key, wait).with_context(|| {
                format!("no server of {key} came free; `opcollect list devices` shows who waits")
            })?;
            let own = format!("{}:{}", found.host, found.port);
            let others = queues.get(key).map_or(0, |queue| queue.servers.len());
            // A server that was requested and is not greeted offers itself again after some seconds.
            anyhow::ensure!(
                !avoid.contains(&own) || avoid.len() >= others,
                "{own} answers wrongly, and no other server of {key} came free"
            );
            connected(&found.host, found.port, &found.match_key)
        }
        // A server closes a connection that greets it as a tracker.
        Err(TrackerError::Stranger { .. }) => {
            // TVM's client trusts any server that answers, so the greeting is checked first.
            rpc::greet(host, *port, key)?;
            connected(host, *port, key)
        }
        Err(error) => Err(error.into()),
    }
}

/// The message about a key that no server has.
fn unknown_key<'a>(address: &RemoteAddress, keys: impl Iterator<Item = &'a str>) -> String {
    let keys: Vec<&str> = keys.collect();
    let known = match keys.is_empty() {
        true => "it has no servers at all".to_owned(),
        false => format!("it has {}", keys.join(", ")),
    };
    format!(
        "the tracker at {}:{} has no server of the key {}: {known}",
        address.host, address.port, address.key
    )
}

/// The servers of the key; one behind a direct address.
///
/// # Errors
/// Fails if nothing answers there, or no server has the key.
pub fn servers(address: &RemoteAddress) -> anyhow::Result<Queue> {
    match Tracker::connect(&address.host, address.port) {
        Ok(mut tracker) => {
            let mut queues = tracker.summary()?;
            let unknown = || unknown_key(address, queues.keys().map(String::as_str));
            let found = queues.get(&address.key);
            anyhow::ensure!(found.is_some_and(|q| !q.servers.is_empty()), unknown());
            Ok(queues.remove(&address.key).unwrap_or_default())
        }
        Err(TrackerError::Stranger { .. }) => Ok(Queue {
            servers: vec![format!("{}:{}", address.host, address.port)],
            free: 1,
            waiting: 0,
        }),
        Err(error) => Err(error.into()),
    }
}

/// Number of free servers of the key, at least one: others may be busy for hours. It waits a moment for servers whose
/// session has just ended.
///
/// # Errors
/// Fails as [`servers`] does.
pub fn free_servers(address: &RemoteAddress) -> anyhow::Result<u64> {
    /// Longest wait: a server offers itself again within a second.
    const MOMENT: Duration = Duration::from_secs(3);
    let deadline = Instant::now() + MOMENT;
    loop {
        let queue = servers(address)?;
        if queue.free >= queue.servers.len() as u64 || Instant::now() >= deadline {
            return Ok(queue.free.max(1));
        }
        std::thread::sleep(PAUSE / 5);
    }
}
