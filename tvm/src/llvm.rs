//! Facts from the LLVM in TVM: names of processors and of their features, for this machine's architecture.

use serde_json::{Value, json};
use std::collections::BTreeSet;
use tvm_ffi::{Array, String as Text};

use crate::call::{call, value};
use crate::error::Result;
use crate::target::Target;

/// LLVM's names of processors, sorted.
///
/// # Errors
/// Fails if TVM cannot be loaded.
pub fn cpus() -> Result<Vec<String>> {
    const NAME: &str = "target.llvm_get_cpu_archlist";
    let generic = Target::new(&json!({ "kind": "llvm" }))?;
    let names: Array<Text> = value(NAME, call(NAME, &[&generic.handle])?)?;
    Ok(names.iter().map(|name| name.as_str().to_owned()).collect())
}

/// Whether LLVM has a feature of processors, such as `avx2`.
///
/// # Errors
/// Fails if TVM cannot be loaded.
pub fn has_feature(feature: &str) -> Result<bool> {
    // An unknown feature cannot be enabled.
    let with = json!({ "kind": "llvm", "mattr": [format!("+{feature}")] });
    Ok(features(&with)?.contains(feature))
}

/// The features that some processor has, sorted.
///
/// # Errors
/// Fails if TVM cannot be loaded.
pub fn features_of_cpus() -> Result<Vec<String>> {
    let mut all = BTreeSet::new();
    for cpu in cpus()? {
        all.extend(features(&json!({ "kind": "llvm", "mcpu": cpu }))?);
    }
    Ok(all.into_iter().collect())
}

/// Whether a feature is on for a target.
///
/// # Errors
/// Fails if TVM cannot be loaded.
pub fn target_has(target: &Target, feature: &str) -> Result<bool> {
    Ok(target.cpu_features()?.contains(feature))
}

/// The features that are on for a target.
fn features(target: &Value) -> Result<BTreeSet<String>> {
    Target::new(target)?.cpu_features()
}
