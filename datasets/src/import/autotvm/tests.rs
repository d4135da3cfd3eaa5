//! Logs of both formats, whole and damaged.

use super::*;
use crate::import::{Format, gather};
use std::io::Write;

const GOOD: &str = r#"{"input": ["cuda -keys=cuda,gpu -arch=sm_75", "dense_large_batch.gpu", [["TENSOR", [128, 768], "float32"], ["TENSOR", [3072, 768], "float32"], null, "float32"], {}], "config": {"index": 604, "code_hash": null, "entity": [["tile_x", "sp", [-1, 16, 2, 1]], ["tile_y", "sp", [-1, 8, 2, 4]], ["tile_k", "sp", [-1, 4, 2]]]}, "result": [[0.003, 0.001, 0.002], 0, 1.4, 1662426967.796445], "version": 0.2, "tvm_version": "0.8.0"}"#;
const FAILED: &str = r#"{"input": ["llvm -mcpu=core-avx2", "mystery.x86", [["TENSOR", [4, 4], "int8"]], {}], "config": {"index": 1, "code_hash": null, "entity": []}, "result": [["Traceback\n  File\nTVMError: too many registers\n"], 4, 1.6, 1654740117.3], "version": 0.2, "tvm_version": "0.9.dev0"}"#;
const OLD: &str = r#"{"i": ["llvm", "topi_nn_conv2d", [["TENSOR", [1, 64, 56, 56], "float32"], ["TENSOR", [64, 64, 1, 1], "float32"], [1, 1], [0, 0], [1, 1], "NCHW", "float32"], {}, ["conv2d"], {"i": 3, "t": "direct", "c": null, "e": [["tile_ic", "sp", [4, 16]], ["tile_oc", "sp", [4, 16]], ["tile_ow", "sp", [8, 7]], ["tile_oh", "ot", 1]]}], "r": [[0.0001], 0, 0.5, 1600000000.0], "v": 0.1}"#;
const FOREIGN: &str = r#"{"input": ["opencl -device=mali", "dense", [], {}], "config": {"entity": []}, "result": [[0.1], 0, 1, 2], "version": 0.2}"#;

fn import(text: &str) -> Result<Imported> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tune.log");
    std::fs::write(&path, text).unwrap();
    Import::new(Format::Autotvm, path).read()
}

