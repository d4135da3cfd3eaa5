//! Files of recorded traces: one JSON value on each line. A value is a trace (`[[instruction…], [decision…]]`) or a record
//! of a MetaSchedule database (`[workload, [trace, times, target, arguments]]`, the file `database_tuning_record.json`).

use std::path::Path;

use serde_json::Value;

const NEXT: &str = "give the database_tuning_record.json of a MetaSchedule database, or a file with one trace a line";

/// The traces of a file, in order.
///
/// # Errors
/// Fails with the problem and its remedy.
pub(super) fn read(path: &Path) -> Result<Vec<Value>, (String, &'static str)> {
    let wrong = |problem: String| (format!("{}: {problem}", path.display()), NEXT);
    let text = opdata::read_text(path).map_err(|e| wrong(e.to_string()))?;
    text.lines()
        .enumerate()
        .filter(|(_, line)| !line.trim().is_empty())
        .map(|(number, line)| {
            let value: Value = serde_json::from_str(line)
                .map_err(|e| wrong(format!("line {}: not JSON: {e}", number + 1)))?;
            trace_of(&value)
                .cloned()
                .ok_or_else(|| wrong(format!("line {}: neither a trace nor a record", number + 1)))
        })
        .collect()
}

fn trace_of(value: &Value) -> Option<&Value> {
    if is_trace(value) {
        return Some(value);
    }
    // A record begins with the number of its workload.
    value.get(0)?.as_u64()?;
    let trace = value.get(1)?.get(0)?;
    is_trace(trace).then_some(trace)
}

/// Whether the value is a trace: two lists, the first of them of instructions that begin with their kind.
fn is_trace(value: &Value) -> bool {
    let instructions = value.get(0).and_then(Value::as_array);
    let decisions = value.get(1).and_then(Value::as_array);
    match (instructions, decisions) {
        (Some(instructions), Some(_)) => instructions
            .iter()
            .all(|i| i.get(0).is_some_and(Value::is_string)),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn traces_and_records_are_distinguished() {
        let trace = json!([[["GetSBlock", [], ["c", "main"], ["b0"]]], []]);
        assert_eq!(trace_of(&trace), Some(&trace));
        let record = json!([3, [trace, [0.001], {"kind": "llvm"}, []]]);
        assert_eq!(trace_of(&record), Some(&trace));
        assert_eq!(trace_of(&json!([1, 2])), None);
        assert_eq!(trace_of(&json!({"a": 1})), None);
    }

    #[test]
    fn what_is_wrong_has_its_line() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("r.json");
        std::fs::write(&path, "[[], []]\n\n[1]\n").unwrap();
        let (problem, _) = read(&path).unwrap_err();
        assert!(
            problem.ends_with("r.json: line 3: neither a trace nor a record"),
            "{problem}"
        );
    }
}
