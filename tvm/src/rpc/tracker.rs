//! The tracker: a list of servers by key, which hands out the free ones.
//!
//! Messages are JSON after their length (32 bits, little-endian), after both sides have said [`TRACKER_MAGIC`]. Whatever
//! comes is bounded: a length beyond [`MOST_BYTES`], other bytes, or silence is an error that names the peer.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::Duration;

use serde_json::{Value, json};
use thiserror::Error;

use super::TRACKER_MAGIC;

/// Maximum bytes of a message.
const MOST_BYTES: usize = 1 << 20;
/// Longest wait for a tracker's answer to anything but a request for a server.
const PATIENCE: Duration = Duration::from_secs(10);

/// Messages by number (`TrackerCode` in `tvm/rpc/base.py`).
#[derive(Clone, Copy)]
enum Code {
    Success = 0,
    Put = 3,
    Request = 4,
    UpdateInfo = 5,
    Summary = 6,
    PendingMatchKeys = 7,
}

/// Why a request to a tracker failed.
#[derive(Debug, Error)]
pub enum TrackerError {
    /// No tracker answers.
    #[error("no tracker answers at {address}: {reason}")]
    Unreachable {
        /// Host and port.
        address: String,
        /// The system's reason.
        reason: std::io::Error,
    },
    /// Something else answers.
    #[error("the peer at {address} is not a TVM tracker: {what}")]
    Stranger {
        /// Host and port.
        address: String,
        /// The answer.
        what: String,
    },
    /// The connection was lost, or nothing came in time.
    #[error("the tracker at {address} does not answer: {reason}")]
    Lost {
        /// Host and port.
        address: String,
        /// The system's reason.
        reason: std::io::Error,
    },
    /// The tracker refuses.
    #[error("the tracker at {address} refuses: {reason}")]
    Refused {
        /// Host and port.
        address: String,
        /// Its reason.
        reason: String,
    },
}

/// A server that was handed out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// Its host.
    pub host: String,
    /// Its port.
    pub port: u16,
    /// The key that it expects in a greeting.
    pub match_key: String,
}

/// The servers of one key.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Queue {
    /// Servers that are registered.
    pub servers: Vec<String>,
    /// Number of free ones.
    pub free: u64,
    /// Number of waiting clients.
    pub waiting: u64,
}

/// A connection to a tracker.
#[derive(Debug)]
pub struct Tracker {
    stream: TcpStream,
    address: String,
}

impl Tracker {
    /// Connects.
    ///
    /// # Errors
    /// Fails if nothing answers there, or if it is not a tracker.
    pub fn connect(host: &str, port: u16) -> Result<Tracker, TrackerError> {
        let address = format!("{host}:{port}");
        let unreachable = |reason| TrackerError::Unreachable {
            address: address.clone(),
            reason,
        };
        let mut addresses = (host, port).to_socket_addrs().map_err(unreachable)?;
        let none = || std::io::Error::from(std::io::ErrorKind::NotFound);
        let first = addresses.next().ok_or_else(none).map_err(unreachable)?;
        let stream = TcpStream::connect_timeout(&first, PATIENCE).map_err(unreachable)?;
        let set = stream
            .set_read_timeout(Some(PATIENCE))
            .and(stream.set_write_timeout(Some(PATIENCE)))
            .and(stream.set_nodelay(true));
        set.map_err(unreachable)?;
        let mut tracker = Tracker { stream, address };
        let mut magic = [0; 4];
        let greeted = tracker
            .stream
            .write_all(&TRACKER_MAGIC.to_le_bytes())
            .and_then(|()| tracker.stream.read_exact(&mut magic));
        match greeted {
            Ok(()) if i32::from_le_bytes(magic) == TRACKER_MAGIC => Ok(tracker),
            Ok(()) => Err(tracker.stranger(format!("it greets with {magic:02x?}"))),
            Err(error) => Err(tracker.stranger(error.to_string())),
        }
    }

    /// Waits for a free server of a key, at most `wait`.
    ///
    /// # Errors
    /// Fails if none came free in time, or the tracker is lost.
    pub fn request(mut self, key: &str, wait: Duration) -> Result<Found, TrackerError> {
        let timeout = Some(wait.max(Duration::from_millis(1)));
        let set = self.stream.set_read_timeout(timeout);
        set.map_err(|reason| self.lost(reason))?;
        let answer = self.ask(&json!([Code::Request as i32, key, "", 1]))?;
        let found = &answer[1];
        let port = found[1].as_u64().and_then(|port| u16::try_from(port).ok());
        match (found[0].as_str(), port, found[2].as_str()) {
            (Some(host), Some(port), Some(match_key)) => Ok(Found {
                host: host.to_owned(),
                port,
                match_key: match_key.to_owned(),
            }),
            _ => Err(self.refused(&answer)),
        }
    }

