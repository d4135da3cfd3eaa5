//! The targets of a plan: `--target`, and `--arch` for one or several architectures of its device.

use opengine::device::{self, Target, TargetProblem};

use super::PlanError;
use super::reader::{bad, hint, not_available, required, unique};
use crate::config::Settings;

/// The target, and further ones for the other architectures of `--arch`.
pub(super) fn targets(
    settings: &Settings,
    compile_only: bool,
) -> Result<(Target, Vec<Target>), PlanError> {
    let target = target(settings)?;
    let archs = unique(settings, ARCH, |text| Ok(text.to_owned()), "")?;
    let Some((first, others)) = archs.split_first() else {
        return Ok((target, Vec::new()));
    };
    let value = settings.get(ARCH);
    let refuse = |problem: &str, next: &str| Err(bad(&value, &value.text(), problem, next));
    if !target.device.options().iter().any(|o| o.name == ARCH) {
        let problem = format!("{} has no architectures", target.device.name());
        return refuse(&problem, "leave it out");
    }
    if target.value(ARCH).is_some_and(|named| named != first) {
        return refuse("--target names another architecture", "name it once");
    }
    if !others.is_empty() && !compile_only {
        return refuse(
            "a device has one architecture",
            "give one, or add --compile-only to compile for several",
        );
    }
    let with = |arch: &String| {
        let mut target = target.clone();
        target.options.insert(ARCH.to_owned(), arch.as_str().into());
        let checked = target.device.check(&target);
        checked.map_err(|TargetProblem { problem, next }| bad(&value, arch, &problem, &next))?;
        Ok(target)
    };
    Ok((
        with(first)?,
        others.iter().map(with).collect::<Result<_, _>>()?,
    ))
}

/// The setting, and its option of a target.
const ARCH: &str = "arch";

fn target(settings: &Settings) -> Result<Target, PlanError> {
    let value = settings.get("target");
    let text = required(settings, "target", |text| Ok(text.to_owned()), "")?;
    let mut words = text.split_whitespace();
    let name = words.next().unwrap_or_default();
    let there: Vec<&str> = device::ALL.iter().map(|d| d.name()).collect();
    let available = format!("available here: {}", there.join(", "));
    let planned = || device::PLANNED.iter();
    if let Some(planned) = planned().find(|planned| planned.name == name) {
        let problem = format!("{}: {}", planned.title, planned.lacks);
        return Err(not_available(&value, &text, &problem, &available));
    }
    let Some(device) = device::named(name) else {
        let names = there.iter().copied().chain(planned().map(|p| p.name));
        let problem = format!("no such target{}", hint(name, names));
        return Err(bad(&value, &text, &problem, &available));
    };
    let target = Target::parse(device, words).and_then(|target| {
        device.check(&target)?;
        Ok(target)
    });
    target.map_err(|TargetProblem { problem, next }| bad(&value, &text, &problem, &next))
}
