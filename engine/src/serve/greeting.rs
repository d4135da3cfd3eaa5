//! Messages of client and server before TVM's protocol begins: magic number, key and options, each bounded in size and
//! time.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use tvm_bridge::rpc::{MAGIC, MISMATCH};

/// Longest wait for a client's greeting.
const PATIENCE: Duration = Duration::from_secs(2);
/// Maximum bytes of a key with its options.
const MOST_BYTES: usize = 1024;

/// A client that sent the right key.
#[derive(Debug)]
pub(super) struct Client {
    pub stream: TcpStream,
    /// Requested duration of a session, seconds.
    pub seconds: Option<f64>,
}

/// Reads a greeting and answers it. Fails with the reason if the client is refused.
pub(super) fn greet(stream: TcpStream, match_key: &str, key: &str) -> Result<Client, String> {
    let failed = |error: std::io::Error| match error.kind() {
        std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut => "silence".to_owned(),
        std::io::ErrorKind::UnexpectedEof => "it left before it had greeted".to_owned(),
        _ => error.to_string(),
    };
    let mut stream = stream;
    stream.set_nonblocking(false).map_err(failed)?;
    stream.set_read_timeout(Some(PATIENCE)).map_err(failed)?;
    stream.set_write_timeout(Some(PATIENCE)).map_err(failed)?;
    let mut word = [0; 4];
    stream.read_exact(&mut word).map_err(failed)?;
    if i32::from_le_bytes(word) != MAGIC {
        return Err(format!("wrong magic number {word:02x?}"));
    }
    stream.read_exact(&mut word).map_err(failed)?;
    let length = usize::try_from(i32::from_le_bytes(word)).unwrap_or(usize::MAX);
    if length > MOST_BYTES {
        return Err(format!(
            "a key of {} bytes, more than {MOST_BYTES}",
            u32::from_le_bytes(word)
        ));
    }
    let mut said = vec![0; length];
    stream.read_exact(&mut said).map_err(failed)?;
    let said = String::from_utf8(said).map_err(|_| "a key that is no text".to_owned())?;
    let mut words = said.split_whitespace();
    if words.next() != Some(format!("client:{match_key}").as_str()) {
        let _ = stream.write_all(&MISMATCH.to_le_bytes());
        return Err("another key than was offered".to_owned());
    }
    let seconds = words.find_map(|word| word.strip_prefix("-timeout="));
    let seconds = seconds
        .and_then(|seconds| seconds.parse::<f64>().ok())
        .filter(|seconds| seconds.is_finite() && *seconds >= 0.0);
    let answer = format!("server:{key}");
    let answer = [
        &MAGIC.to_le_bytes()[..],
        &(answer.len() as i32).to_le_bytes(),
        answer.as_bytes(),
    ];
    stream.write_all(&answer.concat()).map_err(failed)?;
    // TVM's loop waits as long as the client works.
    stream.set_read_timeout(None).map_err(failed)?;
    stream.set_write_timeout(None).map_err(failed)?;
    stream.set_nodelay(true).map_err(failed)?;
    Ok(Client { stream, seconds })
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    /// Parses a greeting.
    fn greeted(bytes: &[u8]) -> Result<Option<f64>, String> {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        client.write_all(bytes).unwrap();
        let (stream, _) = listener.accept().unwrap();
        greet(stream, "k:1", "k").map(|client| client.seconds)
    }

    fn said(key: &str) -> Vec<u8> {
        let mut bytes = MAGIC.to_le_bytes().to_vec();
        bytes.extend((key.len() as i32).to_le_bytes());
        bytes.extend(key.as_bytes());
        bytes
    }

    #[test]
    fn clients_who_know_the_key_are_greeted_and_others_refused_by_name() {
        assert_eq!(greeted(&said("client:k:1 -timeout=30")), Ok(Some(30.0)));
        assert_eq!(greeted(&said("client:k:1")), Ok(None));
        let refused = |bytes: &[u8]| greeted(bytes).unwrap_err();
        assert_eq!(
            refused(&said("client:other")),
            "another key than was offered"
        );
        assert!(refused(b"GET / HTTP/1.1").contains("wrong magic number"));
        let long = [MAGIC.to_le_bytes(), [0xff; 4]].concat();
        assert!(refused(&long).contains("a key of 4294967295 bytes"));
        let mut garbage = said("client:k:1");
        garbage[8] = 0xff;
        assert_eq!(refused(&garbage), "a key that is no text");
        assert_eq!(refused(b""), "silence");
    }
}
