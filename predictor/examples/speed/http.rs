//! A client that does nothing but wait: one query after the other, over one connection or a new one each.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Instant;

const QUERY: &str =
    "{\"op\":\"conv2d\",\"input\":[1,64,56,56],\"kernel\":[3,3],\"channels\":64,\"threads\":[1]}";

/// Times of queries over one connection that is kept open, ms.
pub fn kept_open(address: SocketAddr, count: usize) -> anyhow::Result<Vec<f64>> {
    let mut stream = open(address)?;
    (0..count).map(|_| timed(|| ask(&mut stream))).collect()
}

/// Times of queries over a new connection each, connecting included, ms.
pub fn opened_anew(address: SocketAddr, count: usize) -> anyhow::Result<Vec<f64>> {
    (0..count)
        .map(|_| timed(|| ask(&mut open(address)?)))
        .collect()
}

fn timed(work: impl FnOnce() -> anyhow::Result<()>) -> anyhow::Result<f64> {
    let start = Instant::now();
    work()?;
    Ok(start.elapsed().as_secs_f64() * 1e3)
}

fn open(address: SocketAddr) -> anyhow::Result<BufReader<TcpStream>> {
    let stream = TcpStream::connect(address)?;
    stream.set_nodelay(true)?;
    Ok(BufReader::new(stream))
}

fn ask(stream: &mut BufReader<TcpStream>) -> anyhow::Result<()> {
    let request = format!(
        "POST /v1/query HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{QUERY}",
        QUERY.len()
    );
    stream.get_mut().write_all(request.as_bytes())?;
    let mut line = String::new();
    stream.read_line(&mut line)?;
    anyhow::ensure!(line.starts_with("HTTP/1.1 200"), "the server said {line}");
    let mut length = 0;
    loop {
        line.clear();
        stream.read_line(&mut line)?;
        match line.trim_end().split_once(": ") {
            Some(("content-length", value)) => length = value.parse()?,
            Some(_) => {}
            None => break,
        }
    }
    let mut body = vec![0; length];
    stream.read_exact(&mut body)?;
    anyhow::ensure!(body.starts_with(b"{\"lines\":[{"), "the answer has no line");
    Ok(())
}
