//! TVM's remote procedure calls: kernels that run in a server of TVM's on another machine.
//!
//! [`tracker`] finds servers, [`Session`] is a connection to one: it uploads libraries, loads them, and times functions there.
//! Tensors of a session have a [`Device`] with its number; copies go over the connection. [`server`] is the other end.
//! Magic numbers and messages are those of `tvm/rpc/base.py` in the wheel (0.27).

pub mod server;
pub mod tracker;

use std::io::{Read as _, Write as _};
use std::net::{TcpStream, ToSocketAddrs as _};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::call::{Obj, boolean, call, int, invoke, module_function, text, value};
use crate::device::{Device, DeviceKind};
use crate::error::{Error, Result};
use crate::kernel::KernelModule;
use crate::libs::Libraries;
use crate::tensor::Tensor;

/// The magic number of client and server.
pub const MAGIC: i32 = 0xFF271;
/// The server's answer to a key that it does not serve.
pub const MISMATCH: i32 = MAGIC + 2;
/// The magic number of a tracker.
pub(crate) const TRACKER_MAGIC: i32 = 0x2F271;

/// The peer at an address is not a server of TVM's RPC, or not of this key.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the peer at {address} is not a server of the key {key}: {reason}")]
pub struct NoServer {
    address: String,
    key: String,
    reason: String,
}

/// Greets a server as its clients do and leaves. TVM's own client would accept any answer, and wait for ever without
/// one.
///
/// # Errors
/// Fails if nothing answers within some seconds, or if the peer is not a server of this key.
pub fn greet(host: &str, port: u16, key: &str) -> std::result::Result<(), NoServer> {
    /// Longest wait for each part of the answer.
    const PATIENCE: Duration = Duration::from_secs(5);
    /// Maximum bytes of a server's key.
    const MOST_BYTES: i32 = 1024;
    let no_server = |reason: String| NoServer {
        address: format!("{host}:{port}"),
        key: key.to_owned(),
        reason,
    };
    let failed = |error: std::io::Error| match error.kind() {
        std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut => {
            no_server("silence".to_owned())
        }
        _ => no_server(error.to_string()),
    };
    let mut addresses = (host, port).to_socket_addrs().map_err(failed)?;
    let first = addresses
        .next()
        .ok_or_else(|| no_server("it has no address".to_owned()))?;
    let mut stream = TcpStream::connect_timeout(&first, PATIENCE).map_err(failed)?;
    let set = stream.set_read_timeout(Some(PATIENCE));
    set.and(stream.set_write_timeout(Some(PATIENCE)))
        .map_err(failed)?;
    let said = format!("client:{key} -timeout=1");
    let length = said.len() as i32;
    let greeting = [
        &MAGIC.to_le_bytes()[..],
        &length.to_le_bytes(),
        said.as_bytes(),
    ]
    .concat();
    stream.write_all(&greeting).map_err(failed)?;
    let mut word = [0; 4];
    stream.read_exact(&mut word).map_err(failed)?;
    match i32::from_le_bytes(word) {
        MAGIC => {}
        MISMATCH => return Err(no_server("it has another key".to_owned())),
        _ => return Err(no_server(format!("it greets with {word:02x?}"))),
    }
    stream.read_exact(&mut word).map_err(failed)?;
    match i32::from_le_bytes(word) {
        0..=MOST_BYTES => Ok(()),
        length => Err(no_server(format!("a key of {length} bytes"))),
    }
}

/// A connection to a server. Dropping the last clone ends it.
#[derive(Debug, Clone)]
pub struct Session {
    handle: Obj,
    index: i32,
}

impl Session {
    /// Connects to a server; `seconds` is how long the server keeps the session at most.
    ///
    /// # Errors
    /// Fails if nothing answers there, or it serves another key.
    pub fn connect(host: &str, port: u16, key: &str, seconds: u64) -> Result<Session> {
        const INDEX: &str = "rpc.SessTableIndex";
        Libraries::load()?;
        let key = text(&format!("{key} -timeout={seconds}"));
        let arguments = [&text(host), &int(port.into()), &key, &boolean(false)];
        let handle = call("rpc.Connect", &arguments)?;
        let index: i64 = value(INDEX, call(INDEX, &[&handle])?)?;
        Ok(Session {
            handle,
            index: index as i32,
        })
    }

    /// The first device of a kind there.
    pub fn device(&self, kind: DeviceKind) -> Device {
        Device {
            session: Some(self.index),
            ..Device::first(kind)
        }
    }

    /// Writes a file into the session's folder.
    ///
    /// # Errors
    /// Fails if the connection is lost, or the server refuses the name.
    pub fn upload(&self, name: &str, bytes: &[u8]) -> Result<()> {
        let bytes = Obj(tvm_ffi::Any::from(tvm_ffi::Bytes::from(bytes)));
        self.call("tvm.rpc.server.upload", &[&text(name), &bytes])
            .map(drop)
    }

    /// Removes a file of the session's folder.
    ///
    /// # Errors
    /// Fails if the connection is lost, or if there is no such file.
    pub fn remove(&self, name: &str) -> Result<()> {
        self.call("tvm.rpc.server.remove", &[&text(name)]).map(drop)
    }

    /// Loads a library that was uploaded.
    ///
    /// # Errors
    /// Fails if it is not a library, or if it is of another architecture.
    pub fn load(&self, name: &str) -> Result<KernelModule> {
        let module = call("rpc.LoadRemoteModule", &[&self.handle, &text(name)])?;
        Ok(KernelModule::compiled(module))
    }

