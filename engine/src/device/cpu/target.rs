//! LLVM targets: the dictionary for TVM, and the names that LLVM knows.
//!
//! LLVM takes a name it does not know for its generic processor, and says so on standard error only. The kernels
//! would be measured under a wrong name. So names are asked for before anything is compiled.

use opdata::contract::Environment;
use opreport::nearest::{did_you_mean, nearest};
use serde_json::{Value, json};
use tvm_bridge::llvm;

use crate::device::remote::architecture_of;
use crate::device::{Target, TargetProblem};

/// The machine, by LLVM's name. Empty for the machine that this program runs on.
pub(super) const MTRIPLE: &str = "mtriple";
/// How functions are given floating-point numbers on 32-bit ARM.
pub(super) const FLOAT_ABI: &str = "mfloat-abi";
/// The processor, by LLVM's name.
pub(super) const MCPU: &str = "mcpu";
/// Features that are switched on or off, by LLVM's names.
pub(super) const MATTR: &str = "mattr";

/// TVM's dictionary for a target on a machine.
pub(super) fn dictionary(target: &Target, environment: &Environment) -> Value {
    let machine = &environment.machine;
    // The number of cores of another machine may not be known.
    let mut json = json!({ "kind": target.device, "num-cores": machine.cores_online.max(1) });
    for option in [MTRIPLE, FLOAT_ABI] {
        if let Some(value) = target.value(option) {
            json[option] = json!(value);
        }
    }
    // Without a name LLVM takes its baseline for the architecture.
    let found = machine.llvm_cpu.name.as_deref();
    let is_of_triple = target
        .value(MTRIPLE)
        .is_none_or(|triple| architecture_of(triple) == machine.arch);
    if let Some(cpu) = target.value(MCPU).or(found.filter(|_| is_of_triple)) {
        json[MCPU] = json!(cpu);
    }
    let attributes = target.values(MATTR);
    if !attributes.is_empty() {
        json[MATTR] = json!(attributes);
    }
    json
}

/// Checks the names of processor and features, if any was given.
pub(super) fn check(target: &Target) -> Result<(), TargetProblem> {
    let (cpu, attributes) = (target.value(MCPU), target.values(MATTR));
    // The names below are those of this machine's architecture.
    if target
        .value(MTRIPLE)
        .is_some_and(|triple| architecture_of(triple) != std::env::consts::ARCH)
    {
        return Ok(());
    }
    if cpu.is_none() && attributes.is_empty() {
        return Ok(());
    }
    // If TVM cannot be loaded, the worker reports why.
    let cpus = llvm::cpus().unwrap_or_default();
    if cpus.is_empty() {
        return Ok(());
    }
    if let Some(cpu) = cpu.filter(|cpu| !cpus.iter().any(|known| known == cpu)) {
        return Err(unknown("CPU", MCPU, cpu, &cpus));
    }
    for attribute in attributes {
        let feature = attribute.trim_start_matches(['+', '-']);
        if feature == LIST || !llvm::has_feature(feature).unwrap_or(true) {
            let known = llvm::features_of_cpus().unwrap_or_default();
            return Err(unknown("feature", MATTR, feature, &known));
        }
    }
    Ok(())
}

/// The value of an option that requests the list of its values, as in LLVM's own programs.
const LIST: &str = "help";

/// The error for a name that LLVM does not know, with the nearest name that it knows.
fn unknown(what: &str, option: &str, name: &str, known: &[String]) -> TargetProblem {
    let arch = std::env::consts::ARCH;
    if name == LIST {
        return TargetProblem {
            problem: format!("no target, but a question for LLVM's names for {arch}"),
            next: format!("they are {}", known.join(", ")),
        };
    }
    let near = nearest(name, known.iter().map(String::as_str));
    let near = did_you_mean(&near);
    TargetProblem {
        problem: format!("LLVM knows no {what} `{name}` for {arch}{near}"),
        next: format!("-{option}={LIST} lists those that it knows"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::named;

    fn checked(words: &str) -> Result<(), String> {
        let target = Target::parse(named("llvm").unwrap(), words.split_whitespace()).unwrap();
        check(&target).map_err(|problem| problem.to_string())
    }

    #[test]
    #[cfg(target_arch = "x86_64")]
    fn names_that_llvm_does_not_know_are_refused_with_those_near() {
        for good in [
            "",
            "-mcpu=haswell",
            "-mcpu=x86-64-v3 -mattr=+avx2,-fma",
            "-mattr=+prefer-128-bit",
        ] {
            assert_eq!(checked(good), Ok(()), "{good}");
        }
        for (words, error) in [
            (
                "-mcpu=nonsense",
                "LLVM knows no CPU `nonsense` for x86_64; -mcpu=help lists those that it knows",
            ),
            (
                "-mcpu=hasswell",
                "LLVM knows no CPU `hasswell` for x86_64 (did you mean haswell?); -mcpu=help lists those that it knows",
            ),
            (
                "-mattr=+avx2,+zzz",
                "LLVM knows no feature `zzz` for x86_64; -mattr=help lists those that it knows",
            ),
        ] {
            assert_eq!(checked(words).unwrap_err(), error);
        }
        let listed = checked("-mcpu=help").unwrap_err();
        assert!(listed.contains("znver4, "), "{listed}");
    }
}
