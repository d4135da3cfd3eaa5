//! A run's folder in bad times: kills, full disks, second attempts.

mod common;

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

use opdata::{Error, Row, RunWriter, read_rows};

/// Where the child of `a_killed_run_keeps_what_it_announced` writes.
const CHILD_FOLDER: &str = "OPDATA_TEST_CHILD_FOLDER";

/// The child's side of the next test; does nothing on its own.
#[test]
fn child_that_appends_until_killed() {
    let Ok(folder) = std::env::var(CHILD_FOLDER) else {
        return;
    };
    let mut writer = RunWriter::create(Path::new(&folder)).unwrap();
    for ordinal in 0.. {
        writer.append(&common::row(ordinal)).unwrap();
        println!("announced {ordinal}");
    }
}

#[test]
fn a_killed_run_keeps_what_it_announced() {
    let folder = tempfile::tempdir().unwrap();
    let run = folder.path().join("run");
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "child_that_appends_until_killed", "--nocapture"])
        .env(CHILD_FOLDER, &run)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let announced: Vec<u64> = lines
        .map_while(Result::ok)
        .filter_map(|line| line.split_once("announced ")?.1.parse().ok())
        .take(100)
        .collect();
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(announced.len(), 100);

    let reopened = RunWriter::reopen(&run).unwrap();
    assert!(reopened.rows.len() >= announced.len());
    for (ordinal, row) in reopened.rows.iter().enumerate() {
        assert_eq!(*row, common::row(ordinal as u64));
    }
}

#[test]
fn a_folder_holds_one_run() {
    let folder = tempfile::tempdir().unwrap();
    let run = folder.path().join("runs").join("one");
    RunWriter::create(&run).unwrap().finish().unwrap();
    let error = RunWriter::create(&run).unwrap_err();
    assert!(matches!(error, Error::RunExists { .. }), "{error}");
    fs::remove_file(run.join("rows.csv")).unwrap();
    let error = RunWriter::create(&run).unwrap_err();
    assert!(
        matches!(error, Error::RunExists { .. }),
        "a Parquet file alone is a run: {error}"
    );
}

#[test]
fn a_finished_run_can_go_on() {
    let folder = tempfile::tempdir().unwrap();
    let mut writer = RunWriter::create(folder.path()).unwrap();
    writer.append(&common::row(0)).unwrap();
    let parquet = writer.finish().unwrap();
    let mut reopened = RunWriter::reopen(folder.path()).unwrap();
    assert!(
        !parquet.exists(),
        "a growing run has no Parquet file that tells less"
    );
    assert_eq!((reopened.rows.len(), reopened.torn_bytes), (1, 0));
    reopened.writer.append(&common::row(1)).unwrap();
    assert_eq!(reopened.writer.next_ordinal(), 2);
    reopened.writer.finish().unwrap();
    assert_eq!(
        read_rows(&parquet).unwrap(),
        [common::row(0), common::row(1)]
    );
}

#[test]
fn bad_rows_do_not_get_in() {
    let folder = tempfile::tempdir().unwrap();
    let mut writer = RunWriter::create(folder.path()).unwrap();
    writer.append(&common::row(0)).unwrap();
    let before = fs::read(writer.csv_path()).unwrap();
    let invalid = Row {
        time_mean_ns: Some(f64::INFINITY),
        ..common::row(1)
    };
    assert!(matches!(writer.append(&invalid), Err(Error::InvalidRow(_))));
    assert!(matches!(
        writer.append(&common::row(0)),
        Err(Error::DuplicateRow { .. })
    ));
    assert_eq!(fs::read(writer.csv_path()).unwrap(), before);
}

#[test]
fn appending_needs_the_schemas_order() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("rows.csv");
    let mut writer = RunWriter::create(folder.path()).unwrap();
    writer.append(&common::row(0)).unwrap();
    let text = fs::read_to_string(&path).unwrap();
    let swapped: String = text
        .lines()
        .map(|line| {
            let fields: Vec<&str> = line.splitn(3, ',').collect();
            format!("{},{},{}\n", fields[1], fields[0], fields[2])
        })
        .collect();
    fs::write(&path, swapped).unwrap();
    assert_eq!(
        read_rows(&path).unwrap(),
        [common::row(0)],
        "reading does not need it"
    );
    drop(writer);
    assert!(matches!(
        RunWriter::reopen(folder.path()),
        Err(Error::ColumnOrder { .. })
    ));
}

#[test]
fn no_run_is_not_made_by_reopening() {
    let folder = tempfile::tempdir().unwrap();
    assert!(matches!(
        RunWriter::reopen(folder.path()),
        Err(Error::NotFound { .. })
    ));
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
}
