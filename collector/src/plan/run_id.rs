//! The name and the directory of a run, when the user gives none.

use std::path::{Path, PathBuf};

use super::{ModelRequest, ModelSource, Target};

/// `resnet-18-llvm-20260131-235959`: sortable by model, then time (UTC).
pub(super) fn run_id(model: &ModelRequest, target: &Target, now_unix_s: u64) -> String {
    // Of a path only the file's stem names the run.
    let name = match model.source {
        ModelSource::Onnx => Path::new(&model.name).file_stem().map_or_else(
            || model.name.clone(),
            |stem| stem.to_string_lossy().into_owned(),
        ),
        _ => model.name.clone(),
    };
    let safe: String = name
        .chars()
        .map(|c| {
            if c.is_ascii_alphanumeric() || "._-".contains(c) {
                c
            } else {
                '-'
            }
        })
        .take(60)
        .collect();
    format!(
        "{}-{}-{}",
        safe.trim_start_matches('.'),
        target.kind.name(),
        utc_stamp(now_unix_s)
    )
}

/// `runs/<id>`, or `runs/<id>-2` and so on when that is there already.
pub(super) fn free_directory(parent: &Path, run_id: String) -> (PathBuf, String) {
    let mut id = run_id.clone();
    let mut attempt = 1;
    while parent.join(&id).exists() {
        attempt += 1;
        id = format!("{run_id}-{attempt}");
    }
    (parent.join(&id), id)
}

/// `YYYYMMDD-HHMMSS` in UTC. The date is by Howard Hinnant's `civil_from_days`.
fn utc_stamp(unix_s: u64) -> String {
    let (days, seconds) = (unix_s / 86_400 + 719_468, unix_s % 86_400);
    let era = days / 146_097;
    let day_of_era = days % 146_097;
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 {
        month_from_march + 3
    } else {
        month_from_march - 9
    };
    let year = year_of_era + era * 400 + u64::from(month <= 2);
    format!(
        "{year:04}{month:02}{day:02}-{:02}{:02}{:02}",
        seconds / 3600,
        seconds / 60 % 60,
        seconds % 60
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_right() {
        for (unix_s, stamp) in [
            (0, "19700101-000000"),
            (951_782_400, "20000229-000000"),
            (1_709_164_800, "20240229-000000"),
            (4_102_444_799, "20991231-235959"),
        ] {
            assert_eq!(utc_stamp(unix_s), stamp);
        }
    }

    #[test]
    fn a_taken_name_gets_a_number() {
        let parent = tempfile::tempdir().unwrap();
        let id = |n: &str| free_directory(parent.path(), n.to_owned()).1;
        assert_eq!(id("a"), "a");
        std::fs::create_dir(parent.path().join("a")).unwrap();
        std::fs::create_dir(parent.path().join("a-2")).unwrap();
        assert_eq!(id("a"), "a-3");
    }
}
