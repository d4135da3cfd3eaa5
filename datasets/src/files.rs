//! Writing a whole file at once: a reader sees the old content or the new, never a part, even
//! after a power cut. And reading files that a user has named: regular ones only.

use std::fs::{self, File};
use std::io::{self, BufWriter, Read, Write};
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

use crate::error::{Error, Result};

/// Checks whether a file can be written at `path`, before long work for it begins. Its folder must exist, and an
/// existing file must be a regular one. A device or a pipe, such as `/dev/stdout`, would be replaced by a file of that
/// name.
///
/// # Errors
/// Fails if it cannot be written; the message names the reason.
pub fn check_output(path: &Path) -> Result<()> {
    match fs::metadata(path) {
        Ok(old) if old.is_file() => Ok(()),
        Ok(old) if old.is_dir() => {
            let folder = io::Error::new(io::ErrorKind::IsADirectory, "it is a folder");
            Err(Error::io("create", path, folder))
        }
        Ok(_) => Err(Error::io("create", path, not_regular())),
        Err(_) => match path.parent() {
            Some(folder) if !folder.as_os_str().is_empty() && !folder.is_dir() => {
                Err(Error::NotFound {
                    path: path.to_owned(),
                })
            }
            _ => Ok(()),
        },
    }
}

/// Writes `path` through a temporary file beside it: contents, fsync, rename, fsync of the
/// folder. If `write` fails, the old file stays and the temporary one goes.
pub(crate) fn replace<T>(
    path: &Path,
    write: impl FnOnce(&mut BufWriter<File>) -> Result<T>,
) -> Result<T> {
    check_output(path)?;
    let temporary = temporary_of(path);
    let mut options = File::options();
    options.read(true).write(true).create(true).truncate(true);
    let file = options
        .open(&temporary)
        .map_err(|source| Error::io("create", path, source))?;
    let written = write_through(file, path, write).and_then(|value| {
        fs::rename(&temporary, path).map_err(|source| Error::io("create", path, source))?;
        Ok(value)
    });
    if written.is_err() {
        // The first error is the one to report; a leftover is overwritten by the next attempt.
        let _ = fs::remove_file(&temporary);
    }
    let value = written?;
    sync_folder_of(path)?;
    Ok(value)
}

/// Writes `contents` to `path` at once: a reader sees the old file or the new one, never a part.
///
/// # Errors
/// Fails if the file cannot be created, written or moved into place; the message names it.
pub fn write_atomically(path: &Path, contents: &[u8]) -> Result<()> {
    replace(path, |file| {
        file.write_all(contents)
            .map_err(|source| Error::io("write", path, source))
    })
}

/// Maximum bytes of a regular file that is read at once: a larger one is not a configuration, plan or list.
const LARGEST: u64 = 256 << 20;
/// Maximum bytes of a file without a size, such as `/dev/null` or a shell's `<(…)`.
const LARGEST_STREAM: u64 = 1 << 20;

/// Opens a file of any size for reading. A device, pipe or socket is refused: reading one may never end.
///
/// # Errors
/// Fails if the file is missing, may not be read, or is not a regular one.
pub fn open_regular(path: &Path) -> io::Result<File> {
    let kind = fs::metadata(path)?;
    // For a folder, the error of the operating system is clear enough.
    if kind.is_file() || kind.is_dir() {
        return File::open(path);
    }
    Err(not_regular())
}

fn not_regular() -> io::Error {
    io::Error::new(
        io::ErrorKind::InvalidInput,
        "it is a device or a pipe, not a regular file",
    )
}

/// Reads a whole file of at most 256 MiB; of a device or an open pipe at most 1 MiB. A named pipe is refused: there may be
/// nobody who writes to it.
///
/// # Errors
/// Fails if the file is missing, cannot be read, or is larger.
pub fn read_bytes(path: &Path) -> io::Result<Vec<u8>> {
    let file = match fs::symlink_metadata(path)?.file_type().is_fifo() {
        true => open_regular(path)?,
        false => File::open(path)?,
    };
    let kind = file.metadata()?;
    let most = if kind.is_file() {
        LARGEST
    } else {
        LARGEST_STREAM
    };
    let mut content = Vec::with_capacity(kind.len().min(most) as usize);
    file.take(most + 1).read_to_end(&mut content)?;
    if content.len() as u64 > most {
        return Err(io::Error::new(
            io::ErrorKind::FileTooLarge,
            format!("it has more than {most} bytes, the most that is read of such a file"),
        ));
    }
    Ok(content)
}

