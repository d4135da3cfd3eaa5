//! `opcollect serve-device`: this machine as a server of TVM's RPC, for clients that measure on it.
//!
//! [`Server`] listens, registers with a tracker and greets clients ([`greeting`]). It gives each session a process of
//! its own ([`session`]), with limits on time, memory and permissions ([`sandbox`]). The server itself runs no code of
//! a client, and survives the failure of any session.

mod greeting;
mod sandbox;
mod session;

use std::io::Read as _;
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use tvm_bridge::rpc::tracker::{Tracker, TrackerError};

use crate::interrupt::Interrupt;
use greeting::Client;
pub use session::{SESSION, serve_session};

/// How often the tracker is asked whether the offer still stands.
const PING: Duration = Duration::from_secs(2);
/// Number of pings without the offer after which it is made anew: a client took it and never came.
const LOST_AFTER: u32 = 4;
/// Pause between looks for a client.
const GLANCE: Duration = Duration::from_millis(20);
/// Pause before a tracker that is gone is looked for again.
const RETRY: Duration = Duration::from_secs(1);

/// A number that nobody can guess.
fn random() -> std::io::Result<u64> {
    let mut bytes = [0; 8];
    std::fs::File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(u64::from_le_bytes(bytes))
}

/// Settings of the server.
#[derive(Debug, Clone, PartialEq)]
pub struct ServeRequest {
    /// Address to listen at.
    pub bind: IpAddr,
    /// Port to listen at; any free one if 0.
    pub port: u16,
    /// The key to register under; without a tracker, what clients must say.
    pub key: String,
    /// Host and port of the tracker, if there is one.
    pub tracker: Option<(String, u16)>,
    /// Clients that may connect; all if empty.
    pub allow: Vec<IpAddr>,
    /// Longest session.
    pub session_limit: Duration,
    /// Maximum memory of a session, MiB.
    pub memory_mib: u64,
    /// Number of sessions to serve before it ends. `None` for no limit.
    pub sessions: Option<u64>,
}

/// A server that listens.
pub struct Server<'a> {
    request: &'a ServeRequest,
    /// The program whose sessions it starts.
    program: PathBuf,
    listener: TcpListener,
    address: SocketAddr,
    tracker: Option<Tracker>,
    /// The key that the next client must send.
    match_key: String,
    offers: u64,
    log: &'a mut dyn FnMut(&str),
}

impl<'a> Server<'a> {
    /// Begins to listen. `program` is the path of this program; `log` gets one line for each session.
    ///
    /// # Errors
    /// Fails if the address cannot be bound.
    pub fn new(
        request: &'a ServeRequest,
        program: PathBuf,
        log: &'a mut dyn FnMut(&str),
    ) -> anyhow::Result<Server<'a>> {
        if !sandbox::can_filter() {
            log(
                "this system cannot filter calls (seccomp): a client's kernel may start programs here",
            );
        }
        let wanted = SocketAddr::new(request.bind, request.port);
        let listener =
            TcpListener::bind(wanted).with_context(|| format!("cannot listen at {wanted}"))?;
        listener.set_nonblocking(true)?;
        Ok(Server {
            address: listener.local_addr()?,
            request,
            program,
            listener,
            tracker: None,
            match_key: request.key.clone(),
            offers: 0,
            log,
        })
    }

    /// The address on which the server listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Serves one session after the other until the user wants to stop.
    ///
    /// # Errors
    /// Fails if sessions cannot be started any more.
    pub fn serve(&mut self, interrupt: &Interrupt) -> anyhow::Result<()> {
        let mut served = 0;
        while self.request.sessions.is_none_or(|most| served < most) {
            let Some((stream, peer)) = self.next_client(interrupt)? else {
                break;
            };
            let greeted = greeting::greet(stream, &self.match_key, &self.request.key);
            match greeted {
                Ok(client) => {
                    served += 1;
                    self.session(client, peer, interrupt)?;
                    self.match_key = self.request.key.clone();
                }
                Err(reason) => (self.log)(&format!("{peer}: refused: {reason}")),
            }
        }
        Ok(())
    }

    /// One session, from its greeting to its end.
    fn session(
        &mut self,
        client: Client,
        peer: SocketAddr,
        interrupt: &Interrupt,
    ) -> anyhow::Result<()> {
        let start = Instant::now();
        let limits = session::Limits {
            time: client
                .seconds
                .map_or(self.request.session_limit, Duration::from_secs_f64)
                .min(self.request.session_limit),
            memory_mib: self.request.memory_mib,
        };
        let end = session::run(&self.program, client.stream, limits, interrupt)?;
        let took = start.elapsed().as_secs_f64();
        (self.log)(&format!("{peer}: session of {took:.1} s, {end}"));
        Ok(())
    }

    /// Waits for a client who may connect; nothing if the user wants to stop.
    fn next_client(
        &mut self,
        interrupt: &Interrupt,
    ) -> anyhow::Result<Option<(TcpStream, SocketAddr)>> {
        let mut pinged = Instant::now();
        let mut without = 0;
        // A session has taken the last offer.
        let mut offered = false;
        while !interrupt.requested() {
            if !offered {
                offered = self.offer();
                if !offered {
                    std::thread::sleep(RETRY);
                }
            }
            match self.listener.accept() {
                Ok((stream, peer)) => {
                    let allow = &self.request.allow;
                    if allow.is_empty() || allow.contains(&peer.ip()) {
                        return Ok(Some((stream, peer)));
                    }
                    (self.log)(&format!("{peer}: refused: not one of the allowed clients"));
                }
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {
                    std::thread::sleep(GLANCE);
                }
                // A client that has gone already.
                Err(error) if error.kind() == std::io::ErrorKind::ConnectionAborted => {}
                Err(error) => return Err(error).context("waiting for clients"),
            }
            if pinged.elapsed() >= PING {
                pinged = Instant::now();
                without = match self.is_pending() {
                    Ok(true) => 0,
                    Ok(false) => without + 1,
                    Err(error) => {
                        (self.log)(&format!("{error}; looking for it again"));
                        self.tracker = None;
                        offered = false;
                        0
                    }
                };
                if without >= LOST_AFTER {
                    without = 0;
                    offered = false;
                }
            }
        }
        Ok(None)
    }

    /// Offers the server to the next client of the tracker, if there is a tracker. Returns whether the offer stands.
    fn offer(&mut self) -> bool {
        let result = self.try_offer();
        if let Err(error) = &result {
            if self.tracker.is_some() || self.offers == 0 {
                (self.log)(&format!("{error}; looking for it again"));
            }
            self.offers += 1;
            self.tracker = None;
        }
        result.is_ok()
    }

    fn try_offer(&mut self) -> Result<(), TrackerError> {
        let Some((host, port)) = &self.request.tracker else {
            return Ok(());
        };
        let key = &self.request.key;
        // Without a host the tracker uses the address of this connection.
        let own = self.address.ip();
        let own = (!own.is_unspecified()).then(|| own.to_string());
        let tracker = match &mut self.tracker {
            Some(tracker) => tracker,
            None => {
                let mut tracker = Tracker::connect(host, *port)?;
                tracker.register(key, own.as_deref(), self.address.port())?;
                self.tracker.insert(tracker)
            }
        };
        self.offers += 1;
        self.match_key = format!("{key}:{:016x}", random().unwrap_or(self.offers));
        tracker.offer(key, own.as_deref(), self.address.port(), &self.match_key)
    }

    fn is_pending(&mut self) -> Result<bool, TrackerError> {
        match &mut self.tracker {
            Some(tracker) => tracker.is_pending(&self.match_key),
            None => Ok(true),
        }
    }
}
