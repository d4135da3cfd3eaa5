//! The counts of a point in its row. Every count stands under its full name; those with a fixed meaning have columns
//! of their own.

use std::collections::{BTreeMap, BTreeSet};

use opdata::{JsonText, Row, finite};
use opengine::measure::counters::Counted;

/// A column of the row.
type Cell = fn(&mut Row) -> &mut Option<f64>;

/// Pairs of a column and the names of its counts.
macro_rules! columns {
    ($($column:ident: $($count:literal),+;)+) => {
        &[$((|row| &mut row.$column, &[$($count),+])),+]
    };
}

/// Columns with a fixed meaning, and the counts that have it. Of several the first that was counted is taken.
const COLUMNS: &[(Cell, &[&str])] = columns! {
    cycles: "perf:cycles", "papi:PAPI_TOT_CYC", "papi:perf::CYCLES";
    instructions: "perf:instructions", "papi:PAPI_TOT_INS", "papi:perf::INSTRUCTIONS";
    stalled_cycles_frontend: "perf:stalled-cycles-frontend", "papi:perf::STALLED-CYCLES-FRONTEND";
    stalled_cycles_backend: "perf:stalled-cycles-backend", "papi:perf::STALLED-CYCLES-BACKEND";
    cache_misses: "perf:cache-misses", "papi:PAPI_L3_TCM", "papi:perf::CACHE-MISSES";
    l1d_misses: "perf:L1-dcache-load-misses", "papi:PAPI_L1_DCM";
    branch_misses: "perf:branch-misses", "papi:PAPI_BR_MSP", "papi:perf::BRANCH-MISSES";
    task_clock_ns: "perf:task-clock", "papi:perf::TASK-CLOCK";
    page_faults: "perf:page-faults", "papi:perf::PAGE-FAULTS";
    context_switches: "perf:context-switches", "papi:perf::CONTEXT-SWITCHES";
    cpu_migrations: "perf:cpu-migrations", "papi:perf::CPU-MIGRATIONS";
    simulated_instructions: "callgrind:instructions";
    simulated_l1d_misses: "callgrind:l1d-misses";
    simulated_llc_misses: "callgrind:llc-misses";
    simulated_branch_misses: "callgrind:branch-misses";
    estimated_block_cycles: "mca:block-cycles";
    energy_uj: "powercap:package", "nvml:energy";
    loop_flops: "code:loop-flops";
    loop_vector_instructions: "code:loop-vector";
    loop_scalar_instructions: "code:loop-scalar";
    loop_loads: "code:loop-loads";
    loop_stores: "code:loop-stores";
    loop_spills: "code:loop-spills";
};

/// Fills a row's columns of counts.
pub(super) fn describe(row: &mut Row, counted: &Counted) {
    let mut values: BTreeMap<String, f64> = BTreeMap::new();
    let mut units: BTreeMap<String, &str> = BTreeMap::new();
    let mut missing: BTreeMap<String, &str> = BTreeMap::new();
    let mut sources: BTreeSet<&str> = BTreeSet::new();
    for count in &counted.counts {
        match &count.value {
            Ok(value) => {
                units.insert(count.full_name(), &count.counter.unit);
                values.insert(count.full_name(), *value);
                sources.insert(&count.source);
            }
            Err(reason) => {
                missing.insert(count.full_name(), reason);
            }
        }
    }
    if !values.is_empty() {
        row.counters = json(&values);
        row.counter_units = json(&units);
        let sources: Vec<&str> = sources.into_iter().collect();
        row.counter_sources = Some(sources.join(";"));
    }
    if !missing.is_empty() {
        row.counters_missing = json(&missing);
    }
    for (cell, names) in COLUMNS {
        let value = names.iter().find_map(|name| values.get(*name));
        *cell(row) = value.copied().and_then(finite);
    }
    row.counter_overhead_ratio = counted.overhead_ratio.and_then(finite);
    row.counter_running_share = counted.running_share.and_then(finite);
    row.simulated_cpu = counted.simulated_cpu.clone();
}

fn json(value: &impl serde::Serialize) -> Option<JsonText> {
    Some(JsonText::from(&serde_json::to_value(value).ok()?))
}

#[cfg(test)]
mod tests {
    use opengine::measure::counters::{Count, Counter};

    use super::*;

    fn count(source: &str, name: &str, unit: &str, value: Result<f64, &str>) -> Count {
        Count {
            source: source.to_owned(),
            counter: Counter::new(name, unit),
            value: value.map_err(str::to_owned),
        }
    }

    #[test]
    fn counts_have_columns_and_what_was_not_counted_has_reasons_and_no_zeros() {
        let mut row = opdata::testing::measured("dense");
        let counted = Counted {
            counts: vec![
                count("papi", "PAPI_TOT_INS", "instructions", Ok(10.0)),
                count("perf", "instructions", "instructions", Ok(11.0)),
                count("perf", "task-clock", "ns", Ok(5.5)),
                count("perf", "cycles", "cycles", Err("no such counter")),
            ],
            overhead_ratio: Some(1.01),
            running_share: Some(1.0),
            simulated_cpu: None,
        };
        describe(&mut row, &counted);
        assert_eq!(
            row.counters.as_ref().unwrap().as_str(),
            r#"{"papi:PAPI_TOT_INS":10.0,"perf:instructions":11.0,"perf:task-clock":5.5}"#
        );
        assert_eq!(
            row.counter_units.as_ref().unwrap().as_str(),
            r#"{"papi:PAPI_TOT_INS":"instructions","perf:instructions":"instructions","perf:task-clock":"ns"}"#
        );
        assert_eq!(
            row.counters_missing.as_ref().unwrap().as_str(),
            r#"{"perf:cycles":"no such counter"}"#
        );
        assert_eq!(row.counter_sources.as_deref(), Some("papi;perf"));
        assert_eq!(row.instructions, Some(11.0));
        assert_eq!((row.task_clock_ns, row.cycles), (Some(5.5), None));
    }
}
