//! Unpacks archives of models without trusting their contents.

use std::io::Read;
use std::path::{Component, Path, PathBuf};

use flate2::read::GzDecoder;
use tar::{Archive, EntryType};

use crate::cache;
use crate::error::{ImportError, Result};

/// Maximum size of an unpacked archive, bytes.
const LARGEST: u64 = 8 << 30;
/// Maximum number of files and folders in an archive.
const MOST_ENTRIES: usize = 10_000;

/// Unpacks regular files and folders below `folder`, which appears when all of them are there.
pub(super) fn unpack(archive: &Path, folder: &Path) -> Result<()> {
    let staging = folder.with_extension("part");
    cache::remove(&staging)?;
    let result = unpack_to(archive, &staging);
    if result.is_err() {
        cache::remove(&staging)?;
        return result;
    }
    std::fs::rename(&staging, folder).map_err(|e| ImportError::io(folder, e))
}

fn unpack_to(archive: &Path, folder: &Path) -> Result<()> {
    let bad = |reason: &str| ImportError::CorruptModel {
        message: format!(
            "{}: {reason}; nothing was unpacked; remove it to fetch it again",
            archive.display()
        ),
    };
    let damaged =
        |error: std::io::Error| bad(&format!("not a tar.gz archive, or damaged ({error})"));
    let file = std::fs::File::open(archive).map_err(|e| ImportError::io(archive, e))?;
    // Headers may lie about sizes, so the bytes are counted.
    let mut archive = Archive::new(GzDecoder::new(file).take(LARGEST));
    std::fs::create_dir_all(folder).map_err(|e| ImportError::io(folder, e))?;
    let mut bytes = 0_u64;
    for (index, entry) in archive.entries().map_err(damaged)?.enumerate() {
        let mut entry = entry.map_err(damaged)?;
        if index >= MOST_ENTRIES {
            return Err(bad(&format!("more than {MOST_ENTRIES} files")));
        }
        let path = entry.path().map_err(damaged)?.into_owned();
        let place = below(folder, &path)
            .ok_or_else(|| bad(&format!("'{}' would lie outside of it", path.display())))?;
        bytes = bytes.saturating_add(entry.size());
        if bytes > LARGEST {
            return Err(bad(&format!(
                "it unpacks to more than {} GiB",
                LARGEST >> 30
            )));
        }
        match entry.header().entry_type() {
            EntryType::Directory => {
                std::fs::create_dir_all(&place).map_err(|e| ImportError::io(&place, e))?
            }
            EntryType::Regular | EntryType::Continuous => {
                let parent = place.parent().unwrap_or(folder);
                std::fs::create_dir_all(parent).map_err(|e| ImportError::io(parent, e))?;
                let mut file =
                    std::fs::File::create(&place).map_err(|e| ImportError::io(&place, e))?;
                let copied = std::io::copy(&mut entry, &mut file);
                copied.map_err(|e| {
                    if e.raw_os_error().is_some() {
                        ImportError::io(&place, e)
                    } else {
                        damaged(e)
                    }
                })?;
            }
            // Descriptions of other entries.
            EntryType::XGlobalHeader | EntryType::XHeader => {}
            _ => return Err(bad(&format!("'{}' is a link or a device", path.display()))),
        }
    }
    Ok(())
}

/// The place of an entry, unless its path leads out of the folder.
fn below(folder: &Path, path: &Path) -> Option<PathBuf> {
    let mut place = folder.to_path_buf();
    for part in path.components() {
        match part {
            Component::Normal(name) => place.push(name),
            Component::CurDir => {}
            _ => return None,
        }
    }
    Some(place)
}

/// The one ONNX file of an unpacked archive.
pub(super) fn only_model(folder: &Path, archive: &Path) -> Result<PathBuf> {
    let mut found = Vec::new();
    collect(folder, &mut found)?;
    found.sort();
    match &found[..] {
        [only] => Ok(only.clone()),
        [] => Err(ImportError::CorruptModel {
            message: format!("{}: no file in it ends with .onnx", archive.display()),
        }),
        several => {
            let names: Vec<String> = several.iter().map(|p| p.display().to_string()).collect();
            Err(ImportError::CorruptModel {
                message: format!(
                    "{}: {} ONNX files; choose one with --modelsource onnx --modelname FILE: {}",
                    archive.display(),
                    several.len(),
                    names.join(", ")
                ),
            })
        }
    }
}

fn collect(folder: &Path, found: &mut Vec<PathBuf>) -> Result<()> {
    let entries = std::fs::read_dir(folder).map_err(|e| ImportError::io(folder, e))?;
    for entry in entries.flatten() {
        let path = entry.path();
        if path.is_dir() {
            collect(&path, found)?;
        } else if path.extension().is_some_and(|ending| ending == "onnx") {
            found.push(path);
        }
    }
    Ok(())
}
