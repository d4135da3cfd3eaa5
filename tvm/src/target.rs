//! Compilation targets, and TVM's knowledge of CPU names.
//!
//! A target is TVM's JSON dictionary (`{"kind": "llvm", "mcpu": "…", "num-cores": 2}`); current TVM refuses strings of
//! options. A target of a device that cannot run a program by itself, such as a GPU, has a host. That is the target of
//! the code that starts its kernels.

use std::collections::BTreeSet;

use serde_json::Value;
use tvm_ffi::{Map, String as Text};

use crate::call::{Obj, call, text, value};
use crate::device::DeviceKind;
use crate::error::{Error, Result};
use crate::libs::Libraries;

/// A parsed target with its host bound.
#[derive(Debug, Clone)]
pub struct Target {
    pub(crate) handle: Obj,
    json: Value,
    device: DeviceKind,
    /// None where the target is its own host.
    host: Option<Box<Target>>,
}

impl Target {
    /// Parses the dictionary of a target that is its own host.
    ///
    /// # Errors
    /// Fails if TVM does not know the kind, an option or the CPU name, or if the target needs a host.
    pub fn new(json: &Value) -> Result<Target> {
        let (one, device) = parse(json)?;
        if !device.is_host() {
            let reason = format!("a target for {device} needs a host, for example llvm");
            return Err(Error::unexpected("target.Target", reason));
        }
        Ok(Target {
            handle: call("target.WithHost", &[&one, &one])?,
            json: json.clone(),
            device,
            host: None,
        })
    }

    /// Parses the dictionary of a target whose kernels are started by code for `host`.
    ///
    /// # Errors
    /// Fails if TVM does not know the kind or an option.
    pub fn with_host(json: &Value, host: &Target) -> Result<Target> {
        let (one, device) = parse(json)?;
        Ok(Target {
            handle: call("target.WithHost", &[&one, &host.handle])?,
            json: json.clone(),
            device,
            host: Some(Box::new(host.clone())),
        })
    }

    /// The LLVM target for a CPU name of LLVM's, compiling for `num_cores`.
    ///
    /// # Errors
    /// Fails if the CPU name is unknown to LLVM.
    pub fn llvm(mcpu: &str, num_cores: usize) -> Result<Target> {
        Target::new(&serde_json::json!({ "kind": "llvm", "mcpu": mcpu, "num-cores": num_cores }))
    }

    /// The dictionary that this target was made from, without its host.
    pub fn json(&self) -> &Value {
        &self.json
    }

    /// The target's kind: `llvm`, `cuda`, ….
    pub fn kind(&self) -> &str {
        self.json["kind"].as_str().unwrap_or_default()
    }

    /// The device that the target's code runs on.
    pub fn device_kind(&self) -> DeviceKind {
        self.device
    }

    /// The target of the code that starts kernels: this one itself where it needs no other.
    pub fn host(&self) -> &Target {
        self.host.as_deref().unwrap_or(self)
    }

    /// Width of the widest vector register that LLVM uses for this target, in bits.
    ///
    /// # Errors
    /// Fails if the target is not an LLVM one.
    pub fn vector_width_bits(&self) -> Result<u32> {
        let features = self.cpu_features()?;
        let has = |name: &str| features.contains(name);
        // TVM 0.27 answers 512 for every x86 processor, those with AVX2 alone among them.
        if has("sse2") {
            return Ok(match (has("avx512f"), has("avx")) {
                (true, _) => 512,
                (false, true) => 256,
                (false, false) => 128,
            });
        }
        const NAME: &str = "target.llvm_get_vector_width";
        let bits: i64 = value(NAME, call(NAME, &[&self.handle])?)?;
        Ok(bits.max(0) as u32)
    }

    /// The features that are on for this target, by LLVM's names.
    ///
    /// # Errors
    /// Fails if the target is not an LLVM one.
    pub(crate) fn cpu_features(&self) -> Result<BTreeSet<String>> {
        const NAME: &str = "target.llvm_get_cpu_features";
        let features: Map<Text, Text> = value(NAME, call(NAME, &[&self.handle])?)?;
        let names = features.keys();
        Ok(names.map(|name| name.as_str().to_owned()).collect())
    }
}

fn parse(json: &Value) -> Result<(Obj, DeviceKind)> {
    Libraries::load()?;
    const DEVICE: &str = "target.TargetGetDeviceType";
    let one = call("target.Target", &[&text(&json.to_string())])?;
    let code: i64 = value(DEVICE, call(DEVICE, &[&one])?)?;
    let device = DeviceKind::from_code(code)
        .ok_or_else(|| Error::unexpected(DEVICE, format!("the device code {code}")))?;
    Ok((one, device))
}

/// The CPU name that LLVM detects for this machine.
///
/// # Errors
/// Fails if TVM cannot be loaded.
pub fn host_cpu() -> Result<String> {
    Libraries::load()?;
    const NAME: &str = "target.llvm_get_system_cpu";
    let name: tvm_ffi::String = value(NAME, call(NAME, &[])?)?;
    Ok(name.as_str().to_owned())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn vectors_are_as_wide_as_the_features_say() {
        let cpus = [("x86-64", 128), ("x86-64-v3", 256), ("x86-64-v4", 512)];
        for (cpu, bits) in cpus {
            let target = Target::llvm(cpu, 1).unwrap();
            assert_eq!(target.vector_width_bits().unwrap(), bits, "{cpu}");
        }
        let narrowed = json!({ "kind": "llvm", "mcpu": "x86-64-v4", "mattr": ["-avx512f"] });
        let narrowed = Target::new(&narrowed).unwrap();
        assert_eq!(narrowed.vector_width_bits().unwrap(), 256);
    }

    #[test]
    fn a_cpu_target_is_its_own_host_and_a_gpu_target_needs_one() {
        let cpu = Target::llvm("x86-64-v3", 2).unwrap();
        assert_eq!(
            (cpu.device_kind(), cpu.host().kind()),
            (DeviceKind::Cpu, "llvm")
        );
        let cuda = json!({ "kind": "cuda", "arch": "sm_80" });
        let error = Target::new(&cuda).unwrap_err().to_string();
        assert!(error.contains("needs a host"), "{error}");
        let gpu = Target::with_host(&cuda, &cpu).unwrap();
        assert_eq!((gpu.device_kind(), gpu.kind()), (DeviceKind::Cuda, "cuda"));
        assert_eq!(gpu.host().json(), cpu.json());
        assert!(Target::with_host(&json!({ "kind": "abacus" }), &cpu).is_err());
    }
}
