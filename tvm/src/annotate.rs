//! Annotations of loops and blocks, which passes read when a schedule is lowered.

use crate::call::{Obj, array, int, text};
use crate::error::Result;
use crate::schedule::{Block, Loop, Schedule};

impl Schedule {
    /// Asks lowering to part `l` into iterations that need no condition and those at its end that do.
    ///
    /// # Errors
    /// Fails if TVM does.
    pub fn part_loop(&self, l: &Loop) -> Result<()> {
        self.annotate_loop(l, "pragma_loop_partition_hint", 1)
    }

    /// Annotates a loop with an integer, for passes to read.
    ///
    /// # Errors
    /// Fails if TVM does.
    pub fn annotate_loop(&self, l: &Loop, key: &str, annotation: i64) -> Result<()> {
        self.done("ScheduleAnnotate", &[&l.0, &text(key), &int(annotation)])
    }

    /// Annotates a loop with integers, for passes to read.
    ///
    /// # Errors
    /// Fails if TVM does.
    pub fn annotate_loop_with_list(&self, l: &Loop, key: &str, list: &[i64]) -> Result<()> {
        let list: Vec<Obj> = list.iter().map(|&i| int(i)).collect();
        self.done("ScheduleAnnotate", &[&l.0, &text(key), &array(&list)?])
    }

    /// Annotates a block with an integer, for passes to read.
    ///
    /// # Errors
    /// Fails if TVM does.
    pub fn annotate_block(&self, block: &Block, key: &str, annotation: i64) -> Result<()> {
        self.done(
            "ScheduleAnnotate",
            &[&block.0, &text(key), &int(annotation)],
        )
    }
}
