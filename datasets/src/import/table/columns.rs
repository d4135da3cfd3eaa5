//! The columns of a table: where each that is understood stands, and which of several times counts.

use std::collections::HashMap;

use csv::StringRecord;

/// Columns of times by their endings, and the unit in ns.
const UNITS: [(&str, f64); 4] = [("_ns", 1.0), ("_us", 1e3), ("_ms", 1e6), ("_s", 1e9)];
/// Prefixes of the names of time columns.
const TIMES: [&str; 2] = ["time", "latency"];
/// Columns of names of machines.
pub(super) const DEVICE: [&str; 3] = ["device", "gpu", "machine"];
/// Columns with the operator.
pub(super) const OPERATOR: [&str; 3] = ["op", "opname", "operator"];
/// The other columns that are understood.
#[rustfmt::skip]
const OTHERS: [&str; 17] = [
    "m", "n", "k", "b", "h", "input_channel", "output_channel", "kernel_size", "input_size",
    "stride", "padding", "dtype", "precision", "sheet", "ta", "tb", "device_kind",
];

/// Places of the columns that are understood.
pub(super) struct Columns {
    places: HashMap<String, usize>,
    /// Place of the time, and its unit in ns.
    pub(super) time: (usize, f64),
}

impl Columns {
    /// Finds the columns in a header, or describes the fault of the header.
    pub(super) fn of(header: &StringRecord) -> Result<Self, String> {
        let names: Vec<String> = header
            .iter()
            .map(|name| name.trim().to_ascii_lowercase().replace(' ', "_"))
            .collect();
        let time = time(&names)?;
        let understood = DEVICE.iter().chain(&OPERATOR).chain(&OTHERS);
        let count = |known: &&&str| names.iter().filter(|name| *name == **known).count();
        // Two equal names are ambiguous.
        if let Some(name) = understood.clone().find(|name| count(name) > 1) {
            return Err(format!("there are two columns `{name}`"));
        }
        let places = names.into_iter().enumerate().map(|(i, name)| (name, i));
        Ok(Self {
            places: places.collect(),
            time,
        })
    }

    /// Place of a column.
    pub(super) fn place(&self, name: &str) -> Option<usize> {
        self.places.get(name).copied()
    }
}

/// Place of the column of times, and its unit in ns.
fn time(names: &[String]) -> Result<(usize, f64), String> {
    let unit = |name: &str| {
        let rest = TIMES.iter().find_map(|begin| name.strip_prefix(begin))?;
        // `timestamp_s` is when, not how long.
        let rest = Some(rest).filter(|rest| rest.starts_with('_'))?;
        let known = UNITS.iter().find(|(ending, _)| rest.ends_with(ending));
        known.map(|(ending, ns)| (*ns, rest == *ending))
    };
    let all: Vec<(usize, f64, bool)> = names
        .iter()
        .enumerate()
        .filter_map(|(place, name)| unit(name).map(|(ns, is_plain)| (place, ns, is_plain)))
        .collect();
    let plain: Vec<_> = all.iter().filter(|(.., is_plain)| *is_plain).collect();
    match (plain.as_slice(), all.as_slice()) {
        ([(place, ns, _)], _) | ([], [(place, ns, _)]) => Ok((*place, *ns)),
        ([], []) => Err(no_times(names)),
        _ => {
            let several: Vec<&str> = all
                .iter()
                .map(|(place, ..)| names[*place].as_str())
                .collect();
            Err(format!(
                "several columns of times ({}): keep the one that counts, or name it time_ms and the others otherwise",
                several.join(", ")
            ))
        }
    }
}

/// Why a header has no times.
fn no_times(names: &[String]) -> String {
    let is_bare = |name: &&String| TIMES.iter().any(|begin| name.starts_with(begin));
    match (names, names.iter().find(is_bare)) {
        ([one], _) if one.contains([';', '\t']) => {
            "a single column: columns are to be separated by commas".to_owned()
        }
        (_, Some(name)) => {
            format!(
                "the unit of `{name}` is not known: name it time_ms, time_us, time_ns or time_s"
            )
        }
        _ => "no column of times (time_ms, latency_ms, time_us, …): this is no table of kernels"
            .to_owned(),
    }
}
