//! The servers of another machine: `--host`, `--port` and `--key`.

use opdata::contract::RemoteAddress;
use opengine::device::{Target, TargetProblem};

use super::PlanError;
use super::parse;
use super::reader::{bad, optional, required, single};
use crate::config::{Origin, Settings, TRACKER_VARIABLES};

/// The address of the servers to measure on. `None` for this machine.
pub(super) fn remote(
    settings: &Settings,
    target: &Target,
    compile_only: bool,
) -> Result<Option<RemoteAddress>, PlanError> {
    let is_ours = |key| {
        let value = settings.get(key);
        let of_tvm = |variable: &str| TRACKER_VARIABLES.iter().any(|(name, _)| *name == variable);
        value.is_given()
            && !matches!(&value.origin, Origin::Environment { variable } if of_tvm(variable))
    };
    let Some(asked) = ["key", "host", "port"].into_iter().find(|key| is_ours(key)) else {
        return Ok(None);
    };
    let value = settings.get(asked);
    let refuse = |problem: &str, next: &str| Err(bad(&value, &value.text(), problem, next));
    if compile_only {
        return refuse("nothing is run with --compile-only", "leave it out");
    }
    if let Err(TargetProblem { problem, next }) = target.device.check_remote(target) {
        return refuse(&problem, &next);
    }
    if single(settings, "key")?.is_none() && single(settings, "host")?.is_none() {
        return refuse(
            "there is no host",
            "add --host, or the --key of servers at a tracker",
        );
    }
    let port = required(
        settings,
        "port",
        |text| parse::count(text, 1, u64::from(u16::MAX)),
        "give a port from 1 to 65535; stock trackers listen at 9190",
    )?;
    let text = |key: &'static str| optional(settings, key, |text| Ok(text.to_owned()), "");
    Ok(Some(RemoteAddress {
        host: text("host")?.unwrap_or_else(|| "127.0.0.1".to_owned()),
        port: port as u16,
        key: text("key")?.unwrap_or_default(),
    }))
}
