//! Tensor intrinsics: pieces of a computation that are one instruction of the target, such as the products of small
//! matrices that tensor cores take.
//!
//! An intrinsic is a pair of functions: what it computes, as loops, and how the target is asked for it. They are read from
//! TVM's JSON and registered by name, once a process; rules of MetaSchedule and [`Schedule::tensorize`] use the names.

use std::collections::BTreeMap;

use crate::call::{boolean, call, text};
use crate::error::Result;
use crate::libs::Libraries;
use crate::schedule::{Block, Loop, Schedule};

/// Intrinsics by name, each as the JSON of what it computes and of what the target does.
pub type Intrinsics = BTreeMap<String, (String, String)>;

/// Registers tensor intrinsics; those that are registered already are replaced.
///
/// # Errors
/// TVM cannot be loaded, or the functions are not of its version.
pub fn register(intrinsics: &Intrinsics) -> Result<()> {
    Libraries::load()?;
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

impl Schedule {
    /// Makes the loops from `l` inwards a block of their own; returns it.
    ///
    /// # Errors
    /// The loops around cannot be told from those inside.
    pub fn blockize(&self, l: &Loop) -> Result<Block> {
        Ok(Block(
            self.call("ScheduleBlockize", &[&l.0, &boolean(true)])?,
        ))
    }

    /// Computes the loops from `l` inwards by the registered intrinsic `name`.
    ///
    /// # Errors
    /// The loops are not what the intrinsic computes, or there is no such intrinsic.
    pub fn tensorize(&self, l: &Loop, name: &str) -> Result<()> {
        self.done("ScheduleTensorize", &[&l.0, &text(name), &boolean(true)])
    }

    /// The blocks inside `block` in program order.
    ///
    /// # Errors
    /// TVM's.
    pub fn blocks_in(&self, block: &Block) -> Result<Vec<Block>> {
        let children = self.call("ScheduleGetChildBlocks", &[&block.0])?;
        Ok(crate::call::elements(&children)?
            .into_iter()
            .map(Block)
            .collect())
    }
}