    /// The servers by key.
    ///
    /// # Errors
    /// Fails if the tracker is lost, or says something else.
    pub fn summary(&mut self) -> Result<BTreeMap<String, Queue>, TrackerError> {
        let answer = self.ask(&json!([Code::Summary as i32]))?;
        let summary = &answer[1];
        if answer[0] != json!(Code::Success as i32) || !summary["queue_info"].is_object() {
            return Err(self.refused(&answer));
        }
        let mut queues: BTreeMap<String, Queue> = BTreeMap::new();
        for (key, info) in summary["queue_info"].as_object().into_iter().flatten() {
            let queue = queues.entry(key.clone()).or_default();
            queue.free = info["free"].as_u64().unwrap_or_default();
            queue.waiting = info["pending"].as_u64().unwrap_or_default();
        }
        for server in summary["server_info"].as_array().into_iter().flatten() {
            let key = server["key"].as_str().unwrap_or_default();
            let key = key.strip_prefix("server:").unwrap_or(key);
            let host = server["addr"][0].as_str().unwrap_or("?");
            let address = format!("{host}:{}", server["addr"][1]);
            queues
                .entry(key.to_owned())
                .or_default()
                .servers
                .push(address);
        }
        Ok(queues)
    }

    /// Registers a server of this key at a port, with its host if that differs from the one of this connection.
    ///
    /// # Errors
    /// Fails if the tracker is lost, or refuses.
    pub fn register(
        &mut self,
        key: &str,
        host: Option<&str>,
        port: u16,
    ) -> Result<(), TrackerError> {
        let info = json!({ "key": format!("server:{key}"), "addr": [host, port] });
        self.expect_success(&json!([Code::UpdateInfo as i32, info]))
    }

    /// Offers the server to one client, who will greet it with `match_key`.
    ///
    /// # Errors
    /// Fails if the tracker is lost, or refuses.
    pub fn offer(
        &mut self,
        key: &str,
        host: Option<&str>,
        port: u16,
        match_key: &str,
    ) -> Result<(), TrackerError> {
        self.expect_success(&json!([Code::Put as i32, key, [port, match_key], host]))
    }

    /// Whether no client has taken the offer with this key yet.
    ///
    /// # Errors
    /// Fails if the connection to the tracker is lost.
    pub fn is_pending(&mut self, match_key: &str) -> Result<bool, TrackerError> {
        let answer = self.ask(&json!([Code::PendingMatchKeys as i32]))?;
        let keys = answer.as_array().into_iter().flatten();
        Ok(keys.into_iter().any(|key| key == match_key))
    }

    fn expect_success(&mut self, message: &Value) -> Result<(), TrackerError> {
        let answer = self.ask(message)?;
        match answer == json!(Code::Success as i32) {
            true => Ok(()),
            false => Err(self.refused(&answer)),
        }
    }

    fn ask(&mut self, message: &Value) -> Result<Value, TrackerError> {
        let text = message.to_string();
        let mut bytes = (text.len() as i32).to_le_bytes().to_vec();
        bytes.extend_from_slice(text.as_bytes());
        let mut length = [0; 4];
        let asked = self
            .stream
            .write_all(&bytes)
            .and_then(|()| self.stream.read_exact(&mut length));
        asked.map_err(|reason| self.lost(reason))?;
        let length = usize::try_from(i32::from_le_bytes(length)).unwrap_or(usize::MAX);
        if length > MOST_BYTES {
            return Err(self.stranger(format!("a message of {length} bytes")));
        }
        let mut answer = vec![0; length];
        let read = self.stream.read_exact(&mut answer);
        read.map_err(|reason| self.lost(reason))?;
        serde_json::from_slice(&answer).map_err(|error| self.stranger(error.to_string()))
    }

    fn lost(&self, reason: std::io::Error) -> TrackerError {
        TrackerError::Lost {
            address: self.address.clone(),
            reason,
        }
    }

    fn stranger(&self, what: String) -> TrackerError {
        TrackerError::Stranger {
            address: self.address.clone(),
            what,
        }
    }

    fn refused(&self, answer: &Value) -> TrackerError {
        TrackerError::Refused {
            address: self.address.clone(),
            reason: format!("{answer:.200}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    /// A client's error for a peer that sends these bytes.
    fn against(bytes: &'static [u8]) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let peer = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            stream.write_all(bytes).unwrap();
            let mut heard = Vec::new();
            let _ = stream.set_read_timeout(Some(Duration::from_millis(300)));
            let _ = stream.read_to_end(&mut heard);
        });
        let summary = Tracker::connect("127.0.0.1", port).and_then(|mut t| t.summary());
        peer.join().unwrap();
        summary.unwrap_err().to_string()
    }

    #[test]
    fn hostile_trackers_are_refused_by_name() {
        let magic = b"\x71\xf2\x02\x00";
        assert!(
            against(b"HTTP/1.1 400").contains("not a TVM tracker: it greets with [48, 54, 54, 50]")
        );
        assert!(against(b"").contains("not a TVM tracker"));
        assert!(
            against(&[*magic, *b"\xff\xff\xff\x7f"].concat().leak()[..])
                .contains("2147483647 bytes")
        );
        assert!(against(&[*magic, *b"\xff\xff\xff\xff"].concat().leak()[..]).contains("bytes"));
        assert!(
            against(&[&magic[..], b"\x04\0\0\0", b"nope"].concat().leak()[..])
                .contains("not a TVM tracker")
        );
        assert!(
            against(&[&magic[..], b"\x02\0\0\0", b"[]"].concat().leak()[..]).contains("refuses")
        );
        assert!(
            against(&[&magic[..], b"\x09\0\0\0", b"["].concat().leak()[..])
                .contains("does not answer")
        );
        let error = Tracker::connect("127.0.0.1", 1).unwrap_err().to_string();
        assert!(
            error.contains("no tracker answers at 127.0.0.1:1"),
            "{error}"
        );
    }
}
