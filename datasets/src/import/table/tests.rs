//! Tables in the forms that are published, and damaged ones.

use std::io::Write;

use super::*;
use crate::import::Format;

const PRODUCTS: &str = "\
vendor,split,Device,OPName,B,M,N,K,Kernel Name,Grid x,latency_ms
nvidia,test,NVIDIA L4,linear,2,1024,2560,512,\"ampere_sgemm<float, 128>\",20,1.5
nvidia,test,NVIDIA L4,bmm,16,128,128,64,k,20,0.05
amd,test,AMD Instinct MI100,linear,1,8,8,8,k,20,0.05
";
const CONVOLUTIONS: &str = "\
Device,OPName,B,Input_Channel,Output_Channel,Kernel_Size,Input_Size,Stride,Padding,latency_ms
Tesla T4,conv,8,64,128,3,56,2,1,0.75
";

fn import(text: &str, strict: bool) -> Result<Imported> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.csv");
    std::fs::write(&path, text).unwrap();
    Import {
        strict,
        ..Import::new(Format::Table, path)
    }
    .read()
}

fn shown(imported: &Imported) -> String {
    let row = |row: &Row| {
        format!(
            "{} {} {} {}: {} {} flops {:?} read {:?} written {:?}, {:?} ns",
            row.row_id,
            row.env_hash.as_deref().unwrap_or("-"),
            row.op_name,
            row.op_kind,
            row.input_shapes.as_ref().unwrap(),
            row.weight_shapes
                .as_ref()
                .map_or("-".to_owned(), ToString::to_string),
            row.flops,
            row.bytes_read,
            row.bytes_written,
            row.time_median_ns,
        )
    };
    let rows = imported.rows.iter().map(row);
    let left_out = imported
        .left_out
        .iter()
        .map(|(why, n)| format!("{n} {why}"));
    rows.chain(left_out).collect::<Vec<_>>().join("\n")
}

#[test]
fn products_and_convolutions_become_rows() {
    insta::assert_snapshot!(
        [shown(&import(PRODUCTS, true).unwrap()), shown(&import(CONVOLUTIONS, true).unwrap())].join("\n"),
        @r#"
        table-t.000001 NVIDIA L4 linear dense: 2048x2560 512x2560 flops Some(5368709120) read Some(26214400) written Some(4194304), Some(1500000.0) ns
        table-t.000002 NVIDIA L4 bmm batch_matmul: 16x128x128 16x64x128 flops Some(33554432) read Some(1572864) written Some(524288), Some(50000.0) ns
        1 the dataset has no device kind for `AMD Instinct MI100`; a column `device_kind` (cpu, cuda) tells it
        table-t.000001 Tesla T4 conv conv2d: 8x64x56x56 128x64x3x3 flops Some(924844032) read Some(6717440) written Some(3211264), Some(750000.0) ns
        "#
    );
}

