//! Rows of several foreign files, put together.

use std::collections::{BTreeSet, HashMap};

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
/// Fails as [`Import::read`] does, for the first file that cannot be read.
pub fn gather(imports: &[&Import]) -> Result<Imported> {
    let mut all = Imported::default();
    for import in imports {
        let mut imported = import.read()?;
        unite_spellings(&mut imported.rows);
        all.rows.extend(imported.rows);
        for (reason, count) in imported.left_out {
            *all.left_out.entry(reason).or_default() += count;
        }
    }
    leave_out_contradictions(&mut all);
    Ok(all)
}

/// Gives rows without `-model` in their target the name of the machine whose target only adds that option. In some logs
/// tools began to write the option in the middle.
fn unite_spellings(rows: &mut [Row]) {
    const MODEL: &str = "-model=";
    let names: BTreeSet<String> = rows.iter().map(machine).collect();
    let mut full_names: HashMap<String, Vec<&String>> = HashMap::new();
    for name in &names {
        let words = name.split(' ').filter(|word| !word.starts_with(MODEL));
        let bare = words.collect::<Vec<_>>().join(" ");
        if bare != *name {
            full_names.entry(bare).or_default().push(name);
        }
    }
    for row in rows {
        if let Some([name]) = full_names.get(&machine(row)).map(Vec::as_slice) {
            row.env_hash = Some((*name).clone());
        }
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    fn machines(targets: &[&str]) -> Vec<String> {
        let row = |target: &&str| Row {
            target: Some(JsonText::from(&serde_json::Value::from(*target))),
            ..crate::testing::measured("dense")
        };
        let mut rows: Vec<Row> = targets.iter().map(row).collect();
        unite_spellings(&mut rows);
        rows.iter().map(machine).collect()
    }

    #[test]
    fn a_target_without_its_model_is_the_machine_of_the_only_one_with_a_model() {
        let (bare, full) = ("llvm -mcpu=skylake", "llvm -mcpu=skylake -model=8124m");
        assert_eq!(machines(&[bare, full]), [full, full]);
        let other = "llvm -mcpu=skylake -model=8175m";
        assert_eq!(
            machines(&[bare, full, other]),
            [bare, full, other],
            "it could be either"
        );
        assert_eq!(
            machines(&[bare, "llvm -mcpu=zen"]),
            [bare, "llvm -mcpu=zen"]
        );
    }
}
