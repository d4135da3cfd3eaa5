//! CDMA ports: their files, and their records on the cores' clock.
//!
//! The last core sends one SDMA command to each live port when profiling begins; its end is the end of the port's
//! first sync record. Without that core's file a port's clock stands alone.

use std::path::Path;

use rayon::prelude::*;

use opreport::units::plural;

use crate::chip::ChipSpec;
use crate::error::Result;
use crate::ingest::clock::Clocks;
use crate::ingest::files::note_unreadable;
use crate::ingest::findings::{
    drop_impossible, drop_unwritten, fits_bus, lose, note_fates, note_mismatch,
};
use crate::ingest::timed::TimedCore;
use crate::input::container::{BlockKind, blocks};
use crate::input::core::check_whole_records;
use crate::input::folder::Folder;
use crate::input::global::GlobalProfile;
use crate::input::pmu;
use crate::input::source::SourceFile;
use crate::matching::bind::Bound;
use crate::matching::cdma::{bind_port, settle};
use crate::matching::event::{Event, Link, SyncGuess};
use crate::matching::order::Record;
use crate::matching::sync::guess_dma;
use crate::profile::{EventList, PortProfile};
use crate::report::{Engine, Fate, Report, Stream, StreamCounts};

/// A port's file, read and in order.
pub(super) struct PortFile {
    number: u32,
    file: SourceFile,
    found: Report,
    raw_count: u64,
    unwritten: u64,
    /// Its records, the sync pair first.
    pub records: Vec<Record>,
    left_out: Vec<(Record, Fate)>,
}

/// Reads all ports.
pub(super) fn read(folder: &Folder, spec: &ChipSpec, report: &mut Report) -> Vec<PortFile> {
    let read: Vec<Result<PortFile>> = folder
        .ports
        .par_iter()
        .map(|(number, path)| {
            let file = SourceFile::read(path)?;
            let mut raw = Vec::new();
            for block in blocks(file.bytes(), path)?
                .iter()
                .filter(|b| b.kind == BlockKind::Cdma)
            {
                check_whole_records(spec.chip, Engine::Cdma, block, path)?;
                pmu::read(
                    spec.chip,
                    Engine::Cdma,
                    block.payload,
                    block.offset,
                    &mut raw,
                );
            }
            let mut found = Report::default();
            let stream = Stream::new(Engine::Cdma, *number);
            let counts = StreamCounts::new(stream);
            let size = pmu::record_bytes(spec.chip, Engine::Cdma);
            let raw_count = raw.len() as u64;
            let unwritten = drop_unwritten(&mut raw, &file, size, &counts, &mut found);
            let (records, left_out) = settle(&raw, spec.preamble_len());
            Ok(PortFile {
                number: *number,
                file,
                found,
                raw_count,
                unwritten,
                records,
                left_out,
            })
        })
        .collect();
    let mut files = Vec::with_capacity(read.len());
    for one in read {
        match one {
            Ok(file) => files.push(file),
            Err(error) => note_unreadable(&error, "port_unreadable", report),
        }
    }
    files
}

/// Facts about the rest of the dump that binding a port needs.
struct Surroundings<'a> {
    cores: &'a [TimedCore],
    clocks: &'a Clocks,
    global: &'a GlobalProfile,
    /// The core that sends to each live port when profiling begins.
    anchor: Option<&'a TimedCore>,
}

/// Puts the ports on the cores' clock and gives records their commands.
pub(super) fn bind(
    files: Vec<PortFile>,
    cores: &[TimedCore],
    clocks: &Clocks,
    global: &GlobalProfile,
    scratch: &Path,
    report: &mut Report,
) -> Result<Vec<PortProfile>> {
    let spec = global.chip.spec();
    let around = Surroundings {
        cores,
        clocks,
        global,
        anchor: cores
            .iter()
            .find(|core| core.profile.number + 1 == spec.cores && !global.bmodel),
    };
    let mut live = 0;
    let mut ports = Vec::with_capacity(files.len());
    for mut port in files {
        let mut counts = around.clean(&mut port, report);
        let mut shift_ns = 0;
        if port.records.len() > 1 {
            shift_ns = around.shift_ns(&port, live, report);
            live += 1;
            if around.anchor.is_some() {
                let preamble = spec.preamble_len().min(port.records.len());
                port.records.drain(..preamble);
                counts.preamble = preamble as u64;
            }
        }
        let events = around.events(&port, shift_ns, &mut counts, report);
        report.streams.push(counts);
        ports.push(PortProfile {
            number: port.number,
            file: port.file,
            events: EventList::new(events, scratch)?,
        });
    }
    Ok(ports)
}

