//! Tensor intrinsics: parts of a computation that are one instruction of the target, such as the small matrix products
//! of tensor cores.
//!
//! An intrinsic is a pair of functions: what it computes, as loops, and how the target is asked for it. Both lie beside this
//! file as TVM's JSON and are registered from there in milliseconds. Those of CUDA's tensor cores are TVM's own, printed by
//! `intrinsics.py`, which takes Python 20 s. Rules of MetaSchedule and [`Schedule::tensorize`] use their names.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use flate2::read::GzDecoder;

use crate::call::{boolean, call, text};
use crate::error::{Error, Result};
use crate::schedule::{Block, Loop, Schedule};
use crate::target::Target;

/// Intrinsics by name, each as the JSON of its computation and of its implementation.
type Intrinsics = BTreeMap<String, (String, String)>;

/// Registers the intrinsics of CUDA's tensor cores, once a process.
///
/// # Errors
/// Fails if TVM cannot be loaded.
pub fn register_cuda() -> Result<()> {
    static DONE: OnceLock<Result<()>> = OnceLock::new();
    DONE.get_or_init(|| register(&of_tensor_cores()?)).clone()
}

fn register(intrinsics: &Intrinsics) -> Result<()> {
    let read = |json: &String| call("ffi.FromJSONGraphString", &[&text(json)]);
    for (name, (computes, does)) in intrinsics {
        let intrinsic = call("s_tir.TensorIntrin", &[&read(computes)?, &read(does)?])?;
        call(
            "s_tir.TensorIntrinRegister",
            &[&text(name), &intrinsic, &boolean(true)],
        )?;
    }
    Ok(())
}

/// The implementation, on a CPU, of a sum of four products of bytes in each of 16 lanes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DotProduct {
    /// One instruction of AVX-512 VNNI.
    Vnni,
    /// Shifts, multiplications and additions of vectors.
    Portable,
}

impl DotProduct {
    /// The best that a target has.
    ///
    /// # Errors
    /// Fails if TVM cannot be loaded.
    pub fn of(target: &Target) -> Result<DotProduct> {
        let vnni = crate::llvm::target_has(target, "avx512vnni")?;
        Ok(if vnni { Self::Vnni } else { Self::Portable })
    }

    /// The name of its intrinsic, which is registered by the first call.
    ///
    /// # Errors
    /// Fails if TVM cannot be loaded.
    pub fn intrinsic(self) -> Result<&'static str> {
        static DONE: OnceLock<Result<()>> = OnceLock::new();
        DONE.get_or_init(|| {
            let kept = serde_json::from_str(include_str!("dot_products.json"));
            register(&kept.map_err(|e| Error::unexpected("dot_products.json", e))?)
        })
        .clone()?;
        Ok(match self {
            Self::Vnni => "dot_16x4_vnni",
            Self::Portable => "dot_16x4_portable",
        })
    }
}

/// The intrinsics of tensor cores, as `intrinsics.py` prints them. A test compares both.
fn of_tensor_cores() -> Result<Intrinsics> {
    let packed = include_bytes!("tensor_cores.json.gz");
    serde_json::from_reader(GzDecoder::new(&packed[..]))
        .map_err(|e| Error::unexpected("tensor_cores.json.gz", e))
}

impl Schedule {
    /// Makes the loops from `l` inwards a block of their own; returns it.
    ///
    /// # Errors
    /// Fails if the loops around and inside cannot be separated.
    pub fn blockize(&self, l: &Loop) -> Result<Block> {
        Ok(Block(
            self.call("ScheduleBlockize", &[&l.0, &boolean(true)])?,
        ))
    }

    /// Computes the loops from `l` inwards by the registered intrinsic `name`.
    ///
    /// # Errors
    /// Fails if the loops are not the intrinsic's computation, or if there is no such intrinsic.
    pub fn tensorize(&self, l: &Loop, name: &str) -> Result<()> {
        self.done("ScheduleTensorize", &[&l.0, &text(name), &boolean(true)])
    }

    /// The blocks inside `block` in program order.
    ///
    /// # Errors
    /// Fails if TVM does.
    pub fn blocks_in(&self, block: &Block) -> Result<Vec<Block>> {
        let children = self.call("ScheduleGetChildBlocks", &[&block.0])?;
        Ok(crate::call::elements(&children)?
            .into_iter()
            .map(Block)
            .collect())
    }

    /// Whether a loop runs as the threads or blocks of a GPU.
    ///
    /// # Errors
    /// Fails if TVM does.
    pub fn is_bound(&self, l: &Loop) -> Result<bool> {
        /// `ForKind::kThreadBinding` of TVM.
        const BOUND: i64 = 4;
        let kind = crate::call::field(&self.call("ScheduleGet", &[&l.0])?, "kind")?;
        Ok(crate::call::value::<i64>("For.kind", kind)? == BOUND)
    }

    /// Whether a block runs under a condition, because its loops have more steps than it has elements.
    ///
    /// # Errors
    /// Fails if TVM does.
    pub fn is_guarded(&self, block: &Block) -> Result<bool> {
        let realize = self.call("GetSBlockRealize", &[&block.0])?;
        let condition = crate::call::field(&realize, "predicate")?;
        // A condition that always holds is the constant 1.
        let always = crate::call::field(&condition, "value")
            .and_then(|number| crate::call::value::<i64>("predicate", number));
        Ok(!matches!(always, Ok(1)))
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;
    use crate::libs::Libraries;

    #[test]
    fn every_intrinsic_has_both_functions() {
        let all = of_tensor_cores().unwrap();
        assert!(
            all.contains_key("wmma_sync_16x16x16_f16f16f32"),
            "{:?}",
            all.keys()
        );
        assert!(
            all.values()
                .all(|(computes, does)| !computes.is_empty() && !does.is_empty())
        );
    }

    #[test]
    #[ignore = "Python takes half a minute"]
    fn they_are_what_the_installed_tvm_prints() {
        let libraries = Libraries::load().unwrap();
        let environment = libraries.site_packages().ancestors().nth(3).unwrap();
        let output = Command::new(environment.join("bin/python"))
            .args(["-c", include_str!("intrinsics.py")])
            .output()
            .unwrap();
        assert!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
        let printed: Intrinsics = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(
            printed.keys().collect::<Vec<_>>(),
            of_tensor_cores().unwrap().keys().collect::<Vec<_>>()
        );
        assert!(
            printed == of_tensor_cores().unwrap(),
            "pack them anew: python intrinsics.py | gzip -9n"
        );
    }
}