#[test]
fn records_of_both_formats_become_rows() {
    let imported = import(&[GOOD, "", FAILED, OLD, FOREIGN].join("\n")).unwrap();
    let shown: Vec<String> = imported
        .rows
        .iter()
        .map(|row| {
            format!(
                "{} {} {} {} flops {:?} read {:?} median {:?} of {:?}; tiles {:?} {:?}; {}",
                row.row_id,
                row.device_kind,
                row.op_kind,
                row.status,
                row.flops,
                row.bytes_read,
                row.time_median_ns,
                row.samples,
                row.knob_tile_spatial,
                row.knob_tile_reduction,
                row.reason.as_deref().unwrap_or("-"),
            )
        })
        .collect();
    insta::assert_snapshot!(shown.join("\n"), @r#"
    autotvm-tune.000001 cuda dense measured flops Some(603979776) read Some(9830400) median Some(2000000.0) of Some(3); tiles Some("64x32") Some("8"); -
    autotvm-tune.000002 cpu other crashed flops None read Some(16) median None of None; tiles None None; AutoTVM error 4: it failed on the device: TVMError: too many registers
    autotvm-tune.000003 cpu conv2d measured flops Some(25690112) read Some(819200) median Some(100000.0) of Some(1); tiles Some("16x7") Some("16"); -
    "#);
    insta::assert_snapshot!(format!("{:?}", imported.left_out), @r#"{"the dataset has no device kind for target `opencl`": 1}"#);
    assert_eq!(imported.rows[1].target_cpu.as_deref(), Some("core-avx2"));
    assert_eq!(
        imported.rows[2].loop_nest.as_ref().unwrap().to_string(),
        "nn:1:s,ff:64:s,yy:56:s,xx:56:s,rc:64:r,ry:1:r,rx:1:r"
    );
}

#[test]
fn spellings_of_the_same_arguments_are_one_workload() {
    let shorter = GOOD.replace(", null, \"float32\"]", "]");
    assert_ne!(shorter, GOOD);
    let rows = import(&[GOOD, &shorter].join("\n")).unwrap().rows;
    assert_eq!(rows[0].workload_hash, rows[1].workload_hash);
    assert_eq!(rows[0].point_id, rows[1].point_id);
}

#[test]
fn compressed_logs_are_read() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tune.jsonl.gz");
    let mut encoder = flate2::write::GzEncoder::new(
        std::fs::File::create(&path).unwrap(),
        flate2::Compression::fast(),
    );
    writeln!(encoder, "{GOOD}").unwrap();
    encoder.finish().unwrap();
    let rows = Import::new(Format::Autotvm, &path).read().unwrap().rows;
    assert_eq!(rows[0].row_id, "autotvm-tune.000001");
}

#[test]
fn what_is_no_record_is_named_with_its_line() {
    let message = |text: &str| {
        let text = import(text).unwrap_err().to_string();
        text.split_once("tune.log").unwrap().1.to_owned()
    };
    insta::assert_snapshot!(
        [
            message("{\"input\":"),
            message("{\"a\": 1}"),
            message(&["", "[]"].join("\n")),
            message(&GOOD.replace("[0.003, 0.001, 0.002]", "[]")),
            message(&GOOD.replace("[\"tile_x\", \"sp\", [-1, 16, 2, 1]]", "7")),
        ]
        .join("\n"),
        @"
    :1: not JSON in one line: EOF while parsing a value at column 9
    :1: no list `input`: this is not an AutoTVM record
    :2: no list `input`: this is not an AutoTVM record
    :1: a record without error needs costs above 0
    :1: `7` is no knob: expected [name, kind, value]
    "
    );
}

/// A log with good records around every kind of damage.
fn damaged() -> String {
    [
        GOOD,
        "# copied from another machine",
        "{\"input\": NaN}",
        &GOOD.replace("[0.003, 0.001, 0.002]", "[1e-30]"),
        &GOOD.replace("[0.003, 0.001, 0.002]", "[0.001, 1e9]"),
        OLD,
        &GOOD[..100],
    ]
    .join("\n")
}

#[test]
fn what_cannot_be_used_is_counted_and_the_rest_kept() {
    let imported = import(&damaged()).unwrap();
    assert_eq!(imported.rows.len(), 2);
    let left_out: Vec<String> = imported
        .left_out
        .iter()
        .map(|(why, count)| format!("{count} {why}"))
        .collect();
    insta::assert_snapshot!(left_out.join("\n"), @r#"
    1 comments (first in line 2: a comment)
    2 damaged lines (first in line 3: not JSON in one line: expected value at column 11)
    2 records with an impossible time (first in line 4: 1.000e-21 ns is less than any machine needs for dense_large_batch.gpu (6.040 ns))
    "#);
}

#[test]
fn a_strict_import_refuses_the_first_fault() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tune.log");
    std::fs::write(&path, damaged()).unwrap();
    let error = Import {
        strict: true,
        ..Import::new(Format::Autotvm, path)
    }
    .read()
    .unwrap_err()
    .to_string();
    assert!(error.contains("tune.log:3: not JSON"), "{error}");
}

#[test]
fn machines_are_distinguished_by_name_and_contradicting_repeats_left_out() {
    let folder = tempfile::tempdir().unwrap();
    let log = |name: &str, cost: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, GOOD.replace("[0.003, 0.001, 0.002]", cost)).unwrap();
        path
    };
    let (a, b) = (log("a.log", "[0.002]"), log("b.log", "[0.003]"));
    let unnamed = [a.clone(), b.clone()].map(|path| Import::new(Format::Autotvm, path));
    let both = gather(&[&unnamed[0], &unnamed[1]]).unwrap();
    assert_eq!(both.rows.len(), 0);
    let (why, count) = both.left_out.first_key_value().unwrap();
    assert!(why.contains("NAME=FILE") && *count == 2, "{why}");
    let named = [("one", a), ("two", b)].map(|(machine, path)| Import {
        machine: Some(machine.to_owned()),
        ..Import::new(Format::Autotvm, path)
    });
    let rows = gather(&[&named[0], &named[1]]).unwrap().rows;
    let machines: Vec<_> = rows.iter().map(|row| row.env_hash.as_deref()).collect();
    assert_eq!(machines, [Some("one"), Some("two")]);
    assert_eq!(rows[0].point_id, rows[1].point_id);
}

#[test]
fn options_that_do_not_change_the_machine_do_not_change_the_point() {
    let plain = GOOD.replace(" -keys=cuda,gpu", " -max_num_threads=1024");
    let rows = import(&[GOOD, &plain].join("\n")).unwrap().rows;
    assert_eq!(rows[0].point_id, rows[1].point_id);
}
