//! A profile as CSV.

use super::{class, device_of, heading, own_ns};
use crate::profile::ProfiledModel;
use crate::profile::summary::Summary;

/// Columns of the CSV file before and after those of the counters.
const CSV_FIRST: [&str; 7] = [
    "Name",
    "Duration (us)",
    "Percent",
    "Device",
    "Count",
    "Argument Shapes",
    "Hash",
];
const CSV_LAST: &str = "Total (us),Class,Kind,Layer,Call Min (us),Call Max (us),\
Allocated (bytes),Freed (bytes),Live (bytes),FLOPs,Bytes,Busy,Bound By";

/// A cycle as CSV: every line, whatever the text shows, then sum and total.
pub fn profile_csv(summary: &Summary, model: &ProfiledModel) -> String {
    let counters = model.counted();
    let counters: Vec<String> = counters.map(|(of, _)| quoted(&heading(of))).collect();
    let heads: Vec<&str> = CSV_FIRST
        .into_iter()
        .chain(counters.iter().map(String::as_str))
        .chain([CSV_LAST])
        .collect();
    let mut text = heads.join(",") + "\n";
    for line in &summary.lines {
        let optional = |value: Option<u64>| value.map_or_else(String::new, |v| v.to_string());
        let standing = line.standing.as_ref();
        let timed = |ns: f64| own_ns(line).map_or_else(String::new, |_| plain_us(ns));
        let share = own_ns(line).map(|_| format!("{:.4}", summary.share(line) * 100.0));
        let first = [
            quoted(&line.name),
            timed(line.own_ns),
            share.unwrap_or_default(),
            device_of(line, model).to_owned(),
            line.count.to_string(),
            quoted(line.shapes.as_deref().unwrap_or_default()),
            line.hash.clone().unwrap_or_default(),
        ];
        let last = [
            timed(line.total_ns),
            class(line.class).to_owned(),
            line.kind.clone().unwrap_or_default(),
            quoted(line.layer.as_deref().unwrap_or_default()),
            timed(line.extremes_ns.0),
            timed(line.extremes_ns.1),
            line.allocated_bytes.to_string(),
            line.freed_bytes.to_string(),
            line.live_bytes.to_string(),
            optional(line.flops),
            optional(line.bytes),
            line.busy_share
                .map_or_else(String::new, |b| format!("{b:.4}")),
            standing.and_then(|s| s.words()).unwrap_or_default(),
        ];
        let counts = line.counts.iter().map(plain_count);
        let fields: Vec<String> = first.into_iter().chain(counts).chain(last).collect();
        text.push_str(&fields.join(","));
        text.push('\n');
    }
    let width = CSV_FIRST.len() + counters.len() + CSV_LAST.split(',').count();
    let sums = [
        ("Sum", summary.sum_ns, summary.counts()),
        ("Total", summary.total_ns, Vec::new()),
    ];
    for (name, ns, counts) in sums {
        let percent = format!("{:.4}", ns / summary.total_ns * 100.0);
        let mut fields = vec![name.to_owned(), plain_us(ns), percent];
        fields.resize(CSV_FIRST.len(), String::new());
        fields.extend(counts.iter().map(plain_count));
        fields.resize(width, String::new());
        text.push_str(&fields.join(","));
        text.push('\n');
    }
    text
}

pub(in crate::render) fn plain_us(ns: f64) -> String {
    format!("{:.3}", ns / 1e3)
}

/// A mean count to a thousandth.
fn plain_count(count: &f64) -> String {
    ((count * 1e3).round() / 1e3).to_string()
}

/// A field in quotes where CSV needs them.
pub(in crate::render) fn quoted(text: &str) -> String {
    match text.contains([',', '"', '\n', '\r']) {
        true => format!("\"{}\"", text.replace('"', "\"\"")),
        false => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::summary::testing::model;
    use crate::profile::summary::{GroupBy, SortBy, summary};

    #[test]
    fn csv_has_as_many_fields_in_every_line() {
        let model = model();
        let table = summary(
            &model,
            &model.profiled.cycles[0],
            GroupBy::Call,
            SortBy::Own,
        );
        let text = profile_csv(&table, &model);
        insta::assert_snapshot!(text);
    }
}
