//! Reads a dump, prints its account and writes its RegInfo files: `cargo run -p tpuprofile --example ingest DUMP OUT`.

use std::path::PathBuf;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args_os().skip(1).map(PathBuf::from);
    let (Some(dump), Some(out)) = (args.next(), args.next()) else {
        return Err("give the dump's folder and one for the files".into());
    };
    let profile = tpuprofile::ingest(&dump, &tpuprofile::IngestOptions::default())?;
    for finding in &profile.report.findings {
        println!(
            "{:?} {} {}: {}",
            finding.severity, finding.kind, finding.place, finding.text
        );
    }
    for stream in &profile.report.streams {
        println!(
            "{}: {} records, {} matched, {} outside",
            stream.stream, stream.records, stream.matched, stream.outside
        );
    }
    std::fs::create_dir_all(&out)?;
    tpuprofile::export::reginfo::write(&profile, &out)?;
    tpuprofile::export::perfetto::write(&profile, None, &out.join("perfetto.pftrace"))?;
    print!(
        "{}",
        tpuprofile::export::summary::text(
            &profile,
            &tpuprofile::analysis::summary::summarise(&profile)
        )
    );
    Ok(())
}
