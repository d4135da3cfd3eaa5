//! Every field of every record against bigTpuProfile 0.3.7, the vendor's tool, on dumps of every chip and mode.
//!
//! The tool is installed from PyPI into `target/bigtpuprofile`, Perfetto's trace processor into
//! `target/traceprocessor`. Without them (no Python, no network) the tests say so and pass, unless `CI` is set. The
//! allowed differences are faults of that tool (docs/tpu.md). Without a command it makes up `DDR->DDR` and `INT8`. In
//! mode 0 it takes a TIU record with one bank conflict for a sync command. On BM1688 it aligns cores by their last TIU
//! record.

mod dumps;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use dumps::{CAPTURES, Capture, Spec, make};
use tpuprofile::chip::Chip;
use tpuprofile::export::reginfo;
use tpuprofile::{IngestOptions, ingest};

/// A script beside the tests.
fn script(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/others")
        .join(name)
}

/// Where a tool of others is that `scripts/setup dev --with tpu-tools` installs: the lines that `install.py` prints.
fn installed(what: &str) -> Option<Vec<PathBuf>> {
    let output = Command::new("python3")
        .arg(script("install.py"))
        .args(["--find", what])
        .output();
    let reason = match output {
        Ok(output) if output.status.success() => {
            let said = String::from_utf8_lossy(&output.stdout);
            return Some(said.lines().map(PathBuf::from).collect());
        }
        Ok(output) => String::from_utf8_lossy(&output.stderr).trim().to_string(),
        Err(error) => format!("python3: {error}"),
    };
    optestkit::skip(what, &reason);
    None
}

fn tool() -> Option<PathBuf> {
    Some(installed("bigTpuProfile")?[0].join("bin/bigTpuProfile"))
}

/// A record: its tag, and its keys with values.
type Record = (String, Vec<(String, String)>);

fn records(path: &Path) -> Vec<Record> {
    let mut list: Vec<Record> = Vec::new();
    for line in std::fs::read_to_string(path).unwrap().lines() {
        match (line.strip_prefix('\t'), list.last_mut()) {
            (Some(field), Some(last)) => {
                let (key, value) = field
                    .split_once(": ")
                    .unwrap_or((field.trim_end_matches(':'), ""));
                last.1.push((key.to_string(), value.to_string()));
            }
            (None, Some(last)) if !line.starts_with("__") => {
                last.1.push(("type".to_string(), line.to_string()))
            }
            _ => list.push((line.to_string(), Vec::new())),
        }
    }
    list
}

fn reginfo_files(folder: &Path) -> BTreeMap<String, Vec<Record>> {
    std::fs::read_dir(folder)
        .unwrap()
        .flatten()
        .map(|entry| {
            (
                entry.file_name().to_string_lossy().into_owned(),
                entry.path(),
            )
        })
        .filter(|(name, _)| name.contains("RegInfo_"))
        .map(|(name, path)| (name, records(&path)))
        .collect()
}

/// Keys whose values may differ in a record, and why.
fn allowed(chip: Chip, capture: Capture, theirs: &Record, ours: &Record) -> Vec<&'static str> {
    let value = |record: &Record, key: &str| {
        record
            .1
            .iter()
            .find(|(k, _)| k == key)
            .map(|(_, v)| v.clone())
    };
    let mut keys = Vec::new();
    let without_command = value(ours, "Direction").as_deref() == Some("unknown->unknown");
    if without_command {
        assert_eq!(value(theirs, "Direction").as_deref(), Some("DDR->DDR"));
        assert_eq!(value(theirs, "Function Type").as_deref(), Some("unknown"));
        keys.extend([
            "Direction",
            "from_addr",
            "to_addr",
            "Data Type",
            "src_data_format",
        ]);
    }
    if capture == Capture::Pmu
        && theirs.0 == "__TIU_REG_INFO__"
        && value(ours, "Function Type").as_deref() == Some("unknown")
    {
        keys.extend([
            "Function Type",
            "Function Name",
            "type",
            "des_tsk_typ",
            "des_tsk_eu_typ",
            "des_opt_res0_prec",
        ]);
    }
    if chip == Chip::Bm1688 && capture != Capture::Bmodel {
        keys.extend(["Start Time(ns)", "End Time(ns)"]);
    }
    keys
}

fn compare(chip: Chip, capture: Capture, theirs: &Path, ours: &Path, place: &str) -> usize {
    let (theirs, ours) = (reginfo_files(theirs), reginfo_files(ours));
    assert_eq!(
        theirs.keys().collect::<Vec<_>>(),
        ours.keys().collect::<Vec<_>>(),
        "{place}"
    );
    let mut count = 0;
    for (name, list) in &theirs {
        assert_eq!(list.len(), ours[name].len(), "{place} {name}");
        for (index, (a, b)) in list.iter().zip(&ours[name]).enumerate() {
            count += 1;
            if a == b {
                continue;
            }
            let allowed = allowed(chip, capture, a, b);
            let strip = |record: &Record| {
                let fields = record
                    .1
                    .iter()
                    .filter(|(k, _)| !allowed.contains(&k.as_str()))
                    .cloned()
                    .collect();
                (record.0.clone(), fields)
            };
            let (a, b): (Record, Record) = (strip(a), strip(b));
            assert_eq!(a, b, "{place} {name} record {index}");
        }
    }
    count
}

