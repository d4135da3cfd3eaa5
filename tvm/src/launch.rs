//! Launch parameters of a device's kernels: their grids, their blocks, and the dynamic shared memory.
//!
//! Read from lowered kernels, so it is known before any code is generated, and without a device.

use crate::call::{Obj, elements, field};
use crate::error::Result;
use crate::inspect::{allocation, constant, string};
use crate::ir::{IrModule, type_key};

/// How one kernel is started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KernelLaunch {
    /// Its name in the source.
    pub name: String,
    /// Blocks of the grid, by axis x, y, z.
    pub blocks: [i64; 3],
    /// Threads of a block, by axis x, y, z.
    pub threads: [i64; 3],
    /// Shared memory of a block that is asked for at the start, in bytes, beside what the kernel itself declares.
    pub dynamic_shared_bytes: i64,
}

impl KernelLaunch {
    /// Blocks of the grid.
    pub fn block_count(&self) -> i64 {
        self.blocks.iter().product()
    }

    /// Threads of a block.
    pub fn threads_per_block(&self) -> i64 {
        self.threads.iter().product()
    }
}

/// The launches of all kernels of a lowered module.
pub(crate) fn launches(kernels: &IrModule) -> Result<Vec<KernelLaunch>> {
    let entries = kernels.entries()?;
    entries
        .iter()
        .map(|(variable, function)| {
            let mut launch = KernelLaunch {
                name: string(&field(variable, "name_hint")?)?,
                blocks: [1; 3],
                threads: [1; 3],
                dynamic_shared_bytes: 0,
            };
            walk(&field(function, "body")?, &mut launch)?;
            Ok(launch)
        })
        .collect()
}

fn walk(statement: &Obj, launch: &mut KernelLaunch) -> Result<()> {
    match type_key(statement) {
        Some("tirx.SeqStmt") => {
            for part in elements(&field(statement, "seq")?)? {
                walk(&part, launch)?;
            }
        }
        Some("tirx.AttrStmt") => {
            if string(&field(statement, "attr_key")?)? == "thread_extent" {
                let axis = field(&field(statement, "node")?, "thread_tag")?;
                set_extent(launch, &string(&axis)?, &field(statement, "value")?);
            }
            walk(&field(statement, "body")?, launch)?;
        }
        Some("tirx.AllocBuffer") => {
            let (scope, bytes) = allocation(statement)?;
            if scope == "shared.dyn" {
                launch.dynamic_shared_bytes += bytes.unwrap_or(0);
            }
        }
        // Nothing that a launch depends on stands inside loops and branches.
        _ => {}
    }
    Ok(())
}

fn set_extent(launch: &mut KernelLaunch, axis: &str, extent: &Obj) {
    let (extents, axis) = match axis.split_once('.') {
        Some(("blockIdx", axis)) => (&mut launch.blocks, axis),
        Some(("threadIdx", axis)) => (&mut launch.threads, axis),
        _ => return,
    };
    let place = ["x", "y", "z"].iter().position(|name| *name == axis);
    if let (Some(place), Some(extent)) = (place, constant(extent)) {
        extents[place] = extent;
    }
}
