//! Downloads from a server on loopback: whole, cut short and resumed, wrong, hostile.

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use flate2::Compression;
use flate2::write::GzEncoder;
use tar::{Builder, EntryType, Header};

use super::*;

/// What the server does with each request, in order; the last one stays.
#[derive(Clone, Copy)]
enum Answer {
    /// The file, or the part that is asked for.
    Serve,
    /// Half of the file, though its whole length is announced.
    Cut,
    /// 404.
    Missing,
}

/// A server of one file; the range that each request asked for is kept.
struct Server {
    url: String,
    ranges: Arc<Mutex<Vec<Option<u64>>>>,
}

fn serve(name: &str, content: Vec<u8>, answers: &[Answer]) -> Server {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/models/{name}", listener.local_addr().unwrap());
    let ranges = Arc::new(Mutex::new(Vec::new()));
    let (asked, answers) = (Arc::clone(&ranges), answers.to_vec());
    std::thread::spawn(move || {
        for (index, stream) in listener.incoming().enumerate() {
            let answer = answers[index.min(answers.len() - 1)];
            let from = answer_one(stream.unwrap(), &content, answer);
            asked.lock().unwrap().push(from);
        }
    });
    Server { url, ranges }
}

/// Answers one request; where the part that it asks for begins.
fn answer_one(mut stream: TcpStream, content: &[u8], answer: Answer) -> Option<u64> {
    let lines = BufReader::new(stream.try_clone().unwrap()).lines();
    let head: Vec<String> = lines
        .map_while(Result::ok)
        .take_while(|line| !line.is_empty())
        .collect();
    let range = head.iter().find_map(|line| {
        let line = line.to_lowercase();
        line.strip_prefix("range: bytes=")?
            .trim_end_matches('-')
            .parse()
            .ok()
    });
    let start = range.unwrap_or(0) as usize;
    let (status, body) = match answer {
        Answer::Missing => ("404 Not Found", &[][..]),
        _ if range.is_some() => ("206 Partial Content", &content[start..]),
        _ => ("200 OK", content),
    };
    let sent = match answer {
        Answer::Cut => &body[..body.len() / 2],
        _ => body,
    };
    let length = body.len();
    let _ = write!(
        stream,
        "HTTP/1.1 {status}\r\nContent-Length: {length}\r\nETag: \"1\"\r\nConnection: close\r\n\r\n"
    );
    let _ = stream.write_all(sent);
    range
}

fn content() -> Vec<u8> {
    (0..100_000_u32).flat_map(u32::to_le_bytes).collect()
}

fn wanted(server: &Server) -> Wanted {
    Wanted {
        url: server.url.clone(),
        sha256: None,
    }
}

fn get(wanted: &Wanted, folder: &Path) -> Result<PathBuf, ImportError> {
    file(wanted, &Cache::new(folder), &mut |_| {})
}

#[test]
fn a_file_is_fetched_once() {
    let folder = tempfile::tempdir().unwrap();
    let server = serve("net.onnx", content(), &[Answer::Serve, Answer::Missing]);
    let mut seen = Vec::new();
    let path = file(&wanted(&server), &Cache::new(folder.path()), &mut |t| {
        seen.push(t)
    })
    .unwrap();
    assert_eq!(std::fs::read(&path).unwrap(), content());
    assert_eq!(seen[0].total, Some(content().len() as u64));
    assert_eq!(get(&wanted(&server), folder.path()).unwrap(), path);
    assert_eq!(server.ranges.lock().unwrap().len(), 1);
}

#[test]
fn a_fetch_that_was_cut_short_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let server = serve("net.onnx", content(), &[Answer::Cut, Answer::Serve]);
    let cut = get(&wanted(&server), folder.path())
        .unwrap_err()
        .to_string();
    assert!(cut.contains("run it again to go on"), "{cut}");
    let path = get(&wanted(&server), folder.path()).unwrap();
    assert_eq!(std::fs::read(path).unwrap(), content());
    let half = content().len() as u64 / 2;
    assert_eq!(*server.ranges.lock().unwrap(), [None, Some(half)]);
}

