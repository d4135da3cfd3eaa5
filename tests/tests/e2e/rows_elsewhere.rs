//! Rows with counts in what people read them with: pandas and DuckDB, from CSV and from Parquet.

use std::path::Path;
use std::process::Command;

use e2e::installed::{counts, has_packages};
use e2e::{Bench, Outcome};
use serde_json::Value;

/// Reads a run's rows in each way. Prints the type and the values of each column of interest as JSON.
const READ: &str = r#"
import json, sys
import duckdb, pandas

COLUMNS = ["threads", "time_median_ns", "task_clock_ns", "page_faults", "instructions", "cycles", "counter_overhead_ratio"]
folder = sys.argv[1]
parquet = f"{folder}/rows.parquet"
tables = {
    "pandas, CSV": pandas.read_csv(f"{folder}/rows.csv"),
    "DuckDB, CSV": duckdb.sql(f"SELECT * FROM read_csv('{folder}/rows.csv')").df(),
    "DuckDB, Parquet": duckdb.sql(f"SELECT * FROM '{parquet}'").df(),
}
said = {
    how: {
        name: {
            "numbers": pandas.api.types.is_numeric_dtype(table[name]) or bool(table[name].isna().all()),
            "values": [None if pandas.isna(v) else float(v) for v in table[name]],
        }
        for name in COLUMNS
    }
    for how, table in tables.items()
}
counts = tables["pandas, CSV"].counters.dropna().map(json.loads).apply(pandas.Series)
said["as JSON"] = counts["perf:task-clock"].tolist()
said["types in Parquet"] = dict(
    duckdb.sql(f"SELECT column_name, column_type FROM (DESCRIBE SELECT * FROM '{parquet}')").fetchall()
)
said["per nanosecond"] = duckdb.sql(
    f"SELECT threads, SUM(task_clock_ns) / SUM(time_median_ns), COUNT(instructions), COUNT(*) FROM '{parquet}' "
    "GROUP BY threads ORDER BY threads"
).fetchall()
said["by name"] = duckdb.sql(
    f"""SELECT CAST(counters->>'$."perf:task-clock"' AS DOUBLE) FROM '{parquet}'"""
).fetchall()
print(json.dumps(said))
"#;

fn root() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
}

#[test]
fn counts_are_numbers_and_what_was_not_counted_is_missing() {
    if !has_packages("duckdb, pandas", "rows in pandas and DuckDB") {
        return;
    }
    let counters = "perf:task-clock,perf:page-faults";
    if !counts(counters, "counts in rows") {
        return;
    }
    let bench = Bench::new();
    bench
        .measure(&[
            "--modelsource",
            "simple",
            "--modelname",
            "dense:m=64,n=64,k=64",
            "--threads",
            "1,2",
            "--counters",
            counters,
            "--out",
            "run",
        ])
        .done();
    let mut read = Command::new(root().join(".venv/bin/python"));
    read.args(["-c", READ]).arg(bench.path().join("run"));
    let outcome = Outcome::of(read);
    let said: Value = serde_json::from_str(outcome.done()).expect("JSON");

    let tables = ["pandas, CSV", "DuckDB, CSV", "DuckDB, Parquet"];
    for how in tables {
        let column = |name: &str| &said[how][name];
        for name in ["threads", "time_median_ns", "task_clock_ns", "instructions"] {
            assert_eq!(column(name)["numbers"], true, "{how}: {name}");
        }
        assert_eq!(said[how], said[tables[0]], "{how}");
        let values = column("task_clock_ns")["values"].as_array().expect("rows");
        assert_eq!(values.len(), 2, "{how}");
        assert!(
            values.iter().all(|v| v.as_f64() > Some(0.0)),
            "{how}: {values:?}"
        );
        // Nobody counted cycles: they are missing, not 0.
        assert_eq!(
            column("cycles")["values"],
            serde_json::json!([null, null]),
            "{how}"
        );
    }
    let types = &said["types in Parquet"];
    for (name, kind) in [
        ("threads", "UBIGINT"),
        ("task_clock_ns", "DOUBLE"),
        ("cycles", "DOUBLE"),
        ("counters", "VARCHAR"),
    ] {
        assert_eq!(types[name], kind, "{name}");
    }
    let by_threads = said["per nanosecond"].as_array().expect("rows");
    for (place, line) in by_threads.iter().enumerate() {
        assert_eq!(line[0], place + 1, "{line}");
        assert!(line[1].as_f64() > Some(0.0), "{line}");
        assert_eq!(line[3], 1, "{line}");
    }
    let clocks = &said["DuckDB, Parquet"]["task_clock_ns"]["values"];
    let named: Vec<&Value> = said["by name"]
        .as_array()
        .expect("rows")
        .iter()
        .map(|row| &row[0])
        .collect();
    assert_eq!(
        named,
        clocks.as_array().expect("rows").iter().collect::<Vec<_>>()
    );
    assert_eq!(&said["as JSON"], clocks);
}