    /// The answer of a server's function to a text. `None` if there is no function of this name, or if it does not
    /// return a text.
    pub fn ask(&self, name: &str, what: &str) -> Option<String> {
        let said = self.call(name, &[&text(what)]).ok()?;
        let said: tvm_ffi::String = said.0.try_as()?;
        Some(said.as_str().to_owned())
    }

    /// Sets how many threads parallel loops use there.
    ///
    /// # Errors
    /// Fails if the connection is lost, or the server's pool has fewer threads.
    pub fn use_threads(&self, threads: usize) -> Result<()> {
        /// `ThreadGroup::kBig` of TVM's runtime: the fastest cores first.
        const BIG: i64 = 1;
        const NAME: &str = "runtime.config_threadpool";
        self.call(NAME, &[&int(BIG), &int(threads as i64)])?;
        match self.threads_in_use()? {
            now if now == threads as i64 => Ok(()),
            now => Err(Error::unexpected(
                NAME,
                format!(
                    "the server uses {now} threads and not {threads}: it was started for {now}; \
                     a stock server takes as many as TVM_NUM_THREADS says"
                ),
            )),
        }
    }

    /// Time of a message and its answer: the least of ten.
    ///
    /// # Errors
    /// Fails if the connection is lost.
    pub fn round_trip(&self) -> Result<Duration> {
        let mut least = Duration::MAX;
        for _ in 0..10 {
            let start = Instant::now();
            self.threads_in_use()?;
            least = least.min(start.elapsed());
        }
        Ok(least)
    }

    /// Whether the server still answers.
    pub fn is_alive(&self) -> bool {
        self.threads_in_use().is_ok()
    }

    /// Number of threads that parallel loops use there.
    ///
    /// # Errors
    /// Fails if the connection is lost.
    pub fn threads_in_use(&self) -> Result<i64> {
        const NAME: &str = "runtime.NumThreads";
        value(NAME, self.call(NAME, &[])?)
    }

    fn call(&self, name: &str, arguments: &[&Obj]) -> Result<Obj> {
        invoke(name, &module_function(&self.handle, name)?, arguments)
    }
}

/// How calls are timed by the server's own clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Repetition {
    /// Number of consecutive calls that a sample is the mean of.
    pub number: u32,
    /// Number of samples.
    pub repeat: u32,
    /// Whether every argument but the first is driven out of the caches before a sample.
    pub flush: bool,
}

/// A function of a module on a server, to be timed there.
pub struct Timed {
    module: KernelModule,
    name: String,
    /// A name among the arguments, in front of the tensors.
    text: Option<String>,
    device: Device,
    /// The timer for the last repetition: making one takes a message of its own.
    evaluator: Mutex<Option<(Repetition, tvm_ffi::Function)>>,
}

impl Timed {
    /// The function `name` of a module on a device of a session; `text` stands in front of its tensors, if it takes one.
    pub fn new(module: &KernelModule, name: &str, text: Option<&str>, device: Device) -> Timed {
        Timed {
            module: module.clone(),
            name: name.to_owned(),
            text: text.map(str::to_owned),
            device,
            evaluator: Mutex::default(),
        }
    }

    /// Seconds of one call, sample by sample, by the server's clock, so the connection has no effect. The tensors are
    /// on the session's device.
    ///
    /// # Errors
    /// Fails if the connection is lost, if the function failed, or if the server's answer is not a time.
    pub fn time(&self, tensors: &[Tensor], repetition: Repetition) -> Result<Vec<f64>> {
        const SAMPLES: &str = "samples of a remote function";
        let mut last = self
            .evaluator
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let evaluator = match &*last {
            Some((own, evaluator)) if *own == repetition => evaluator.clone(),
            _ => self.evaluator(repetition)?,
        };
        *last = Some((repetition, evaluator.clone()));
        let text = self.text.as_deref().map(text);
        let tensors: Vec<Obj> = tensors.iter().map(Tensor::obj).collect();
        let arguments: Vec<&Obj> = text.iter().chain(&tensors).collect();
        let bytes: tvm_ffi::Bytes = value(SAMPLES, invoke(SAMPLES, &evaluator, &arguments)?)?;
        let word = |b: &[u8]| <[u8; 8]>::try_from(b).map_or(f64::NAN, f64::from_le_bytes);
        let seconds: Vec<f64> = bytes.as_slice().chunks_exact(8).map(word).collect();
        let is_time = |second: &f64| second.is_finite() && *second >= 0.0;
        match seconds.len() == repetition.repeat as usize && seconds.iter().all(is_time) {
            true => Ok(seconds),
            false => Err(Error::unexpected(SAMPLES, format!("{seconds:?}"))),
        }
    }

    fn evaluator(&self, repetition: Repetition) -> Result<tvm_ffi::Function> {
        const NAME: &str = "runtime.RPCTimeEvaluator";
        /// Only the requested calls are made: no minimum time, no pauses, no further flushing.
        const NONE: i64 = 0;
        let handle = self.module.handle.clone().unwrap_or_default();
        let flush = match repetition.flush {
            true => "cache_flush_cpu_non_first_arg",
            false => "",
        };
        let evaluator = call(
            NAME,
            &[
                &handle,
                &text(&self.name),
                &int(self.device.code()),
                &int(self.device.id.into()),
                &int(repetition.number.into()),
                &int(repetition.repeat.into()),
                &int(NONE),
                &int(NONE),
                &int(NONE),
                &int(1),
                &int(NONE),
                &text(flush),
            ],
        )?;
        value(NAME, evaluator)
    }
}
