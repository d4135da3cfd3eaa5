//! Compilation targets, and what TVM knows of CPU names.
//!
//! A target is TVM's JSON dictionary (`{"kind": "llvm", "mcpu": "…", "num-cores": 2}`); strings of options are refused
//! by current TVM. The device target and its host are one and the same here, as CPU code needs.

use serde_json::Value;

use crate::call::{Obj, call, text, value};
use crate::error::Result;
use crate::libs::Libraries;

/// A parsed target with its host bound.
#[derive(Debug, Clone)]
pub struct Target {
    pub(crate) handle: Obj,
    json: Value,
}

impl Target {
    /// Parses a target dictionary.
    ///
    /// # Errors
    /// An unknown kind, option or CPU name, in TVM's words.
    pub fn new(json: &Value) -> Result<Target> {
        Libraries::load()?;
        let one = call("target.Target", &[&text(&json.to_string())])?;
        let handle = call("target.WithHost", &[&one, &one])?;
        Ok(Target {
            handle,
            json: json.clone(),
        })
    }

    /// The LLVM target for a CPU name of LLVM's, compiling for `num_cores`.
    ///
    /// # Errors
    /// The CPU name is unknown to LLVM.
    pub fn llvm(mcpu: &str, num_cores: usize) -> Result<Target> {
        Target::new(&serde_json::json!({ "kind": "llvm", "mcpu": mcpu, "num-cores": num_cores }))
    }

    /// The dictionary that this target was made from.
    pub fn json(&self) -> &Value {
        &self.json
    }

    /// The target's kind: `llvm`, `cuda`, ….
    pub fn kind(&self) -> &str {
        self.json["kind"].as_str().unwrap_or_default()
    }

    /// Width of the widest vector register that LLVM uses for this target, in bits.
    ///
    /// # Errors
    /// The target is not an LLVM one.
    pub fn vector_width_bits(&self) -> Result<u32> {
        const NAME: &str = "target.llvm_get_vector_width";
        let bits: i64 = value(NAME, call(NAME, &[&self.handle])?)?;
        Ok(bits.max(0) as u32)
    }
}

/// The CPU name that LLVM detects for this machine.
///
/// # Errors
/// TVM cannot be loaded.
pub fn host_cpu() -> Result<String> {
    Libraries::load()?;
    const NAME: &str = "target.llvm_get_system_cpu";
    let name: tvm_ffi::String = value(NAME, call(NAME, &[])?)?;
    Ok(name.as_str().to_owned())
}

/// The target kinds for which this TVM has a code generator, of those that were asked for.
///
/// # Errors
/// TVM cannot be loaded.
pub fn built_in(kinds: &[&'static str]) -> Result<Vec<&'static str>> {
    Libraries::load()?;
    Ok(kinds
        .iter()
        .copied()
        .filter(|kind| tvm_ffi::Function::get_global(&format!("target.build.{kind}")).is_ok())
        .collect())
}
