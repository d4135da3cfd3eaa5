//! From a folder to a [`Profile`]: read, order, match, put on one clock, frame.
//!
//! Cores are read and matched in parallel; what needs all of them (the common clock, ports, the frame) follows. Owns
//! the order of these steps and the findings that concern whole files; each step is elsewhere.

mod clock;
mod commands;
mod core;
mod findings;
mod missing;
mod ports;
mod timed;
mod unreadable;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use rayon::prelude::*;

use crate::chip::ChipSpec;
use crate::error::{Error, Result};
use crate::ingest::findings::{lose, note_event};
use crate::input::container::{BlockKind, outline};
use crate::input::core::CoreFile;
use crate::input::folder::{Folder, scan};
use crate::input::global::GlobalProfile;
use crate::input::layers::Layers;
use crate::matching::event::{Certainty, Event};
use crate::matching::sync::trim_pairs;
use crate::names::{CDMA_SYS, DMA_SYS, TIU_SYS};
use crate::profile::{CaptureMode, CoreProfile, PortProfile, Profile};
use crate::report::{Engine, Fate, Report, Severity, Stream, plural};

pub use clock::Clocks;

/// What to do about a dump that is not whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Strictness {
    /// Keep what can be known and report the rest.
    #[default]
    Report,
    /// Refuse it.
    Strict,
}

/// How to read a dump.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct IngestOptions {
    /// TIU clock in MHz instead of the dump's.
    pub tiu_mhz: Option<f64>,
    /// DMA clock in MHz instead of the chip's.
    pub dma_mhz: Option<f64>,
    /// What to do about losses.
    pub strictness: Strictness,
}

impl IngestOptions {
    /// Checks the values.
    pub fn validate(&self) -> Result<()> {
        for (option, value) in [("--tiu_freq", self.tiu_mhz), ("--dma_freq", self.dma_mhz)] {
            if let Some(mhz) = value
                && !(mhz > 0.0 && mhz <= 1e6)
            {
                return Err(Error::Option {
                    option,
                    what: format!("{mhz} is no clock; give MHz, more than 0, e.g. 1000"),
                });
            }
        }
        Ok(())
    }
}

/// Reads a dump.
pub fn ingest(path: &Path, options: &IngestOptions) -> Result<Profile> {
    options.validate()?;
    let mut folder = scan(path)?;
    let mut global = GlobalProfile::read(&folder.global)?;
    let spec = global.chip.spec();
    let mut report = Report::default();
    check_numbers(&folder, &global, spec, &mut report)?;
    leave_out_unreadable(&mut folder, &mut report)?;
    find_descriptors(&folder, &mut global, &mut report);
    let clocks = Clocks::new(spec, &global, options);
    let port_files = ports::read(&folder, spec, &mut report);
    let live_ports = port_files
        .iter()
        .filter(|port| port.records.len() > 1)
        .count();
    let common = core::Common {
        global: &global,
        spec,
        clocks: &clocks,
        live_ports,
    };
    let read: Vec<Result<core::CoreParts>> = folder
        .cores
        .par_iter()
        .map(|(number, path)| core::read(*number, path, &common))
        .collect();
    let mut parts = keep_readable(read, "core_unreadable", &mut report)?;
    missing::check(&parts, &folder, &global, &mut report);
    core::check_across(&parts, &mut report);
    clock::find_sync_points(&mut parts, &clocks, &mut report);
    let mut cores = timed::to_profiles(parts, &clocks, &mut report);
    let mut ports = ports::bind(port_files, &cores, &clocks, &global, &mut report);
    let tail_ns = shift_to_zero(&mut cores, &mut ports);
    frame(spec, &mut cores, &mut ports, &mut report);
    count_certainties(&cores, &ports, &mut report);
    let mode = capture_mode(&global, &cores);
    let layers = read_layers(&folder, &mut report);
    let cores = cores
        .into_iter()
        .map(|core| core.profile)
        .collect::<Vec<_>>();
    let profile = Profile {
        path: path.to_path_buf(),
        chip: global.chip,
        mode,
        global,
        tiu_mhz: clocks.tiu,
        dma_mhz: clocks.dma,
        cores,
        ports,
        layers,
        tail_ns,
        report,
    };
    if profile.streams().all(|(_, events)| events.is_empty()) {
        return Err(Error::NotADump {
            path: path.to_path_buf(),
            what: "there is not one record in its files".to_string(),
            next: "profile again, and check that the profiled part ran on the TPU",
        });
    }
    if options.strictness == Strictness::Strict {
        let losses: Vec<_> = profile.report.losses().collect();
        if let Some(first) = losses.first() {
            return Err(Error::Strict {
                path: path.to_path_buf(),
                count: losses.len(),
                first: format!("{}: {}", first.place, first.text),
            });
        }
    }
    Ok(profile)
}