/// Reads the whole text of a file, of the size that [`read_bytes`] allows.
///
/// # Errors
/// Fails as [`read_bytes`] does, or if the text is not UTF-8.
pub fn read_text(path: &Path) -> io::Result<String> {
    String::from_utf8(read_bytes(path)?).map_err(|_| {
        io::Error::new(
            io::ErrorKind::InvalidData,
            "stream did not contain valid UTF-8",
        )
    })
}

/// The line, from 1, of a byte offset of a text.
pub fn line_of(text: &str, offset: usize) -> usize {
    let before = text.bytes().take(offset);
    before.filter(|byte| *byte == b'\n').count() + 1
}

/// Text as a file's or folder's name. Characters other than ASCII letters, digits, `.`, `_` and `-` become `-`. At most
/// `longest` are kept, and neither `.` nor `-` stands at either end. `unnamed` if nothing remains.
pub fn safe_file_name(text: &str, longest: usize) -> String {
    let safe = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    let name: String = text
        .chars()
        .map(|c| if safe(c) { c } else { '-' })
        .take(longest)
        .collect();
    match name.trim_matches(['.', '-']) {
        "" => "unnamed".to_owned(),
        name => name.to_owned(),
    }
}

fn write_through<T>(
    file: File,
    path: &Path,
    write: impl FnOnce(&mut BufWriter<File>) -> Result<T>,
) -> Result<T> {
    let failed = |source| Error::io("write", path, source);
    let mut buffered = BufWriter::new(file);
    let value = write(&mut buffered)?;
    buffered.flush().map_err(failed)?;
    buffered.get_ref().sync_all().map_err(failed)?;
    Ok(value)
}

/// Makes the folder's entry for `path` durable. Systems whose folders cannot be opened have
/// nothing to do here.
pub(crate) fn sync_folder_of(path: &Path) -> Result<()> {
    let folder = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    match File::open(folder) {
        Ok(folder_file) => folder_file
            .sync_all()
            .map_err(|source| Error::io("write", folder, source)),
        Err(_) => Ok(()),
    }
}

/// One name for each file, so that what a killed process left is overwritten, not piled up.
fn temporary_of(path: &Path) -> PathBuf {
    let mut name = std::ffi::OsString::from(".");
    name.push(path.file_name().unwrap_or_default());
    name.push(".part");
    path.with_file_name(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_safe() {
        for (text, name) in [
            ("conv2d:n=1,c=64", "conv2d-n-1-c-64"),
            ("../../etc", "etc"),
            ("Größe", "Gr--e"),
            ("..", "unnamed"),
            ("", "unnamed"),
        ] {
            assert_eq!(safe_file_name(text, 40), name);
        }
        assert_eq!(safe_file_name(&"long".repeat(20), 6), "longlo");
    }

    #[test]
    fn a_failed_write_leaves_the_old_file_and_no_other() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("f");
        fs::write(&path, "old").unwrap();
        let failed: Result<()> = replace(&path, |file| {
            file.write_all(b"half").unwrap();
            Err(Error::NoSpace { path: path.clone() })
        });
        assert!(matches!(failed, Err(Error::NoSpace { .. })));
        assert_eq!(fs::read_to_string(&path).unwrap(), "old");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_device_or_a_folder_is_not_replaced() {
        for (path, why) in [("/dev/null", "device"), ("/tmp", "folder")] {
            let error = write_atomically(Path::new(path), b"x").unwrap_err();
            assert!(error.to_string().contains(why), "{error}");
            assert!(!fs::metadata(path).unwrap().is_file());
        }
    }

    #[test]
    fn a_missing_folder_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("no").join("f");
        let error = replace(&path, |_| Ok(())).unwrap_err();
        assert_eq!(
            error.to_string(),
            format!("{} does not exist; check the path", path.display())
        );
    }

    #[test]
    fn what_never_ends_is_not_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("t");
        fs::write(&path, "text").unwrap();
        assert_eq!(read_text(&path).unwrap(), "text");
        assert_eq!(read_text(Path::new("/dev/null")).unwrap(), "");
        for (path, problem) in [
            (Path::new("/dev/zero"), "more than 1048576 bytes"),
            (folder.path(), "Is a directory"),
            (&folder.path().join("none"), "No such file"),
        ] {
            let error = read_text(path).unwrap_err().to_string();
            assert!(error.contains(problem), "{error}");
        }
        let error = open_regular(Path::new("/dev/zero")).unwrap_err();
        assert!(error.to_string().contains("not a regular file"), "{error}");
    }
}
