//! What a reader says about files that are not a dataset: file, line, column, and what to do.

mod common;

use std::fs;

use opdata::formats::{csv, parquet};
use opdata::read_rows;

/// The error of reading a file with this name and content, its folder left out.
fn error(name: &str, content: impl AsRef<[u8]>) -> String {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(name);
    fs::write(&path, content).unwrap();
    read_rows(&path)
        .unwrap_err()
        .to_string()
        .replace(&format!("{}/", folder.path().display()), "")
}

fn two_rows() -> String {
    let mut bytes = csv::header();
    bytes.extend(csv::line(&common::row(0)));
    bytes.extend(csv::line(&common::row(1)));
    String::from_utf8(bytes).unwrap()
}

/// The two rows with a change in the second.
fn second_changed(from: &str, to: &str) -> String {
    let text = two_rows();
    let at = text.rfind(from).expect("the text to change is there");
    format!("{}{to}{}", &text[..at], &text[at + from.len()..])
}

#[test]
fn csv_faults_have_their_place() {
    let text = two_rows();
    let errors = [
        error("a.csv", second_changed("1302417.5", "fast")),
        error("a.csv", second_changed("1302417.5", "NaN")),
        error("a.csv", second_changed("1302417.5", "")),
        error("a.csv", second_changed(",231211008,", ",-1,")),
        error("a.csv", second_changed(",cpu,", ",a GPU,")),
        error("a.csv", second_changed(",1x64x56x56,", ",1x64x56xn,")),
        error("a.csv", second_changed(",cpu,", ",cpu,,")),
        error("a.csv", second_changed("}\"", "\"")),
        error("a.csv", &text[..text.len() - 1]),
        error("a.csv", &text[..text.len() - 40]),
    ];
    insta::assert_snapshot!(errors.join("\n"), @r#"
    a.csv:3: column `time_median_ns`: expected a finite number, found `fast`
    a.csv:3: column `time_median_ns`: expected a finite number, found `NaN`
    a.csv:3: column `time_median_ns`: a measured point needs its time
    a.csv:3: column `flops`: expected an unsigned integer, found `-1`
    a.csv:3: column `device_kind`: expected a device kind (cpu, cuda, pynq, tpu, vta-sim, or another lower-case name of at most 32 bytes), found `a GPU`
    a.csv:3: column `input_shapes`: expected extents like `3x3` or `scalar`, found `1x64x56xn`
    a.csv:3: expected 159 fields, found 160; a quote or a comma is out of place
    a.csv:3: column `schedule_knobs`: expected JSON, found `{"tile": [1, 16], "note": "a, \"b\""`: EOF while parsing an object at column 36
    a.csv:3: the last row is torn: its writer was stopped while writing; resume that run, or delete the line
    a.csv:3: the last row is torn: its writer was stopped while writing; resume that run, or delete the line
    "#);
}

#[test]
fn text_that_is_not_utf8_is_told() {
    let text = two_rows().replace("resnet-18,", "resnet-X,");
    let bytes: Vec<u8> = text
        .bytes()
        .map(|b| if b == b'X' { 0xff } else { b })
        .collect();
    insta::assert_snapshot!(error("a.csv", bytes), @"a.csv:2: column `run_id`: the text is not UTF-8");
}

#[test]
fn other_columns_are_named() {
    let text = two_rows();
    let errors = [
        error(
            "a.csv",
            text.replace("op_kind", "op_sort")
                .replace("tool_version", "run_id"),
        ),
        error("a.csv", ""),
        error("a.csv", "time,ns\n1,2\n"),
        // A file of another version says so, whatever its columns.
        error("a.csv", "schema_version,row_id\n4,x\n"),
        error("a.csv", text.replace("\n3,", "\n4,")),
        error("a.csv", text.replace("\n3,", "\n2,")),
    ];
    insta::assert_snapshot!(errors.join("\n"), @"
    a.csv: not the columns of schema version 3: missing op_kind, tool_version; unknown or repeated op_sort, run_id
    a.csv is empty; a dataset has a header at least
    a.csv: not the columns of schema version 3: missing schema_version, row_id, run_id, point_id, measured_at_utc, model_source, model_name, import_key and 87 more; unknown or repeated time, ns
    a.csv: rows of schema version 4, this program reads version 3; use a newer version of the program
    a.csv: rows of schema version 4, this program reads version 3; use a newer version of the program
    a.csv: rows of schema version 2, this program reads version 3; convert them with the version of the program that wrote them
    ");
}

#[test]
fn json_lines_faults_have_their_place() {
    let line = serde_json::to_string(&common::row(0)).unwrap();
    let errors = [
        error("a.jsonl", format!("{line}\n\n{}", &line[..line.len() / 2])),
        error("a.jsonl", line.replace("\"threads\":2", "\"threads\":2.5")),
        error("a.jsonl", line.replace("\"threads\"", "\"thread\"")),
        error("a.jsonl", line.replace("\"op_kind\":\"conv2d\",", "")),
        error(
            "a.jsonl",
            line.replace("\"schema_version\":3", "\"schema_version\":9"),
        ),
        error("a.jsonl", "[1]\n"),
    ];
    insta::assert_snapshot!(errors.join("\n"), @"
    a.jsonl:3: not a JSON object in one line: EOF while parsing an object at column 348
    a.jsonl:1: column `threads`: expected an unsigned integer, found `2.5`
    a.jsonl:1: column `thread`: schema version 3 has no such column
    a.jsonl:1: column `op_kind`: expected text, found nothing
    a.jsonl: rows of schema version 9, this program reads version 3; use a newer version of the program
    a.jsonl:1: not a JSON object in one line: invalid type: sequence, expected a map
    ");
}

#[test]
fn json_columns_take_plain_json() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.jsonl");
    let mut value = serde_json::to_value(common::row(0)).unwrap();
    value["counters"] = serde_json::json!({"perf:cycles": 12.5});
    value["threads"] = serde_json::Value::Null;
    fs::write(&path, value.to_string()).unwrap();
    let rows = read_rows(&path).unwrap();
    assert_eq!(rows[0].threads, None);
    assert_eq!(
        rows[0].counters.as_ref().unwrap().as_str(),
        r#"{"perf:cycles":12.5}"#
    );
}

#[test]
fn damaged_parquet_is_reported() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("rows.parquet");
    parquet::write(&path, [Ok(common::row(0))].into_iter()).unwrap();
    let bytes = fs::read(&path).unwrap();
    let errors = [
        error("a.parquet", &bytes[..bytes.len() / 2]),
        error("a.parquet", "PAR1"),
        error("a.parquet", ""),
    ];
    insta::assert_snapshot!(errors.join("\n"), @"
    a.parquet is damaged: Parquet error: Invalid Parquet file. Corrupt footer; read the run's rows.csv instead, or finish the run again to write it anew
    a.parquet is damaged: EOF: Parquet file too small. Size is 4 but need 8; read the run's rows.csv instead, or finish the run again to write it anew
    a.parquet is damaged: EOF: Parquet file too small. Size is 0 but need 8; read the run's rows.csv instead, or finish the run again to write it anew
    ");
}

#[test]
fn a_flipped_bit_of_a_parquet_file_is_never_another_value() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("rows.parquet");
    let rows: Vec<_> = (0..3).map(common::row).collect();
    parquet::write(&path, rows.iter().cloned().map(Ok)).unwrap();
    assert_eq!(read_rows(&path).unwrap(), rows);
    let bytes = fs::read(&path).unwrap();
    let mut refused = 0;
    for place in (0..bytes.len()).step_by(23) {
        let mut damaged = bytes.clone();
        damaged[place] ^= 1 << (place % 8);
        fs::write(&path, damaged).unwrap();
        match read_rows(&path) {
            Err(_) => refused += 1,
            Ok(found) => assert_eq!(found, rows, "byte {place}"),
        }
    }
    assert!(refused > 100, "{refused} of {} refused", bytes.len() / 23);
}

#[test]
fn strange_paths_are_reported() {
    let folder = tempfile::tempdir().unwrap();
    let missing = folder.path().join("none.csv");
    assert!(matches!(
        read_rows(&missing),
        Err(opdata::Error::NotFound { .. })
    ));
    assert!(matches!(
        read_rows(&folder.path().join("none")),
        Err(opdata::Error::NotFound { .. })
    ));
    assert!(matches!(
        read_rows(folder.path()),
        Err(opdata::Error::NotFound { .. })
    ));
    insta::assert_snapshot!(error("rows.xlsx", ""), @"rows.xlsx is not a dataset by its name; rows are in .csv, .parquet or .jsonl files or in a run's folder");
}