fn check(program: &Path, dump: &Path, chip: Chip, capture: Capture, place: &str) -> usize {
    let work = tempfile::tempdir().unwrap();
    let (theirs, ours) = (work.path().join("theirs"), work.path().join("ours"));
    let output = Command::new(program)
        .arg(dump)
        .arg(&theirs)
        .arg("--enable_doc")
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success(),
        "{place}: {}",
        said.lines().last().unwrap_or_default()
    );
    std::fs::create_dir_all(&ours).unwrap();
    let profile = ingest(dump, &IngestOptions::default()).unwrap();
    reginfo::write(&profile, &ours).unwrap();
    // The sheets hold the same fields: where those differ they do too.
    let differs = capture == Capture::Pmu || chip == Chip::Bm1688 && capture != Capture::Bmodel;
    if !differs {
        let book = work.path().join("ours.xlsx");
        let summary = tpuprofile::analysis::summary::summarise(&profile);
        tpuprofile::export::xlsx::write(&profile, &summary, &book).unwrap();
        let other = theirs.join("PerfDoc/theirs.xlsx");
        python(program, "compare_books.py", &[&other, &book]);
    }
    compare(chip, capture, &theirs, &ours, place)
}

#[test]
fn every_field_of_every_chip_and_mode() {
    let Some(program) = tool() else { return };
    let mut count = 0;
    for chip in Chip::ALL {
        for capture in CAPTURES {
            let ports = if chip.spec().cdma_ports > 0 && capture == Capture::Nodes {
                2
            } else {
                0
            };
            let dir = tempfile::tempdir().unwrap();
            make(Spec {
                ports,
                ..Spec::new(chip, capture)
            })
            .write(dir.path());
            count += check(
                &program,
                dir.path(),
                chip,
                capture,
                &format!("{chip} {capture:?}"),
            );
        }
    }
    assert!(count > 5000, "{count} records compared");
}

/// The real dump lies beside the project, not in it: compared where it is there.
const REAL: &str = "../../shared/tpu/real/cdm_profile_data_dev0_bm1690";

#[test]
fn every_field_of_a_real_dump() {
    let dump = Path::new(env!("CARGO_MANIFEST_DIR")).join(REAL);
    let (true, Some(program)) = (dump.is_dir(), tool()) else {
        return;
    };
    assert!(check(&program, &dump, Chip::Aks, Capture::Bmodel, "real") > 240);
}

/// Traces of a dump by bigTpuProfile and by this program.
fn traces(program: &Path, dump: &Path, work: &Path) -> [PathBuf; 2] {
    let theirs = work.join("theirs");
    let output = Command::new(program).arg(dump).arg(&theirs).output();
    assert!(output.unwrap().status.success());
    let ours = work.join("ours.pftrace");
    let profile = ingest(dump, &IngestOptions::default()).unwrap();
    tpuprofile::export::perfetto::write(&profile, None, &ours).unwrap();
    [theirs.join("perfetto.pftrace"), ours]
}

/// Runs a script with the Python that has Perfetto's messages, and returns what it printed.
fn python(program: &Path, name: &str, args: &[&Path]) -> String {
    let output = Command::new(program.with_file_name("python"))
        .arg(script(name))
        .args(args)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(
        output.status.success(),
        "{args:?}: {said}{}",
        String::from_utf8_lossy(&output.stderr)
    );
    said
}

/// The trace: all tracks, slices, arguments and counters, where every record has its command.
#[test]
fn the_trace_is_the_same() {
    let Some(program) = tool() else { return };
    for (chip, capture, ports) in [
        (Chip::Aks, Capture::Nodes, 2),
        (Chip::Aks, Capture::Bmodel, 0),
        (Chip::Aksv, Capture::Nodes, 1),
        (Chip::Bm1688, Capture::Bmodel, 0),
        (Chip::Cv84x6, Capture::Details, 0),
    ] {
        let work = tempfile::tempdir().unwrap();
        let dump = work.path().join("dump");
        make(Spec {
            ports,
            ..Spec::new(chip, capture)
        })
        .write(&dump);
        let [theirs, ours] = traces(&program, &dump, work.path());
        python(&program, "compare_traces.py", &[&theirs, &ours]);
    }
}

/// The SQL of bigTpuProfile's README, and some that asks for everything, in Perfetto's trace processor.
#[test]
fn sql_has_the_same_answers() {
    let (Some(program), Some(engine)) = (tool(), installed("trace-processor")) else {
        return;
    };
    let ask = |dump: &Path, work: &Path| {
        let [theirs, ours] = traces(&program, dump, work);
        python(
            &program,
            "sql.py",
            &[&engine[0], &engine[1], &theirs, &ours],
        )
    };
    let count = |said: &str, question: &str| -> u64 {
        let line = said.lines().find(|line| line.ends_with(question)).unwrap();
        line.split_once(' ').unwrap().0.parse().unwrap()
    };
    for (chip, capture) in [
        (Chip::Aks, Capture::Details),
        (Chip::Cv84x6, Capture::Bmodel),
    ] {
        let work = tempfile::tempdir().unwrap();
        let dump = work.path().join("dump");
        make(Spec::new(chip, capture)).write(&dump);
        let said = ask(&dump, work.path());
        assert!(
            count(&said, "all slices with all arguments") > 2000,
            "{said}"
        );
        assert!(count(&said, "all counters") > 100, "{said}");
        assert_eq!(count(&said, "what could not be read"), 0, "{said}");
        if capture != Capture::Bmodel {
            assert_eq!(count(&said, "kernels of a core"), 3, "{said}");
        }
    }
    let real = Path::new(env!("CARGO_MANIFEST_DIR")).join(REAL);
    if real.is_dir() {
        let work = tempfile::tempdir().unwrap();
        let said = ask(&real, work.path());
        assert_eq!(count(&said, "transfers by bandwidth"), 9, "{said}");
        assert_eq!(count(&said, "low utilisation"), 14, "{said}");
    }
}
