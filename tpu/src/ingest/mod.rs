//! From a folder to a [`Profile`]: read, order, match, put on one clock, frame.
//!
//! Cores are read and matched in parallel; what needs all of them (the common clock, ports, the frame) follows. Owns
//! the order of these steps and the findings that concern whole files; each step is elsewhere.

mod clock;
mod commands;
mod core;
mod files;
mod findings;
mod frame;
mod give;
mod missing;
mod ports;
mod timed;
mod unreadable;

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use rayon::prelude::*;

use crate::error::{Error, Result};
use crate::input::folder::scan;
use crate::input::global::GlobalProfile;
use crate::profile::{CaptureMode, CoreProfile, PortProfile, Profile};
use crate::report::Report;

pub use clock::Clocks;

/// How to treat a damaged dump.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Strictness {
    /// Keep what can be known and report the rest.
    #[default]
    Report,
    /// Refuse it.
    Strict,
}

/// A part of a dump's time, in ns since its first record.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Window {
    /// Events that end before are left out.
    pub from_ns: Option<i64>,
    /// Events that start then or later are left out.
    pub to_ns: Option<i64>,
}

impl Window {
    /// Whether it is all of the time.
    pub fn is_all(&self) -> bool {
        *self == Window::default()
    }
}

impl fmt::Display for Window {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let us = |ns: i64| format!("{} us", ns as f64 / 1000.0);
        let from = self.from_ns.map_or("the beginning".to_string(), us);
        let to = self.to_ns.map_or("the end".to_string(), us);
        write!(f, "window from {from} to {to}")
    }
}

/// How to read a dump.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct IngestOptions {
    /// TIU clock in MHz instead of the dump's.
    pub tiu_mhz: Option<f64>,
    /// DMA clock in MHz instead of the chip's.
    pub dma_mhz: Option<f64>,
    /// Whether a damaged dump is an error.
    pub strictness: Strictness,
    /// The events that are kept after the matching.
    pub window: Window,
    /// Folder for files of events where they are many; that of the system if not given.
    pub scratch: Option<PathBuf>,
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
        match (self.window.from_ns, self.window.to_ns) {
            (Some(from), Some(to)) if from >= to => Err(Error::Option {
                option: "--to",
                what: "the window is empty; give a time after --from".to_string(),
            }),
            _ => Ok(()),
        }
    }
}

/// Bytes of files that are read at the same time: what a core takes while its records are matched is several times its
/// file.
const BYTES_AT_ONCE: u64 = 192 << 20;

/// Reads a dump.
///
/// # Errors
/// Fails if an option is invalid, if the folder is not a dump, or if nothing in it can be read. With
/// [`Strictness::Strict`] it also fails if the dump is damaged.
pub fn ingest(path: &Path, options: &IngestOptions) -> Result<Profile> {
    options.validate()?;
    let mut folder = scan(path)?;
    let mut global = GlobalProfile::read(&folder.global)?;
    let spec = global.chip.spec();
    let mut report = Report::default();
    files::check_numbers(&folder, &global, spec, &mut report)?;
    files::leave_out_unreadable(&mut folder, &mut report)?;
    files::find_descriptors(&folder, &mut global, &mut report);
    let clocks = Clocks::new(spec, &global, options);
    let scratch = options.scratch.clone().unwrap_or_else(std::env::temp_dir);
    let port_files = ports::read(&folder, spec, &mut report);
    let common = core::Common {
        global: &global,
        spec,
        clocks: &clocks,
        live_ports: port_files.iter().filter(|p| p.records.len() > 1).count(),
        scratch: &scratch,
    };
    let mut cores = files::keep_readable(
        read_cores(&folder.cores, &common),
        "core_unreadable",
        &mut report,
    )?;
    missing::check(&cores, &folder, &global, &mut report);
    core::check_across(&cores, &mut report);
    clock::find_sync_points(&mut cores, &mut report);
    let mut cores = timed::to_profiles(cores, &mut report);
    let mut ports = ports::bind(port_files, &cores, &clocks, &global, &scratch, &mut report)?;
    let tail_ns = frame::shift_to_zero(&mut cores, &mut ports)?;
    frame::frame(spec, &mut cores, &mut ports, &scratch, &mut report)?;
    frame::count_certainties(&cores, &ports, &mut report);
    if is_empty(&cores, &ports) {
        return Err(Error::NotADump {
            path: path.to_path_buf(),
            what: "there is not one record in its files".to_string(),
            next: "profile again, and check that the profiled part ran on the TPU",
        });
    }
    if !options.window.is_all() {
        frame::cut(
            &options.window,
            &mut cores,
            &mut ports,
            &scratch,
            &mut report,
        )?;
        if is_empty(&cores, &ports) {
            return Err(Error::Option {
                option: "--from",
                what: format!(
                    "no event of {} is in the {}",
                    path.display(),
                    options.window
                ),
            });
        }
    }
    let profile = Profile {
        path: path.to_path_buf(),
        chip: global.chip,
        mode: capture_mode(&global, &cores),
        global,
        tiu_mhz: clocks.tiu,
        dma_mhz: clocks.dma,
        cores: cores.into_iter().map(|core| core.profile).collect(),
        ports,
        layers: files::read_layers(&folder, &mut report),
        tail_ns,
        report,
        span_ns: OnceLock::new(),
    };
    if options.strictness == Strictness::Strict {
        check_whole(&profile)?;
    }
    Ok(profile)
}

/// Whether there is not one event.
fn is_empty(cores: &[timed::TimedCore], ports: &[PortProfile]) -> bool {
    let mut of_cores = cores.iter().flat_map(|core| &core.profile.events);
    of_cores.all(|list| list.is_empty()) && ports.iter().all(|port| port.events.is_empty())
}

/// Makes the first loss an error.
fn check_whole(profile: &Profile) -> Result<()> {
    let losses: Vec<_> = profile.report.losses().collect();
    match losses.first() {
        None => Ok(()),
        Some(first) => Err(Error::Strict {
            path: profile.path.clone(),
            count: losses.len(),
            first: format!("{}: {}", first.place, first.text),
        }),
    }
}

/// Reads cores in parallel, but few enough at a time that memory does not grow with their number.
fn read_cores(files: &[(u32, PathBuf)], common: &core::Common) -> Vec<Result<core::ReadCore>> {
    let mut read = Vec::with_capacity(files.len());
    let mut rest = files;
    while !rest.is_empty() {
        let mut bytes = 0;
        let fits = |(_, path): &&(u32, PathBuf)| {
            bytes += std::fs::metadata(path).map_or(0, |m| m.len());
            bytes <= BYTES_AT_ONCE
        };
        let count = rest.iter().take_while(fits).count().max(1);
        let (now, later) = rest.split_at(count);
        read.par_extend(
            now.par_iter()
                .map(|(number, path)| core::read(*number, path, common)),
        );
        rest = later;
    }
    read
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
