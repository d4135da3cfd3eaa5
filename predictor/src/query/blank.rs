//! The row of a query: what was never measured, under the default schedule.

use opdata::{DeviceKind, Essentials, Row, Status};

/// A row with an operator's name, kind and kind of device alone.
pub fn blank(op_name: &str, op_kind: &str, device_kind: DeviceKind) -> Row {
    Row {
        schedule_space: Some("default".to_owned()),
        reason: Some("a query".to_owned()),
        ..Row::new(Essentials {
            run_id: "query",
            ordinal: 1,
            point_id: "query",
            op_name,
            op_kind,
            device_kind,
            status: Status::Skipped,
        })
    }
}
