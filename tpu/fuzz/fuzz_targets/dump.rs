//! Any bytes as a core's file, of any chip, as model or not: an error or a profile whose exports work, never a panic.

#![no_main]

use libfuzzer_sys::fuzz_target;
use tpuprofile::analysis::rollup::Filter;
use tpuprofile::analysis::summary::summarise;
use tpuprofile::{IngestOptions, export, ingest};

fuzz_target!(|data: &[u8]| {
    let Some((first, rest)) = data.split_first() else { return };
    let dir = tempfile::tempdir().expect("a temporary folder");
    let arch = 4 + first % 4;
    let bmodel = if first & 4 == 0 { "" } else { "bmodel\n" };
    std::fs::write(dir.path().join("global.profile"), format!("{bmodel}arch={arch}\n")).expect("a file");
    // Writes one file for a core and, if the chip has ports, one for a port.
    let (core, port) = rest.split_at(rest.len() * usize::from(first >> 4) / 16);
    std::fs::write(dir.path().join("cdmlib0_0.profile"), if core.is_empty() { rest } else { core }).expect("a file");
    if arch >= 5 && arch <= 6 && !port.is_empty() {
        std::fs::write(dir.path().join("cdma_0.profile"), port).expect("a file");
    }
    if let Ok(profile) = ingest(dir.path(), &IngestOptions::default()) {
        let summary = summarise(&profile);
        export::summary::text(&profile, &summary);
        export::perfetto::write(&profile, None, &dir.path().join("trace")).expect("a trace");
        export::reginfo::write(&profile, dir.path()).expect("texts");
        export::json::object(&profile, &summary, &Filter::default(), 5);
        export::rows::rows(&profile, "fuzz", &Filter::default());
        export::web::write(&profile, &summary, &dir.path().join("page")).expect("a page");
    }
});
