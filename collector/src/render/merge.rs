//! `opcollect merge`: the new run and its shards.

use opdata::{RunState, Status};
use opreport::{Style, units};

use crate::merge::Merged;

/// The merge as text.
pub fn merge_text(merged: &Merged, style: Style) -> String {
    let rows = merged.counts.rows();
    let (timed, how) = match merged.counts.of(Status::Simulated) {
        0 => (merged.counts.of(Status::Measured), Status::Measured),
        simulated => (simulated, Status::Simulated),
    };
    let mut out = format!(
        "{} joined: {}, {timed} {how}; data in {}\n",
        units::plural(merged.shards.len() as u64, "shard"),
        units::plural(rows, "row"),
        style.bold(&merged.out.display().to_string())
    );
    for index in &merged.missing {
        out.push_str(&style.yellow(&format!("shard {index} is missing\n")));
    }
    for shard in &merged.shards {
        if shard.state != RunState::Finished {
            let folder = shard.folder.display();
            let line = format!("shard {} ({folder}) was not finished\n", shard.shard);
            out.push_str(&style.yellow(&line));
        }
        if shard.rows_run_id != shard.run_id {
            out.push_str(&format!(
                "rows of {} are named {} now: another shard has the same name\n",
                shard.folder.display(),
                shard.rows_run_id
            ));
        }
    }
    out
}