#[test]
fn what_cannot_be_had_says_where_to_put_it() {
    let folder = tempfile::tempdir().unwrap();
    let server = serve("net.onnx", content(), &[Answer::Missing]);
    let message = get(&wanted(&server), folder.path())
        .unwrap_err()
        .to_string();
    assert!(
        message.contains("404") && message.contains("net.onnx"),
        "{message}"
    );
    let nobody = Wanted {
        url: "http://127.0.0.1:9/net.onnx".to_owned(),
        sha256: None,
    };
    let message = get(&nobody, folder.path()).unwrap_err().to_string();
    let place = message.split("put it at ").nth(1).unwrap();
    let place = PathBuf::from(place.split(", or").next().unwrap());
    // The advice works.
    std::fs::write(&place, "graph").unwrap();
    assert_eq!(get(&nobody, folder.path()).unwrap(), place);
}

#[test]
fn another_hash_than_wanted_keeps_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let server = serve("net.onnx", content(), &[Answer::Serve]);
    let right = hex(&Sha256::digest(content()));
    let wrong = Wanted {
        sha256: Some("0".repeat(64)),
        ..wanted(&server)
    };
    let message = get(&wrong, folder.path()).unwrap_err().to_string();
    assert!(
        message.contains(&right) && message.contains("removed"),
        "{message}"
    );
    let exact = Wanted {
        sha256: Some(right),
        ..wanted(&server)
    };
    assert!(get(&exact, folder.path()).is_ok());
}

/// A tar.gz of entries with raw names, which no well-meant writer would make.
fn archive(entries: &[(&str, EntryType, &[u8])]) -> Vec<u8> {
    let mut builder = Builder::new(GzEncoder::new(Vec::new(), Compression::fast()));
    for (name, kind, data) in entries {
        let mut header = Header::new_ustar();
        header.as_old_mut().name[..name.len()].copy_from_slice(name.as_bytes());
        header.set_entry_type(*kind);
        header.set_size(data.len() as u64);
        header.set_mode(0o644);
        if *kind == EntryType::Symlink {
            header.set_link_name("/etc/passwd").unwrap();
        }
        header.set_cksum();
        builder.append(&header, *data).unwrap();
    }
    builder.into_inner().unwrap().finish().unwrap()
}

fn unpacked(bytes: Vec<u8>) -> Result<PathBuf, String> {
    let folder = tempfile::tempdir().unwrap().keep();
    let server = serve("net.tar.gz", bytes, &[Answer::Serve]);
    let result = get(&wanted(&server), &folder).map_err(|e| e.to_string());
    assert!(
        !folder.join("evil.onnx").exists() && !folder.parent().unwrap().join("evil.onnx").exists()
    );
    result
}

#[test]
fn an_archive_gives_its_model_with_its_test_data() {
    let path = unpacked(archive(&[
        ("net/", EntryType::Directory, b""),
        ("net/model.onnx", EntryType::Regular, b"graph"),
        (
            "net/test_data_set_0/input_0.pb",
            EntryType::Regular,
            b"tensor",
        ),
    ]))
    .unwrap();
    assert_eq!(std::fs::read(&path).unwrap(), b"graph");
    assert!(
        path.with_file_name("test_data_set_0")
            .join("input_0.pb")
            .is_file()
    );
}

#[test]
fn hostile_archives_are_refused_whole() {
    let refused = |entries: &[(&str, EntryType, &[u8])]| unpacked(archive(entries)).unwrap_err();
    let good = ("model.onnx", EntryType::Regular, &b"graph"[..]);
    for (name, word) in [
        ("../../evil.onnx", "outside"),
        ("/tmp/evil.onnx", "outside"),
        ("a/../../evil.onnx", "outside"),
    ] {
        let message = refused(&[good, (name, EntryType::Regular, b"x")]);
        assert!(message.contains(word), "{name}: {message}");
    }
    let link = refused(&[good, ("link", EntryType::Symlink, b"")]);
    assert!(link.contains("link or a device"), "{link}");
    let two = refused(&[good, ("other.onnx", EntryType::Regular, b"graph")]);
    assert!(two.contains("2 ONNX files"), "{two}");
    let none = refused(&[("readme.txt", EntryType::Regular, b"text")]);
    assert!(none.contains("no file in it ends with .onnx"), "{none}");
    let damaged = unpacked(b"no archive at all".to_vec()).unwrap_err();
    assert!(damaged.contains("damaged"), "{damaged}");
    let many: Vec<_> = (0..10_001)
        .map(|_| ("a.txt", EntryType::Regular, &b""[..]))
        .collect();
    assert!(refused(&many).contains("more than 10000 files"));
}
