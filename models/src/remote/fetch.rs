//! Fetches one file over HTTP, continuing a partial one.

use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use ureq::Agent;
use ureq::http::{Response, StatusCode, header};
use ureq::tls::{RootCerts, TlsConfig};

use super::{Transfer, Watch};
use crate::error::{ImportError, Result};

/// Largest file that is fetched: twice what an ONNX file can have, for archives with test data.
const LARGEST: u64 = 4 << 30;
/// Maximum silence of a server.
const PATIENCE: Duration = Duration::from_secs(30);
/// Bytes between two reports of progress.
const STEP: u64 = 1 << 20;

/// Fetches `url` to `path`. What arrives goes to `path.part`, and a later fetch asks for the rest of it.
pub(super) fn fetch(url: &str, path: &Path, watch: &mut Watch<'_>) -> Result<()> {
    let part = beside(path, "part");
    // The server's mark of the file's version: a part of another version is of no use.
    let mark = beside(path, "etag");
    let failed = |reason: String| unreachable(url, path, &reason);
    let have = std::fs::metadata(&part).map_or(0, |facts| facts.len());
    let known = std::fs::read_to_string(&mark).unwrap_or_default();
    let mut request = agent().get(url);
    if have > 0 && !known.is_empty() {
        request = request
            .header(header::RANGE, format!("bytes={have}-"))
            .header(header::IF_RANGE, known);
    }
    let mut response = request.call().map_err(|error| failed(error.to_string()))?;
    let resumed = match response.status() {
        StatusCode::OK => false,
        StatusCode::PARTIAL_CONTENT => true,
        // A request for bytes after the end: the file is complete.
        StatusCode::RANGE_NOT_SATISFIABLE if have > 0 => {
            forget(&part, &mark)?;
            return fetch(url, path, watch);
        }
        status => return Err(failed(format!("the server answered {status}"))),
    };
    let start = if resumed { have } else { 0 };
    let total = length(&response).map(|rest| start + rest);
    if total.is_some_and(|total| total > LARGEST) {
        return Err(failed(format!(
            "{} bytes are more than any model",
            total.unwrap_or(0)
        )));
    }
    let version = response
        .headers()
        .get(header::ETAG)
        .and_then(|tag| tag.to_str().ok());
    std::fs::write(&mark, version.unwrap_or_default()).map_err(|e| ImportError::io(&mark, e))?;
    let mut file = open(&part, resumed)?;
    let mut body = response.body_mut().with_config().limit(LARGEST).reader();
    let done = copy(
        &mut body,
        &mut file,
        &part,
        Transfer { done: start, total },
        watch,
        &failed,
    )?;
    if total.is_some_and(|total| done != total) {
        return Err(failed(format!(
            "the connection ended after {done} bytes; run it again to go on"
        )));
    }
    file.sync_all().map_err(|e| ImportError::io(&part, e))?;
    std::fs::rename(&part, path).map_err(|e| ImportError::io(path, e))?;
    let _ = std::fs::remove_file(&mark);
    Ok(())
}

fn agent() -> Agent {
    let tls = TlsConfig::builder().root_certs(RootCerts::WebPki).build();
    Agent::config_builder()
        .http_status_as_error(false)
        .timeout_connect(Some(PATIENCE))
        .timeout_recv_response(Some(PATIENCE))
        .timeout_per_read(Some(PATIENCE))
        .tls_config(tls)
        .build()
        .new_agent()
}

/// Bytes of the answer's body, where the server says so.
fn length<B>(response: &Response<B>) -> Option<u64> {
    response
        .headers()
        .get(header::CONTENT_LENGTH)?
        .to_str()
        .ok()?
        .parse()
        .ok()
}

fn open(part: &Path, append: bool) -> Result<File> {
    let mut options = OpenOptions::new();
    options
        .create(true)
        .write(true)
        .append(append)
        .truncate(!append);
    options.open(part).map_err(|e| ImportError::io(part, e))
}

/// Copies the body, and returns the size of the file afterwards.
fn copy(
    body: &mut impl Read,
    file: &mut File,
    part: &Path,
    mut transfer: Transfer,
    watch: &mut Watch<'_>,
    failed: &impl Fn(String) -> ImportError,
) -> Result<u64> {
    let mut buffer = vec![0; 1 << 16];
    let mut shown = transfer.done;
    watch(transfer);
    loop {
        let read = body.read(&mut buffer).map_err(|error| {
            failed(format!(
                "{error} after {} bytes; run it again to go on",
                transfer.done
            ))
        })?;
        if read == 0 {
            return Ok(transfer.done);
        }
        file.write_all(&buffer[..read])
            .map_err(|e| ImportError::io(part, e))?;
        transfer.done += read as u64;
        if transfer.done - shown >= STEP {
            shown = transfer.done;
            watch(transfer);
        }
    }
}

fn beside(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".{ending}"));
    name.into()
}

fn forget(part: &Path, mark: &Path) -> Result<()> {
    let _ = std::fs::remove_file(mark);
    std::fs::remove_file(part).map_err(|e| ImportError::io(part, e))
}

/// The error of a file that cannot be had, and the way round.
fn unreachable(url: &str, path: &Path, reason: &str) -> ImportError {
    ImportError::Remote {
        message: format!(
            "{url}: {reason}\nwithout a network, fetch the file elsewhere and put it at {}, or unpack it and use \
             --modelsource onnx --modelname FILE",
            path.display()
        ),
    }
}
