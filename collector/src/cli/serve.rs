//! `serve-device`: offers this machine to clients of TVM's RPC.

use std::net::IpAddr;

use clap::Args;
use opengine::serve::ServeRequest;

use super::error::CliError;
use super::invocation::refused;
use crate::plan::parse;

/// `serve-device`.
#[derive(Debug, Args)]
pub struct ServeArgs {
    /// Register with this tracker, as in 127.0.0.1:9190
    #[arg(long, value_name = "HOST:PORT")]
    pub tracker: Option<String>,
    /// Key that clients request; without a tracker, they must send it
    #[arg(long, value_name = "KEY")]
    pub key: String,
    /// Address to listen at; loopback by default
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1")]
    pub bind: IpAddr,
    /// Port to listen at; any free one if 0
    #[arg(long, value_name = "PORT", default_value_t = 0)]
    pub port: u16,
    /// Clients that may connect; all if none is given
    #[arg(long, value_name = "ADDRESS,…", value_delimiter = ',')]
    pub allow: Vec<IpAddr>,
    /// Longest session
    #[arg(long, value_name = "TIME", default_value = "24h")]
    pub session_timeout: String,
    /// Maximum memory of a session
    #[arg(long, value_name = "SIZE", default_value = "4GiB")]
    pub memory_limit: String,
    /// End after this many sessions
    #[arg(long, value_name = "N")]
    pub sessions: Option<u64>,
}

impl ServeArgs {
    /// The request that the arguments make.
    pub fn request(self) -> Result<ServeRequest, CliError> {
        let wrong = |flag: &str, problem: String| refused(format!("--{flag}: {problem}"));
        let tracker = self.tracker.as_deref().map(|text| {
            let parts = text.rsplit_once(':');
            let parts = parts.and_then(|(host, port)| Some((host.to_owned(), port.parse().ok()?)));
            parts.ok_or_else(|| {
                wrong(
                    "tracker",
                    format!("`{text}` is no HOST:PORT, as in 127.0.0.1:9190"),
                )
            })
        });
        let time = parse::duration_ns(&self.session_timeout);
        let time = time.map_err(|problem| wrong("session-timeout", problem))?;
        let memory = parse::size_mib(&self.memory_limit);
        Ok(ServeRequest {
            bind: self.bind,
            port: self.port,
            key: self.key,
            tracker: tracker.transpose()?,
            allow: self.allow,
            session_limit: std::time::Duration::from_nanos(time),
            memory_mib: memory.map_err(|problem| wrong("memory-limit", problem))?,
            sessions: self.sessions,
        })
    }
}
