//! A second device for tests, as unlike TVM's devices as the seams allow. It has its own kind in rows, its own lowering
//! and its own condition, but no templates and no threads of the host.
//!
//! It is a tape that a reading head runs along: a kernel takes as long as its program's tape is long. Lowering writes the
//! tape ([`program`]); LLVM compiles the same function, so that its output can be checked. Like [`super::scripted`] it is
//! one folder and one line of [`super::ALL`].

mod program;
mod session;

use opdata::contract::Environment;
use opdata::{DeviceKind, Row};
use serde_json::{Value, json};

use super::{
    ConditionInfo, DeviceHost, DevicePlan, DeviceSchedules, Opening, Session, Target, TargetOption,
    TargetProblem,
};

/// The device.
#[derive(Debug, Clone, Copy)]
pub struct Tape;

impl DevicePlan for Tape {
    fn name(&self) -> &'static str {
        "tape"
    }

    fn title(&self) -> &'static str {
        "a tape and a reading head, for tests"
    }

    fn kind(&self) -> DeviceKind {
        DeviceKind::named("tape")
    }

    fn has_host_threads(&self) -> bool {
        false
    }

    fn options(&self) -> &'static [TargetOption] {
        &[]
    }

    fn check(&self, _target: &Target) -> Result<(), TargetProblem> {
        Ok(())
    }

    fn dictionary(&self, _target: &Target, _machine: &Environment) -> Value {
        json!({ "kind": self.name() })
    }

    fn describe_target(&self, _dictionary: &Value) -> String {
        self.name().to_owned()
    }

    fn hardware(&self, _machine: &Environment) -> String {
        "a reading head".to_owned()
    }

    fn conditions(&self) -> &'static [ConditionInfo] {
        &[ConditionInfo {
            name: session::SPEED,
            about: "how fast the head runs",
            values: &["slow", "fast"],
        }]
    }

    fn fill_target(&self, row: &mut Row, _dictionary: &Value) {
        row.engine = Some("head".to_owned());
    }
}

impl DeviceSchedules for Tape {}

impl DeviceHost for Tape {
    fn limit_memory(&self, _mib: u64) -> std::io::Result<()> {
        Ok(())
    }

    fn open(&self, _opening: &Opening) -> anyhow::Result<Box<dyn Session>> {
        Ok(Box::new(session::TapeSession::open()?))
    }
}
