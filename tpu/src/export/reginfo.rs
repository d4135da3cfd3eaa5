//! RegInfo text: `tiuRegInfo_N.txt`, `tdmaRegInfo_N.txt` (GDMA, then SDMA) and `cdmaRegInfo_N.txt`.
//!
//! `__CHIP_ARCH_ARGS__` and the chip's arguments, then per record its tag and one tab-led `key: value` a line; TIU
//! records add a line with their type and the fields of the command.

use std::fmt::Write as _;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use rayon::prelude::*;

use crate::error::{Result, io_at};
use crate::matching::event::Event;
use crate::profile::Profile;
use crate::report::{Engine, Stream};
use crate::view::Viewer;
use crate::view::fields::{FieldList, fields};

/// A stream and its events.
type Events<'a> = (Stream, &'a [Event]);

/// Writes the files of all streams that have events into a folder. Files of an earlier dump are removed first.
pub fn write(profile: &Profile, folder: &Path) -> Result<Vec<PathBuf>> {
    if let Ok(entries) = std::fs::read_dir(folder) {
        for entry in entries.flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            if name.contains("RegInfo_") && name.ends_with(".txt") {
                std::fs::remove_file(entry.path())
                    .map_err(io_at(&entry.path(), "cannot replace"))?;
            }
        }
    }
    let mut files: Vec<(String, Vec<Events>)> = Vec::new();
    for core in &profile.cores {
        let of = |engine: Engine| {
            (
                Stream::new(engine, core.number),
                &*core.events[engine.slot()],
            )
        };
        files.push((
            format!("tdmaRegInfo_{}.txt", core.number),
            vec![of(Engine::Gdma), of(Engine::Sdma)],
        ));
        files.push((
            format!("tiuRegInfo_{}.txt", core.number),
            vec![of(Engine::Tiu)],
        ));
    }
    for port in &profile.ports {
        let stream = Stream::new(Engine::Cdma, port.number);
        files.push((
            format!("cdmaRegInfo_{}.txt", port.number),
            vec![(stream, &*port.events)],
        ));
    }
    files.retain(|(_, streams)| streams.iter().any(|(_, events)| !events.is_empty()));
    files
        .par_iter()
        .map(|(name, streams)| {
            let path = folder.join(name);
            write_file(profile, &path, streams)?;
            Ok(path)
        })
        .collect()
}

fn write_file(profile: &Profile, path: &Path, streams: &[Events]) -> Result<()> {
    let failed = || io_at(path, "cannot write");
    let mut out = BufWriter::with_capacity(1 << 18, File::create(path).map_err(failed())?);
    let mut text = String::from("__CHIP_ARCH_ARGS__\n");
    for (key, value) in profile.chip.args(profile.tiu_mhz, profile.dma_mhz) {
        let _ = writeln!(text, "\t{key}: {value}");
    }
    out.write_all(text.as_bytes()).map_err(failed())?;
    for (stream, _) in streams {
        let Some(viewer) = Viewer::new(profile, *stream) else {
            continue;
        };
        let tag = match stream.engine {
            Engine::Tiu => "__TIU_REG_INFO__\n",
            Engine::Gdma | Engine::Sdma => "__TDMA_REG_INFO__\n",
            Engine::Cdma => "__CDMA_REG_INFO__\n",
        };
        for view in viewer.views() {
            let fields = fields(&view);
            text.clear();
            text.push_str(tag);
            lines(&fields.info, &mut text);
            if stream.engine == Engine::Tiu {
                text.push_str(&view.kind);
                text.push_str(":\n");
                lines(&fields.command, &mut text);
            }
            out.write_all(text.as_bytes()).map_err(failed())?;
        }
    }
    out.flush().map_err(failed())
}

fn lines(list: &FieldList, text: &mut String) {
    for (key, value) in &list.0 {
        let _ = writeln!(text, "\t{key}: {value}");
    }
}