impl Surroundings<'_> {
    /// Leaves out impossible records, and reports the findings from reading the file.
    fn clean(&self, port: &mut PortFile, report: &mut Report) -> StreamCounts {
        let chip = self.global.chip;
        let stream = Stream::new(Engine::Cdma, port.number);
        let mut counts = StreamCounts::new(stream);
        counts.records = port.raw_count;
        counts.expected = self.global.counts.get(&stream).copied();
        counts.implausible = port.unwritten;
        report.merge(std::mem::take(&mut port.found));
        note_fates(&port.left_out, chip, &port.file, &mut counts, report);
        let size = pmu::record_bytes(chip, Engine::Cdma);
        let file = &port.file;
        drop_impossible(
            &mut port.records,
            &mut counts,
            report,
            "with more bytes than the bus can move in its time, left out",
            |record| {
                let raw = file.slice(record.offset, size);
                fits_bus(chip.spec(), Engine::Cdma, raw, record.cycles())
            },
        );
        let doubled = "with the id of another, the longer one is kept";
        lose(report, "duplicates", stream, counts.duplicates, doubled);
        let other = |&expected: &u64| expected != counts.records;
        if let Some(expected) = counts.expected.filter(other) {
            note_mismatch(expected, &counts, report);
        }
        counts
    }

    /// The lead of a port's clock over the cores' clock, ns. `live` is the port's index among those with records.
    fn shift_ns(&self, port: &PortFile, live: usize, report: &mut Report) -> i64 {
        let ns = |ticks| {
            let ns = self.clocks.plain_ns(Engine::Cdma, ticks);
            ns.round_ties_even() as i64
        };
        let first = port.records[0];
        let anchored = self
            .anchor
            .and_then(|core| Some((core, *core.port_anchor_ends_ns.get(live)?)));
        if let Some((core, there)) = anchored {
            return ns(first.end) - there + core.shift_ns;
        }
        // The offset to the cores' clock is unknown, so the port begins when the cores begin.
        let starts = self.cores.iter().flat_map(|core| {
            let lists = core.profile.events.iter();
            lists.filter_map(|list| Some(list.earliest_ns()? - core.shift_ns))
        });
        let text = format!(
            "there is no SDMA sync record of core {} to align it by; its times are right among themselves only",
            self.global.chip.spec().cores - 1
        );
        let stream = Stream::new(Engine::Cdma, port.number);
        report.lose("port_not_aligned", stream, 1, text);
        ns(first.start) - starts.min().unwrap_or(0)
    }

    /// Events of a port's records, with the commands of the cores that sent them.
    fn events(
        &self,
        port: &PortFile,
        shift_ns: i64,
        counts: &mut StreamCounts,
        report: &mut Report,
    ) -> Vec<Event> {
        let (clocks, chip) = (self.clocks, self.global.chip);
        let anchor = self.anchor.map(|core| core.profile.number);
        let files: Vec<_> = self.cores.iter().map(|core| &core.profile.file).collect();
        let number = port.number as usize;
        let bound = bind_port(chip, number, &port.file, &port.records, &files, anchor);
        let event = |(record, (bound, core)): (&Record, &(Bound, Option<u32>))| {
            let start = clocks.plain_ns(Engine::Cdma, record.start);
            let ns = |ticks| clocks.ns(Engine::Cdma, ticks, start) - shift_ns;
            let times = (ns(record.start), ns(record.end));
            Event::new(times, record, bound, core.or(anchor))
        };
        let mut events: Vec<Event> = port.records.iter().zip(&bound.bound).map(event).collect();
        guess_dma(chip, Engine::Cdma, &port.file, &mut events);
        for event in events.iter_mut().filter(|event| event.link() != Link::None) {
            event.set_sync(SyncGuess::None);
        }
        let missing = bound.commands - bound.commands_used.min(bound.commands);
        counts.commands = bound.commands;
        counts.commands_without_record = missing;
        let several = "that several cores' commands explain";
        lose(report, "ambiguous", counts.stream, bound.ambiguous, several);
        if missing > 0 {
            let text = format!("{} without a record", plural(missing, "command"));
            report.lose("records_lost", counts.stream, missing, text);
        }
        events
    }
}
