//! Rows for the tests of this crate and of those above it.

use crate::{DeviceKind, Essentials, Row, Status};

/// A row that ended `measured` on a CPU, of an operator named after its kind; it has no time yet.
#[must_use]
pub fn measured(kind: &str) -> Row {
    Row::new(Essentials {
        run_id: "run",
        ordinal: 0,
        point_id: "p",
        op_name: kind,
        op_kind: kind,
        device_kind: DeviceKind::CPU,
        status: Status::Measured,
    })
}