/// Leaves files out of a folder that are no containers, unless no core's file is one.
fn leave_out_unreadable(folder: &mut Folder, report: &mut Report) -> Result<()> {
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

fn note_unreadable(error: &Error, kind: &'static str, report: &mut Report) {
    let text = error.to_string();
    let (place, what) = text.split_once(": ").unwrap_or(("dump", &text));
    let text = format!("{what}; the file is left out, the others are read");
    report.add(Severity::Loss, kind, place, 1, text);
}

/// What could be read; the error of the first if nothing could.
fn keep_readable<T>(
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

/// Descriptors are of compiled models only: takes a dump that has some for one, whatever `global.profile` says.
fn find_descriptors(folder: &Folder, global: &mut GlobalProfile, report: &mut Report) {
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
        report.add(
            Severity::Loss,
            "bmodel_line_missing",
            "global.profile",
            1,
            text,
        );
    }
}

/// The layer files, if they can be read.
fn read_layers(folder: &Folder, report: &mut Report) -> Option<Layers> {
    let (location, mlir) = folder.layers.as_ref()?;
    let layers = match Layers::read(location, mlir) {
        Ok(layers) => layers,
        Err(error) => {
            let text = format!("{error}; there are no layers");
            report.add(Severity::Loss, "layers_unreadable", "layers", 1, text);
            return None;
        }
    };
    for (count, file, what) in [
        (layers.layers.len(), location, "no layer in it"),
        (usize::from(layers.net.is_some()), mlir, "no module in it"),
    ] {
        if count == 0 {
            let name = file.file_name().unwrap_or_default().to_string_lossy();
            let text = format!("{what}; what layers took is not known in full");
            report.add(Severity::Loss, "layers_empty", name, 1, text);
        }
    }
    Some(layers)
}

/// Cores and ports that the chip has, that `global.profile` speaks of, and whose files are missing.
fn check_numbers(
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
        report.add(
            Severity::Loss,
            "core_missing",
            format!("core {number}"),
            1,
            format!("there is no file of core {number}, though the dump speaks of it; the others keep their numbers"),
        );
    }
    let ports: BTreeSet<u32> = folder.ports.iter().map(|p| p.0).collect();
    for stream in global
        .counts
        .keys()
        .filter(|s| s.engine == Engine::Cdma && !ports.contains(&s.number))
    {
        if global.counts[stream] > 0 {
            report.add(
                Severity::Loss,
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
            report.add(
                Severity::Loss,
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

fn capture_mode(global: &GlobalProfile, cores: &[timed::TimedCore]) -> CaptureMode {
    let any = |test: &dyn Fn(&CoreProfile) -> bool| cores.iter().any(|core| test(&core.profile));
    if global.bmodel {
        CaptureMode::Bmodel
    } else if any(&|core| core.file.has_details) {
        CaptureMode::Details
    } else if any(&|core| core.file.has_nodes) {
        CaptureMode::Nodes
    } else {
        CaptureMode::PmuOnly
    }
}

/// Lets time begin with the earliest record. Returns the last end of each stream's last record.
fn shift_to_zero(cores: &mut [timed::TimedCore], ports: &mut [PortProfile]) -> Option<i64> {
    let mut lists: Vec<&mut Vec<Event>> = cores
        .iter_mut()
        .flat_map(|core| core.profile.events.iter_mut())
        .collect();
    lists.extend(ports.iter_mut().map(|port| &mut port.events));
    let first = lists
        .iter()
        .flat_map(|list| list.iter())
        .map(|event| event.start_ns)
        .min()?;
    for event in lists.iter_mut().flat_map(|list| list.iter_mut()) {
        event.start_ns -= first;
        event.end_ns -= first;
    }
    lists
        .iter()
        .filter_map(|list| list.last())
        .map(|event| event.end_ns)
        .max()
}

/// Leaves out the sync commands that frame the profile.
fn frame(
    spec: &ChipSpec,
    cores: &mut [timed::TimedCore],
    ports: &mut [PortProfile],
    report: &mut Report,
) {
    let note = |report: &mut Report, stream: Stream, taken: Vec<Event>| {
        let count = taken.len() as u64;
        for event in &taken {
            note_event(report, stream, Fate::Outside, event, 0);
        }
        if let Some(counts) = report.streams.iter_mut().find(|s| s.stream == stream) {
            counts.outside += count;
        }
    };
    for port in ports.iter_mut() {
        let core_of = |event: &Event| {
            let core = cores
                .iter()
                .find(|core| Some(core.profile.number) == event.core)?;
            Some(&core.profile.file)
        };
        let taken = trim_pairs(spec.chip, &core_of, CDMA_SYS, false, &mut port.events);
        note(
            report,
            Stream {
                engine: Engine::Cdma,
                number: port.number,
            },
            taken,
        );
    }
    let has_traffic = ports.iter().any(|port| !port.events.is_empty());
    for core in cores {
        let CoreProfile {
            number,
            file,
            events,
            ..
        } = &mut core.profile;
        for engine in Engine::OF_CORE {
            let code = if engine == Engine::Tiu {
                TIU_SYS
            } else {
                DMA_SYS
            };
            let file: &CoreFile = file;
            let taken = trim_pairs(
                spec.chip,
                &|_| Some(file),
                code,
                has_traffic,
                &mut events[engine.slot()],
            );
            note(
                report,
                Stream {
                    engine,
                    number: *number,
                },
                taken,
            );
        }
    }
}

/// Counts what the kept events are, and says what of it is a loss.
fn count_certainties(cores: &[timed::TimedCore], ports: &[PortProfile], report: &mut Report) {
    let streams = cores
        .iter()
        .flat_map(|core| {
            Engine::OF_CORE.into_iter().map(|engine| {
                (
                    Stream {
                        engine,
                        number: core.profile.number,
                    },
                    &core.profile.events[engine.slot()],
                )
            })
        })
        .chain(ports.iter().map(|port| {
            (
                Stream {
                    engine: Engine::Cdma,
                    number: port.number,
                },
                &port.events,
            )
        }));
    for (stream, events) in streams {
        let Some(at) = report.streams.iter().position(|s| s.stream == stream) else {
            continue;
        };
        for event in events {
            let counts = &mut report.streams[at];
            let (count, fate) = match event.certainty {
                Certainty::Matched => (&mut counts.matched, None),
                Certainty::NoCommands => (&mut counts.without_commands, None),
                Certainty::Guessed => (&mut counts.guessed, Some(Fate::Guessed)),
                Certainty::Unmatched => (&mut counts.unmatched, Some(Fate::Unmatched)),
            };
            *count += 1;
            if let Some(fate) = fate {
                note_event(report, stream, fate, event, 0);
            }
        }
        let counts = &report.streams[at];
        let (guessed, unmatched) = (counts.guessed, counts.unmatched);
        let likely = "given a likely command, not a certain one";
        lose(report, "guessed", stream, guessed, likely);
        if unmatched > 0 {
            let text = format!(
                "no command fits {}; kept as unknown",
                plural(unmatched, "record")
            );
            report.add(Severity::Loss, "unmatched", stream, unmatched, text);
        }
    }
}
