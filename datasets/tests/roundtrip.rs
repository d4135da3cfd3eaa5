//! Any valid row comes back from any format as it went in, and all formats hold the same.

mod common;

use std::fs;

use opdata::formats::{csv, parquet};
use opdata::{Column, Row, RunWriter, read_rows};
use proptest::prelude::*;

/// Rows with names of their own, as a run numbers them.
fn any_run() -> impl Strategy<Value = Vec<Row>> {
    prop::collection::vec(common::any_row(), 0..5).prop_map(|mut rows| {
        for (ordinal, row) in rows.iter_mut().enumerate() {
            row.row_id = format!("{}.{ordinal:06}", row.run_id);
        }
        rows
    })
}

/// Equal, down to the bits of the floats (`==` holds 0.0 and -0.0 for the same).
fn same(left: &[Row], right: &[Row]) -> bool {
    format!("{left:?}") == format!("{right:?}")
}

/// The row without the columns that were added to version 3 of the schema.
fn without_added(row: Row) -> Row {
    let first = Column::position("other_cpu_share").unwrap();
    // What is left out is missing.
    Row::from_cells(row.cells().into_iter().take(first)).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn a_run_is_the_same_in_both_its_files(rows in any_run()) {
        let folder = tempfile::tempdir().unwrap();
        let mut writer = RunWriter::create(folder.path()).unwrap();
        for row in &rows {
            writer.append(row).unwrap();
        }
        let parquet = writer.finish().unwrap();
        let from_csv = read_rows(folder.path()).unwrap();
        let from_parquet = read_rows(&parquet).unwrap();
        prop_assert!(same(&from_csv, &rows), "{from_csv:#?}\n{rows:#?}");
        prop_assert!(same(&from_parquet, &rows), "{from_parquet:#?}\n{rows:#?}");
    }

    #[test]
    fn files_from_before_columns_were_added_are_read_as_if_they_were_empty(rows in any_run()) {
        let rows: Vec<Row> = rows.into_iter().map(without_added).collect();
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("rows.csv");
        let header = String::from_utf8(csv::header()).unwrap();
        let (kept, added) = header.split_once(",other_cpu_share").unwrap();
        // The columns are the last ones, and empty.
        let empty = format!(",{}\n", ",".repeat(added.matches(',').count()));
        let mut before = format!("{kept}\n").into_bytes();
        for row in &rows {
            let line = csv::line(row);
            before.extend(line.strip_suffix(empty.as_bytes()).unwrap());
            before.push(b'\n');
        }
        fs::write(&path, before).unwrap();
        let read = read_rows(&path).unwrap();
        prop_assert!(same(&read, &rows), "{read:#?}\n{rows:#?}");
        if !rows.is_empty() {
            let refused = RunWriter::reopen(folder.path()).unwrap_err().to_string();
            prop_assert!(refused.contains("order"), "{}", refused);
        }
    }

    #[test]
    fn json_lines_read_back(rows in any_run()) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("rows.jsonl");
        let lines = rows.iter().map(|row| serde_json::to_string(row).unwrap() + "\n");
        fs::write(&path, lines.collect::<String>()).unwrap();
        prop_assert!(same(&read_rows(&path).unwrap(), &rows));
    }

    #[test]
    fn a_cut_file_keeps_its_whole_rows(rows in any_run(), cut in any::<prop::sample::Index>()) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("rows.csv");
        let mut bytes = csv::header();
        let mut ends = vec![bytes.len()];
        for row in &rows {
            bytes.extend(csv::line(row));
            ends.push(bytes.len());
        }
        let length = cut.index(bytes.len() + 1);
        fs::write(&path, &bytes[..length]).unwrap();

        let reopened = RunWriter::reopen(folder.path()).unwrap();
        let whole = ends.iter().filter(|&&end| end <= length).count().saturating_sub(1);
        prop_assert!(same(&reopened.rows, &rows[..whole]));
        let kept = ends.iter().rfind(|&&end| end <= length).copied().unwrap_or(0);
        prop_assert_eq!(reopened.torn_bytes, (length - kept) as u64);

        // Going on makes the file what it would have been without the cut.
        let mut writer = reopened.writer;
        for row in &rows[whole..] {
            writer.append(row).unwrap();
        }
        prop_assert_eq!(fs::read(&path).unwrap(), bytes);
    }

    #[test]
    fn a_cut_file_never_reads_as_other_rows(rows in any_run(), cut in any::<prop::sample::Index>()) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("rows.csv");
        let mut bytes = csv::header();
        for row in &rows {
            bytes.extend(csv::line(row));
        }
        fs::write(&path, &bytes[..cut.index(bytes.len() + 1)]).unwrap();
        if let Ok(read) = read_rows(&path) {
            prop_assert!(same(&read, &rows[..read.len()]));
        }
    }

    #[test]
    fn a_cut_parquet_file_is_refused(rows in any_run(), cut in any::<prop::sample::Index>()) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("rows.parquet");
        parquet::write(&path, rows.into_iter().map(Ok)).unwrap();
        let bytes = fs::read(&path).unwrap();
        fs::write(&path, &bytes[..cut.index(bytes.len())]).unwrap();
        let damaged = matches!(read_rows(&path), Err(opdata::Error::Damaged { .. }));
        prop_assert!(damaged);
    }
}

#[test]
fn several_row_groups_keep_their_order() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("rows.parquet");
    let rows: Vec<Row> = (0..40_000)
        .map(|ordinal| Row {
            threads: (ordinal % 3 != 0).then_some(ordinal),
            ..common::row(ordinal)
        })
        .collect();
    parquet::write(&path, rows.iter().cloned().map(Ok)).unwrap();
    assert!(read_rows(&path).unwrap() == rows);
}
