//! Reports parts that a dump lacks: blocks of a core's file that others have, ports that commands name, the line that
//! says `bmodel`, the chip of the command nodes.

use std::collections::BTreeSet;

use opreport::units::plural;

use crate::ingest::core::ReadCore;
use crate::input::folder::Folder;
use crate::input::global::GlobalProfile;
use crate::report::{Engine, Report, Stream};

/// Compares the cores' files with each other and with their references.
pub(super) fn check(
    parts: &[ReadCore],
    folder: &Folder,
    global: &GlobalProfile,
    report: &mut Report,
) {
    for part in parts {
        for (what, count) in missing_blocks(part, parts, global) {
            let name = part.file.file.name();
            let text = if count > 0 {
                format!(
                    "there is no block of {what}, unlike in the files of {}; the file may be cut off between two blocks",
                    plural(count, "other core")
                )
            } else {
                format!("there is no block of {what}; the file may be cut off between two blocks")
            };
            report.lose("block_missing", name, 1, text);
        }
    }
    check_ports(parts, folder, global, report);
    check_engines(parts, report);
}

/// Names of blocks that a core's file lacks, and how many others have them.
fn missing_blocks(
    part: &ReadCore,
    parts: &[ReadCore],
    global: &GlobalProfile,
) -> Vec<(&'static str, u64)> {
    let others = |has: &dyn Fn(&ReadCore) -> bool| parts.iter().filter(|p| has(p)).count() as u64;
    let works = |engine: Engine| part.works[engine.slot()];
    let file = &part.file;
    let mut missing = Vec::new();
    if !(works(Engine::Tiu) || works(Engine::Gdma) || works(Engine::Sdma)) {
        return missing;
    }
    let with_nodes = others(&|p| p.file.has_nodes);
    let with_details = others(&|p| p.file.has_details);
    if !file.has_nodes && (with_nodes > 0 || file.has_details) {
        missing.push(("command nodes", with_nodes));
    }
    if file.has_nodes && !file.has_details && with_details > 0 {
        missing.push(("details of commands", with_details));
    }
    let sdma = Engine::Sdma.slot();
    let with_sdma = others(&|p| p.file.present[sdma]);
    if !file.present[sdma] && with_sdma > 0 {
        missing.push(("SDMA records", with_sdma));
    }
    if global.bmodel && !file.has_nodes {
        let has = |engine: Engine| file.has_descriptors[engine.slot()];
        for (engine, what) in [
            (Engine::Tiu, "TIU descriptors"),
            (Engine::Gdma, "GDMA descriptors"),
        ] {
            if works(engine) && !has(engine) {
                missing.push((what, others(&|p| p.file.has_descriptors[engine.slot()])));
            }
        }
    }
    missing
}

/// Ports that commands name and that have no file.
fn check_ports(parts: &[ReadCore], folder: &Folder, global: &GlobalProfile, report: &mut Report) {
    let have: BTreeSet<u32> = folder.ports.iter().map(|p| p.0).collect();
    for number in 0..global.chip.spec().cdma_ports {
        let stream = Stream::new(Engine::Cdma, number);
        let has_lines = global.counts.get(&stream).is_some_and(|&count| count > 0);
        if have.contains(&number) || has_lines {
            continue;
        }
        let commands = |part: &ReadCore| {
            let list = part.file.cdma_commands.get(number as usize);
            list.map_or(0, |list| list.len() as u64)
        };
        let count: u64 = parts.iter().map(commands).sum();
        if count > 0 {
            let text = format!(
                "there is no file of {stream}, though {} for it",
                if count == 1 {
                    "1 command node is".to_string()
                } else {
                    format!("{count} command nodes are")
                }
            );
            report.lose("port_missing", stream, count, text);
        }
    }
}

/// Reports a dump that is probably another chip's: it has nodes of the HAU, which is not profiled, and records of the SDMA
/// without nodes.
fn check_engines(parts: &[ReadCore], report: &mut Report) {
    let sdma = Engine::Sdma.slot();
    for part in parts {
        let silent = !part.file.has_commands[sdma] && part.works[sdma];
        if part.file.hau_nodes > 0 && silent {
            let text = "command nodes of the HAU, of which nothing is profiled, and none of the SDMA, which has records: \
                        is arch= in global.profile the chip's?"
                .to_string();
            let name = part.file.file.name();
            report.lose("chip_doubtful", name, 1, text);
        }
    }
}
