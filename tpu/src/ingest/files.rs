//! Checks the files of a dump before they are read: which are readable, which are missing, whether they agree.

use std::collections::BTreeSet;
use std::path::PathBuf;

use opreport::units::plural;

use crate::chip::ChipSpec;
use crate::error::{Error, Result};
use crate::input::container::{BlockKind, outline};
use crate::input::folder::Folder;
use crate::input::global::GlobalProfile;
use crate::input::layers::Layers;
use crate::report::{Engine, Report};

/// Leaves out files that are no containers, unless no core's file is a container.
pub(super) fn leave_out_unreadable(folder: &mut Folder, report: &mut Report) -> Result<()> {
    let mut first = None;
    for (list, kind) in [
        (&mut folder.cores, "core_unreadable"),
        (&mut folder.ports, "port_unreadable"),
    ] {
        list.retain(|(_, path)| match outline(path) {
            Ok(_) => true,
            Err(error) => {
                note_unreadable(&error, kind, report);
                first.get_or_insert(error);
                false
            }
        });
    }
    match first {
        Some(error) if folder.cores.is_empty() => Err(error),
        _ => Ok(()),
    }
}

pub(super) fn note_unreadable(error: &Error, kind: &'static str, report: &mut Report) {
    let text = error.to_string();
    let (place, what) = text.split_once(": ").unwrap_or(("dump", &text));
    let text = format!("{what}; the file is left out, the others are read");
    report.lose(kind, place, 1, text);
}

/// The readable results; the error of the first if there are none.
pub(super) fn keep_readable<T>(
    read: Vec<Result<T>>,
    kind: &'static str,
    report: &mut Report,
) -> Result<Vec<T>> {
    let mut kept = Vec::with_capacity(read.len());
    let mut first = None;
    for one in read {
        match one {
            Ok(one) => kept.push(one),
            Err(error) => {
                note_unreadable(&error, kind, report);
                first.get_or_insert(error);
            }
        }
    }
    match first {
        Some(error) if kept.is_empty() => Err(error),
        _ => Ok(kept),
    }
}

/// Only compiled models have descriptors. So a dump with descriptors counts as one, whatever `global.profile` says.
pub(super) fn find_descriptors(folder: &Folder, global: &mut GlobalProfile, report: &mut Report) {
    let of_model = |kind: &BlockKind| {
        matches!(
            kind,
            BlockKind::DesTiu | BlockKind::DesGdma | BlockKind::DesSdma
        )
    };
    let has =
        |(_, path): &&(u32, PathBuf)| outline(path).is_ok_and(|kinds| kinds.iter().any(of_model));
    if global.bmodel {
        return;
    }
    if let Some((number, _)) = folder.cores.iter().find(has) {
        global.bmodel = true;
        let text = format!(
            "no line `bmodel`, though core {number} has descriptors of a compiled model; read as one"
        );
        report.lose("bmodel_line_missing", "global.profile", 1, text);
    }
}

/// The layer files, if they can be read.
pub(super) fn read_layers(folder: &Folder, report: &mut Report) -> Option<Layers> {
    let (location, mlir) = folder.layers.as_ref()?;
    let layers = match Layers::read(location, mlir) {
        Ok(layers) => layers,
        Err(error) => {
            let text = format!("{error}; there are no layers");
            report.lose("layers_unreadable", "layers", 1, text);
            return None;
        }
    };
    for (count, file, what) in [
        (layers.layers.len(), location, "no layer in it"),
        (usize::from(layers.net.is_some()), mlir, "no module in it"),
    ] {
        if count == 0 {
            let name = file.file_name().unwrap_or_default().to_string_lossy();
            let text = format!("{what}; the layers' times are incomplete");
            report.lose("layers_empty", name, 1, text);
        }
    }
    Some(layers)
}

/// Reports cores and ports that the chip has and `global.profile` names, but whose files are missing.
pub(super) fn check_numbers(
    folder: &Folder,
    global: &GlobalProfile,
    spec: &ChipSpec,
    report: &mut Report,
) -> Result<()> {
    let beyond = |what: String| Error::NotADump {
        path: folder.path.clone(),
        what,
        next: "check arch= in global.profile, and that the folder holds one dump only",
    };
    if let Some((number, _)) = folder.cores.iter().find(|(n, _)| *n >= spec.cores) {
        return Err(beyond(format!(
            "a file of core {number}, but {} has {} cores (0 up)",
            spec.name, spec.cores
        )));
    }
    if let Some((number, _)) = folder.ports.iter().find(|(n, _)| *n >= spec.cdma_ports) {
        return Err(beyond(format!(
            "a file of CDMA port {number}, but {} has {} ports (0 up)",
            spec.name, spec.cdma_ports
        )));
    }
    let have: BTreeSet<u32> = folder.cores.iter().map(|c| c.0).collect();
    let mut wanted: BTreeSet<u32> = global
        .counts
        .keys()
        .filter(|s| s.engine != Engine::Cdma)
        .map(|s| s.number)
        .collect();
    wanted.extend(0..global.cores.unwrap_or(0));
    wanted.extend(0..have.iter().next_back().copied().unwrap_or(0));
    for number in wanted.difference(&have) {
        let text = format!(
            "there is no file of core {number}, though the dump speaks of it; the others keep their numbers"
        );
        report.lose("core_missing", format!("core {number}"), 1, text);
    }
    let ports: BTreeSet<u32> = folder.ports.iter().map(|p| p.0).collect();
    for stream in global
        .counts
        .keys()
        .filter(|s| s.engine == Engine::Cdma && !ports.contains(&s.number))
    {
        if global.counts[stream] > 0 {
            report.lose(
                "port_missing",
                stream,
                1,
                format!("there is no file of {stream}"),
            );
        }
    }
    for (stream, count) in &global.counts {
        if global
            .max_records
            .is_some_and(|max| max > 0 && *count >= max)
        {
            report.lose(
                "ring_full",
                stream,
                *count,
                format!(
                    "{} were written and the ring holds {}: the earliest may be gone; \
                     profile with a larger max_record_num (PROFILE_RECORD_SIZE)",
                    plural(*count, "record"),
                    global.max_records.unwrap_or(0)
                ),
            );
        }
    }
    Ok(())
}
