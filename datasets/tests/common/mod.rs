//! Rows for tests: one that is plain, and arbitrary ones that are valid.

#![allow(dead_code, reason = "each test binary uses its part")]

use opdata::schema::{Cell, ColumnType, Presence};
use opdata::{COLUMNS, Column, DeviceKind, Essentials, Row, SCHEMA_VERSION, Status};
use proptest::prelude::*;

/// A measured row like those of a real run.
pub fn row(ordinal: u64) -> Row {
    let mut row = Row {
        model_name: Some("resnet-18".to_owned()),
        input_shapes: "1x64x56x56".parse().ok(),
        loop_nest: "ff:64:s,yy:56:s,xx:56:s,rc:64:r,ry:3:r,rx:3:r".parse().ok(),
        flops: Some(231_211_008),
        bytes_read: Some(950_272),
        bytes_written: Some(802_816),
        schedule_knobs: r#"{"tile": [1, 16], "note": "a, \"b\""}"#.parse().ok(),
        threads: Some(2),
        time_median_ns: Some(1_302_417.5),
        time_ci_low_ns: Some(1_300_000.0),
        time_ci_high_ns: Some(1_305_000.0),
        tool_version: Some("opcollect 0.1.0".to_owned()),
        ..Row::new(Essentials {
            run_id: "20260101T120000Z-resnet-18",
            ordinal,
            point_id: "9f86d081884c7d65",
            op_name: "conv2d_add_relu",
            op_kind: "conv2d",
            device_kind: DeviceKind::CPU,
            status: Status::Measured,
        })
    };
    row.fill_derived();
    row
}

/// Any row that may be part of a dataset.
pub fn any_row() -> impl Strategy<Value = Row> {
    let cells: Vec<BoxedStrategy<Cell<'static>>> = COLUMNS.iter().map(any_cell).collect();
    cells.prop_map(|cells| {
        let mut row = Row::from_cells(cells).expect("cells of the columns' types make a row");
        row.schema_version = SCHEMA_VERSION;
        if row.status.has_time() {
            row.time_median_ns.get_or_insert(0.1);
        } else {
            row.time_median_ns = None;
            row.reason.get_or_insert_with(|| "why".to_owned());
        }
        // The interval around the median, whichever way its ends came.
        if let Some(median) = row.time_median_ns {
            row.time_ci_low_ns = row.time_ci_low_ns.map(|low| low.min(median));
            row.time_ci_high_ns = row.time_ci_high_ns.map(|high| high.max(median));
        }
        row
    })
}

fn any_cell(column: &'static Column) -> BoxedStrategy<Cell<'static>> {
    let value = match column.ty {
        ColumnType::Integer => any_integer().prop_map(Cell::Integer).boxed(),
        ColumnType::Float if column.unit == "ns" => any_float()
            .prop_map(|value| Cell::Float(value.abs()))
            .boxed(),
        ColumnType::Float => any_float().prop_map(Cell::Float).boxed(),
        ColumnType::Text => any_text().prop_map(text).boxed(),
        ColumnType::Word(words) => prop::sample::select(words).prop_map(text).boxed(),
        ColumnType::Json => any_text()
            .prop_map(|value| text(serde_json::json!({ &value: [value, 0.1] }).to_string()))
            .boxed(),
        ColumnType::Dims => any_dims().prop_map(text).boxed(),
        ColumnType::Shapes => prop::collection::vec(any_dims(), 1..4)
            .prop_map(|shapes| text(shapes.join(";")))
            .boxed(),
        ColumnType::LoopNest => {
            prop::collection::vec(("[a-z_.0-9é]{1,9}", any_integer(), "[sr]"), 1..4)
                .prop_map(|loops| {
                    let loops = loops
                        .iter()
                        .map(|(name, extent, kind)| format!("{name}:{extent}:{kind}"));
                    text(loops.collect::<Vec<_>>().join(","))
                })
                .boxed()
        }
        ColumnType::Timestamp => (-62_167_219_200_000i64..=253_402_300_799_999)
            .prop_map(|ms| text(opdata::Timestamp::from_unix_ms(ms).to_string()))
            .boxed(),
    };
    match column.presence {
        Presence::Required => value,
        Presence::Optional => prop_oneof![Just(Cell::Missing), value].boxed(),
    }
}

fn text(value: impl Into<String>) -> Cell<'static> {
    Cell::Text(value.into().into())
}

fn any_integer() -> impl Strategy<Value = u64> {
    prop_oneof![
        Just(0),
        Just(i64::MAX as u64 + 1),
        Just(u64::MAX),
        any::<u64>()
    ]
}

fn any_float() -> impl Strategy<Value = f64> {
    use prop::num::f64::{NEGATIVE, NORMAL, POSITIVE, SUBNORMAL, ZERO};
    prop_oneof![
        Just(f64::MAX),
        Just(f64::MIN_POSITIVE),
        Just(0.1 + 0.2),
        POSITIVE | NEGATIVE | NORMAL | SUBNORMAL | ZERO,
    ]
}

fn any_text() -> impl Strategy<Value = String> {
    prop_oneof![
        3 => "(?s).{1,12}",
        2 => "[\", \\r\\n'\\\\;\\t\u{0}]{1,6}",
        1 => prop::sample::select(vec!["NA", "null", "\u{feff}x", "#", "=1", " x ", "1e5", "日本語", "\"", "\r"])
            .prop_map(str::to_owned),
    ]
}

fn any_dims() -> impl Strategy<Value = String> {
    prop_oneof![
        Just("scalar".to_owned()),
        prop::collection::vec(any_integer(), 1..5).prop_map(|extents| {
            extents
                .iter()
                .map(u64::to_string)
                .collect::<Vec<_>>()
                .join("x")
        }),
    ]
}