#[test]
fn rows_of_values_are_distinguished_by_their_operator() {
    let text =
        "device,op,b,h,time_us\nXeon,add,64,128,3\nXeon,softmax,64,128,9\nXeon,ln,64,128,9\n";
    insta::assert_snapshot!(shown(&import(text, true).unwrap()), @r#"
    table-t.000001 Xeon add elementwise: 64x128;64x128 - flops Some(8192) read Some(65536) written Some(32768), Some(3000.0) ns
    table-t.000002 Xeon softmax softmax: 64x128 - flops Some(40960) read Some(32768) written Some(32768), Some(9000.0) ns
    table-t.000003 Xeon ln layer_norm: 64x128 - flops Some(65536) read Some(32768) written Some(32768), Some(9000.0) ns
    "#);
}

#[test]
fn precision_transpositions_and_operands_are_distinguished() {
    let text = "device,sheet,m,n,k,ta,tb,time_ms\n\
        NV_T4,Results FP32,64,32,16,N,N,0.02\n\
        NV_T4,\"Results - FP16 ip, Mixed math\",64,32,16,N,N,0.01\n\
        NV_T4,Results FP32,64,32,16,T,N,0.03\n\
        NV_T4,Results FP32,64,32,16,1,128,0.03\n";
    let products = import(text, false).unwrap();
    let hashes: std::collections::BTreeSet<_> =
        products.rows.iter().map(|r| &r.workload_hash).collect();
    assert_eq!((products.rows.len(), hashes.len()), (3, 3));
    let rows = "device,op,b,h,time_us\nXeon,addu,64,128,3\nXeon,pow,64,128,3\n";
    insta::assert_snapshot!(
        [shown(&products), shown(&import(rows, true).unwrap())].join("\n"),
        @r#"
        table-t.000001 NV_T4 dense_nn dense: 64x16 32x16 flops Some(65536) read Some(6144) written Some(8192), Some(20000.0) ns
        table-t.000002 NV_T4 dense_nn dense: 64x16 32x16 flops Some(65536) read Some(3072) written Some(8192), Some(10000.0) ns
        table-t.000003 NV_T4 dense_tn dense: 64x16 32x16 flops Some(65536) read Some(6144) written Some(8192), Some(30000.0) ns
        1 lines that are no record (first in line 5: `1` in column `ta` is neither N nor T)
        table-t.000001 Xeon addu elementwise: 64x128 - flops Some(8192) read Some(32768) written Some(32768), Some(3000.0) ns
        table-t.000002 Xeon pow elementwise: 64x128;64x128 - flops Some(8192) read Some(65536) written Some(32768), Some(3000.0) ns
        "#
    );
}

#[test]
fn lines_that_cannot_be_are_counted_or_refused() {
    let text = "\
device,m,n,k,time_ms
NV_T4,64,64,64,0.01
NV_T4,64,sixty,64,0.01
NV_T4,64,64,64,nan
NV_T4,64,64,64,1e-12
NV_T4,64,64
# a remark
NV_T4,128,64,64,0.01
";
    insta::assert_snapshot!(shown(&import(text, false).unwrap()), @r#"
    table-t.000001 NV_T4 dense dense: 64x64 64x64 flops Some(524288) read Some(32768) written Some(16384), Some(10000.0) ns
    table-t.000006 NV_T4 dense dense: 128x64 64x64 flops Some(1048576) read Some(49152) written Some(32768), Some(10000.0) ns
    3 lines that are no record (first in line 3: `sixty` in column `n` is no count)
    1 records with an impossible time (first in line 5: 1.000e-6 ns is less than any machine needs for dense (1.000 ns))
    "#);
    let error = import(text, true).unwrap_err().to_string();
    assert!(
        error.ends_with("t.csv:3: `sixty` in column `n` is no count"),
        "{error}"
    );
    let error = import("a,b\n1,2\n", false).unwrap_err().to_string();
    assert!(error.contains("no column of times"), "{error}");
}

#[test]
fn a_header_that_leaves_something_open_is_refused() {
    for (header, part) in [
        (
            "device,m,n,k,Latency",
            "the unit of `latency` is not known: name it time_ms",
        ),
        (
            "device,m,n,k,time_min",
            "the unit of `time_min` is not known",
        ),
        (
            "device;m;n;k;time_ms",
            "columns are to be separated by commas",
        ),
        ("device,m,M,n,k,time_ms", "there are two columns `m`"),
        (
            "device,Device,m,n,k,time_ms",
            "there are two columns `device`",
        ),
        (
            "device,m,n,k,time_ms,time_ms",
            "several columns of times (time_ms, time_ms): keep the one that counts",
        ),
        (
            "device,m,n,k,time_ms,latency_us",
            "several columns of times (time_ms, latency_us)",
        ),
        (
            "device,m,n,k,time_min_ms,time_mean_ms",
            "several columns of times (time_min_ms, time_mean_ms)",
        ),
        ("", "no column of times"),
    ] {
        let error = import(&format!("{header}\n"), false)
            .unwrap_err()
            .to_string();
        assert!(error.contains(part), "{header}: {error}");
    }
}

#[test]
fn the_plain_time_counts_beside_others_and_a_byte_order_mark_is_none_of_it() {
    for (header, line) in [
        ("time_std_ms,device,m,n,k,time_ms", "9,NV_T4,64,64,64,0.5"),
        ("\u{feff}time_ms,device,m,n,k", "0.5,NV_T4,64,64,64"),
        ("device,m,n,k,time_mean_ms", "NV_T4,64,64,64,0.5"),
        ("timestamp_s,device,m,n,k,time_ms", "9,NV_T4,64,64,64,0.5"),
        (
            "timestamp_s,device,m,n,k,time_mean_ms",
            "9,NV_T4,64,64,64,0.5",
        ),
    ] {
        let text = format!("{header}\r\n{line}\r\n");
        let times: Vec<_> = import(&text, true).unwrap().rows;
        assert_eq!(times[0].time_median_ns, Some(500_000.0), "{header}");
    }
}

#[test]
fn messages_stay_short_whatever_the_table_holds() {
    let mut text = "device,m,n,k,time_ms\nNV_T4,64,64,64,0.5\n".to_owned();
    text += &format!("NV_T4,{},64,64,0.5\n", "6".repeat(1 << 20));
    for number in 0..1000 {
        text += &format!("some\u{7}thing {number},64,64,64,0.5\n");
    }
    text += &format!("{},64,64,64,0.5\n", "x".repeat(1 << 20));
    let imported = import(&text, false).unwrap();
    assert_eq!(imported.left_out.values().sum::<u64>(), 1002);
    assert_eq!(imported.left_out.len(), NAMED_DEVICES + 2);
    let others = "the dataset has no device kind for other names; a column `device_kind` (cpu, cuda) tells it";
    assert_eq!(imported.left_out[others], 991);
    let told = imported.left_out.keys();
    assert!(
        told.clone()
            .all(|why| why.len() < 400 && !why.contains('\u{7}'))
    );
    // Neither text that is not in UTF-8 nor a torn head is taken for CSV.
    let folder = tempfile::tempdir().unwrap();
    let utf16: Vec<u8> = "device,time_ms"
        .encode_utf16()
        .flat_map(u16::to_le_bytes)
        .collect();
    let bytes = [&[0xff, 0xfe][..], &utf16].concat();
    for (bytes, part) in [
        (bytes, "save the table as UTF-8"),
        (vec![0x1f, 0x8b, 8], "the compressed data is damaged"),
    ] {
        let path = folder.path().join("t.csv");
        std::fs::write(&path, bytes).unwrap();
        let error = Import::new(Format::Table, &path).read().unwrap_err();
        assert!(error.to_string().contains(part), "{error}");
    }
}

#[test]
fn unknown_types_and_devices_are_reported() {
    let text = "device,dtype,m,n,k,time_ms\n\
        T4 of Tesla,FP16,64,64,64,0.02\n\
        T4 of Tesla,bfloat16,64,64,64,0.02\n\
        T4 of Tesla,float12,64,64,64,0.02\n\
        ,,64,64,64,0.02\n";
    let imported = import(text, false).unwrap();
    let dtypes: Vec<_> = imported.rows.iter().map(|r| r.dtypes.as_deref()).collect();
    assert_eq!(dtypes, [Some("float16;float16"), Some("bfloat16;bfloat16")]);
    insta::assert_snapshot!(
        imported.left_out.keys().cloned().collect::<Vec<_>>().join("\n"),
        @r"
    lines that are no record (first in line 4: `float12` in column `dtype` is no type of values (float32, float16, int8, …))
    no device is named; a column `device_kind` (cpu, cuda) tells it
    "
    );
}

#[test]
fn a_compressed_table_that_breaks_off_keeps_its_whole_lines() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.csv.gz");
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(b"device,m,n,k,time_ms\n").unwrap();
    for i in 1..2000u64 {
        writeln!(
            encoder,
            "NV_T4,{},64,64,0.{:05}",
            i,
            i * 7919 % 90_000 + 1000
        )
        .unwrap();
    }
    let whole = encoder.finish().unwrap();
    std::fs::write(&path, &whole[..whole.len() / 2]).unwrap();
    let imported = Import::new(Format::Table, &path).read().unwrap();
    assert!((100..1990).contains(&imported.rows.len()));
    assert!(
        imported
            .left_out
            .keys()
            .any(|why| why.starts_with("the end of a damaged file"))
    );
}
