//! Rows of several foreign files, put together.

use std::collections::HashMap;

use super::{Imported, machine_of_target};
use crate::error::Result;
use crate::schema::Row;
use crate::values::JsonText;

use super::Import;

/// Times of one point further apart than this are of two machines, or one of them is wrong: their median would be
/// neither.
const LARGEST_RATIO: f64 = 1.3;

/// Reads foreign files, and leaves out the points whose times contradict each other.
///
/// # Errors
/// As [`Import::read`]; the first file that cannot be read.
pub fn gather(imports: &[&Import]) -> Result<Imported> {
    let mut all = Imported::default();
    for import in imports {
        let imported = import.read()?;
        all.rows.extend(imported.rows);
        for (reason, count) in imported.left_out {
            *all.left_out.entry(reason).or_default() += count;
        }
    }
    leave_out_contradictions(&mut all);
    Ok(all)
}

fn leave_out_contradictions(all: &mut Imported) {
    let mut range: HashMap<(String, String), (f64, f64)> = HashMap::new();
    let key = |row: &Row| (machine(row), row.point_id.clone());
    for row in &all.rows {
        let Some(time) = row.time_median_ns else {
            continue;
        };
        let entry = range.entry(key(row)).or_insert((time, time));
        *entry = (entry.0.min(time), entry.1.max(time));
    }
    let mut example = None;
    let before = all.rows.len();
    all.rows.retain(|row| {
        let contradicts = row.time_median_ns.is_some()
            && range
                .get(&key(row))
                .is_some_and(|(low, high)| high / low > LARGEST_RATIO);
        if contradicts && example.is_none() {
            example = Some(row.row_id.clone());
        }
        !contradicts
    });
    if let Some(row_id) = example {
        let reason = format!(
            "records whose repeats differ by more than a factor of {LARGEST_RATIO} (first: {row_id}); \
             if they are of different machines, name these: --import FORMAT NAME=FILE"
        );
        all.left_out
            .insert(reason, (before - all.rows.len()) as u64);
    }
}

fn machine(row: &Row) -> String {
    row.env_hash.clone().unwrap_or_else(|| {
        let target = row.target.as_ref().map_or("", JsonText::as_str);
        machine_of_target(target.trim_matches('"'))
    })
}
