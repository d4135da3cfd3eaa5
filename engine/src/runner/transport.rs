//! The connection between a parent and one worker, wherever the worker runs.
//!
//! A [`Transport`] sends requests, waits for replies and says how the worker ended; a [`Launch`] starts a worker and
//! connects to it. Most transports are two streams of JSON lines: [`LineChannel`] does that part. The supervisor
//! decides what a lost worker means for the points under way.

use std::io::{BufRead, BufReader, Read, Write};
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

use crate::protocol::{Reply, Request, Setup};

/// Longest wait for a worker to load TVM and the module.
const SETUP_TIMEOUT: Duration = Duration::from_secs(60);

/// A connection to one worker. Dropping it ends the worker.
pub trait Transport: Send {
    /// Sends a request.
    ///
    /// # Errors
    /// Fails if the worker has ended.
    fn send(&mut self, request: &Request) -> Result<(), WorkerError>;

    /// Waits for the next reply.
    ///
    /// # Errors
    /// Fails as [`WorkerError`] says. After [`WorkerError::Silent`] the caller may wait again.
    fn receive(&mut self, timeout: Duration) -> Result<Reply, WorkerError>;
}

/// Starts workers and connects to them.
pub trait Launch: Send + Sync {
    /// Starts one worker, which waits for its setup.
    ///
    /// # Errors
    /// Fails if it cannot be started, or not be reached.
    fn launch(&self) -> Result<Box<dyn Transport>, WorkerError>;
}

/// Starts a worker and waits until it has done its setup.
///
/// # Errors
/// Fails if the worker cannot be started, or its setup fails; the message has its last words.
pub fn connect(launch: &dyn Launch, setup: &Setup) -> Result<Box<dyn Transport>, WorkerError> {
    let mut transport = launch.launch()?;
    transport.send(&Request::Setup(setup.clone()))?;
    match transport.receive(SETUP_TIMEOUT)? {
        Reply::Ready => Ok(transport),
        other => Err(WorkerError::Garbled {
            line: format!("{other:?}"),
        }),
    }
}

/// Why no reply came.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum WorkerError {
    /// Nothing came in time; the worker is still there.
    #[error("no answer in time")]
    Silent,
    /// The user wants to stop.
    #[error("interrupted")]
    Interrupted,
    /// The worker has ended.
    #[error("{how}")]
    Ended {
        /// How it ended, and the last line of its log.
        how: String,
    },
    /// The worker sent a line that is not a reply.
    #[error("a worker sent a line that is not a reply: {line}")]
    Garbled {
        /// The line.
        line: String,
    },
    /// No worker can be started.
    #[error("cannot start a worker ({}): {reason}", program.display())]
    NoStart {
        /// The program.
        program: PathBuf,
        /// The system's reason.
        reason: String,
    },
}

/// Requests and replies as JSON lines over a pair of streams.
pub struct LineChannel {
    requests: Box<dyn Write + Send>,
    replies: Receiver<String>,
}

impl LineChannel {
    /// Writes to `requests` and reads `replies` on a thread of its own, until the stream ends.
    pub fn new(
        requests: impl Write + Send + 'static,
        replies: impl Read + Send + 'static,
    ) -> LineChannel {
        let (send, received) = channel();
        std::thread::spawn(move || {
            for line in BufReader::new(replies).lines().map_while(Result::ok) {
                if send.send(line).is_err() {
                    break;
                }
            }
        });
        LineChannel {
            requests: Box::new(requests),
            replies: received,
        }
    }

    /// Sends a request; nothing if the stream is closed.
    ///
    /// # Errors
    /// Fails if the request cannot be written as JSON.
    pub fn send(&mut self, request: &Request) -> Result<Option<()>, WorkerError> {
        let line = serde_json::to_string(request).map_err(|e| WorkerError::Garbled {
            line: e.to_string(),
        })?;
        let written = writeln!(self.requests, "{line}").and_then(|()| self.requests.flush());
        Ok(written.ok())
    }

    /// Waits for the next reply; nothing if the stream is closed.
    ///
    /// # Errors
    /// Fails if none came in time, or it cannot be understood.
    pub fn receive(&mut self, timeout: Duration) -> Result<Option<Reply>, WorkerError> {
        match self.replies.recv_timeout(timeout) {
            Ok(line) => serde_json::from_str(&line)
                .map(Some)
                .map_err(|_| WorkerError::Garbled { line }),
            Err(RecvTimeoutError::Timeout) => Err(WorkerError::Silent),
            Err(RecvTimeoutError::Disconnected) => Ok(None),
        }
    }
}

#[cfg(test)]
mod tests {
    //! A second transport, over a socket: a board or another machine could be reached by it.

    use std::net::Shutdown;
    use std::os::unix::net::UnixStream;
    use std::sync::Arc;

    use super::*;
    use crate::runner::Supervisor;
    use crate::runner::testing::order;

    /// A worker at the other end of a socket.
    struct SocketTransport {
        lines: LineChannel,
        stream: UnixStream,
    }

    impl SocketTransport {
        fn closed() -> WorkerError {
            WorkerError::Ended {
                how: "the connection was closed".to_owned(),
            }
        }
    }

    impl Transport for SocketTransport {
        fn send(&mut self, request: &Request) -> Result<(), WorkerError> {
            self.lines.send(request)?.ok_or_else(Self::closed)
        }

        fn receive(&mut self, timeout: Duration) -> Result<Reply, WorkerError> {
            self.lines.receive(timeout)?.ok_or_else(Self::closed)
        }
    }

    impl Drop for SocketTransport {
        fn drop(&mut self) {
            let _ = self.stream.shutdown(Shutdown::Both);
        }
    }

    /// Connects to a thread that serves one request after its setup, then hangs up.
    struct SocketLaunch;

    impl Launch for SocketLaunch {
        fn launch(&self) -> Result<Box<dyn Transport>, WorkerError> {
            let (ours, theirs) = UnixStream::pair().unwrap();
            std::thread::spawn(move || {
                let mut requests = BufReader::new(theirs.try_clone().unwrap()).lines();
                let mut replies = theirs;
                for reply in [Reply::Ready, Reply::Spaces { spaces: Vec::new() }] {
                    if requests.next().is_none() {
                        return;
                    }
                    writeln!(replies, "{}", serde_json::to_string(&reply).unwrap()).unwrap();
                }
                requests.next();
            });
            Ok(Box::new(SocketTransport {
                lines: LineChannel::new(ours.try_clone().unwrap(), ours.try_clone().unwrap()),
                stream: ours,
            }))
        }
    }

    #[test]
    fn a_supervisor_works_over_a_socket_as_over_pipes() {
        let mut runner = Supervisor::new(Arc::new(SocketLaunch), order());
        assert_eq!(runner.spaces(&[]), Ok(Vec::new()));
        let lost = runner.spaces(&[]).unwrap_err();
        assert_eq!(lost.status, opdata::Status::Crashed);
        assert_eq!(lost.reason, "the connection was closed");
        // A new connection is made for the next request.
        assert_eq!(runner.spaces(&[]), Ok(Vec::new()));
    }
}
