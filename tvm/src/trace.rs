//! Traces: the record of a schedule, which rebuilds it on the same function.
//!
//! The JSON is TVM's own (`[[instruction…], [decision…]]`), the form in which MetaSchedule's databases hold it, so
//! records of other tools can be applied too. Index maps, which have no form in JSON, stand as graphs of TVM's
//! serialiser. An instruction is `[kind, inputs, attributes, outputs]`; a decision is
//! `[index of the instruction, value]`.

use serde_json::{Map, Number, Value, json};

use crate::call::{Obj, array, boolean, call, int, map, none, text, value};
use crate::error::{Error, Result};

/// The record of a schedule.
#[derive(Debug, Clone, PartialEq)]
pub struct Trace(pub Value);

/// Key of an object of TVM's that JSON has no form for (an index map), as TVM's graph of it.
const OBJECT: &str = "tvm_object";

impl Trace {
    /// The record of TVM's trace object, without the instructions that nothing depends on.
    pub(crate) fn of(trace: &Obj) -> Result<Trace> {
        Trace::exactly(&call(
            "s_tir.schedule.TraceSimplified",
            &[trace, &boolean(false)],
        )?)
    }

    /// The record of TVM's trace object with all its instructions.
    pub(crate) fn exactly(trace: &Obj) -> Result<Trace> {
        let json = call("s_tir.schedule.TraceAsJSON", &[trace, &boolean(false)])?;
        plain_json(&json).map(Trace)
    }

    /// Number of instructions.
    pub fn len(&self) -> usize {
        self.0.get(0).and_then(Value::as_array).map_or(0, Vec::len)
    }

    /// Whether there is no instruction.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The trace as TVM's objects.
    pub(crate) fn to_object(&self) -> Result<Obj> {
        object(&self.0)
    }
}

/// TVM's lists, maps, numbers and texts as JSON.
pub(crate) fn plain_json(object: &Obj) -> Result<Value> {
    const NAME: &str = "ffi.ToJSONGraphString";
    let text: tvm_ffi::String = value(NAME, call(NAME, &[object, &none()])?)?;
    let graph = serde_json::from_str(text.as_str()).map_err(|e| Error::unexpected(NAME, e))?;
    plain(&graph).ok_or_else(|| Error::unexpected(NAME, "an object that JSON has no form for"))
}

/// JSON as TVM's lists, maps, numbers and texts.
pub(crate) fn object_of_json(json: &Value) -> Result<Obj> {
    object(json)
}

/// TVM's graph of objects as a JSON value. `None` if it holds anything that JSON cannot.
fn plain(graph: &Value) -> Option<Value> {
    let nodes = graph.get("nodes")?.as_array()?;
    let root = graph.get("root_index")?.as_u64()?;
    resolve(nodes, root)
}

fn resolve(nodes: &[Value], index: u64) -> Option<Value> {
    let node = nodes.get(usize::try_from(index).ok()?)?;
    let data = node.get("data");
    Some(match node.get("type")?.as_str()? {
        "None" => Value::Null,
        "ffi.Array" | "ffi.List" => {
            let items = data?.as_array()?;
            let resolved: Option<Vec<Value>> =
                items.iter().map(|i| resolve(nodes, i.as_u64()?)).collect();
            Value::Array(resolved?)
        }
        "ffi.Map" | "ffi.Dict" => {
            let flat = data?.as_array()?;
            let mut object = Map::new();
            for pair in flat.chunks_exact(2) {
                let key = resolve(nodes, pair[0].as_u64()?)?;
                object.insert(key.as_str()?.to_owned(), resolve(nodes, pair[1].as_u64()?)?);
            }
            Value::Object(object)
        }
        "ir.IntImm" => resolve(nodes, data?.get("value")?.as_u64()?)?,
        "ir.FloatImm" => data?.get("value")?.clone(),
        "int" | "float" | "bool" | "ffi.String" => data?.clone(),
        _ => json!({ OBJECT: subgraph(nodes, index)? }),
    })
}

/// The part of a graph that the node `index` needs, as a graph of its own.
fn subgraph(nodes: &[Value], index: u64) -> Option<Value> {
    let mut order = vec![index];
    let mut next = 0;
    while let Some(&node) = order.get(next) {
        for child in children(nodes.get(usize::try_from(node).ok()?)?) {
            if !order.contains(&child) {
                order.push(child);
            }
        }
        next += 1;
    }
    let place = |old: u64| order.iter().position(|&o| o == old);
    let renumbered = |value: &Value| match value.as_u64().and_then(place) {
        Some(new) => json!(new),
        None => value.clone(),
    };
    let kept: Vec<Value> = order
        .iter()
        .map(|&old| {
            let node = &nodes[old as usize];
            if children(node).is_empty() {
                return node.clone();
            }
            let data = match &node["data"] {
                Value::Array(items) => items.iter().map(renumbered).collect(),
                Value::Object(fields) => {
                    let fields = fields.iter().map(|(k, v)| (k.clone(), renumbered(v)));
                    Value::Object(fields.collect())
                }
                other => other.clone(),
            };
            json!({ "type": node["type"], "data": data })
        })
        .collect();
    Some(json!({ "nodes": kept, "root_index": 0 }))
}

/// The nodes that a node refers to: every number in its data, unless the node is a number itself.
fn children(node: &Value) -> Vec<u64> {
    match &node["data"] {
        Value::Array(items) => items.iter().filter_map(Value::as_u64).collect(),
        Value::Object(fields) => fields.values().filter_map(Value::as_u64).collect(),
        _ => Vec::new(),
    }
}

fn object(value: &Value) -> Result<Obj> {
    Ok(match value {
        Value::Null => none(),
        Value::Bool(b) => boolean(*b),
        Value::Number(number) => self::number(number),
        Value::String(s) => text(s),
        Value::Array(items) => {
            let items = items.iter().map(object).collect::<Result<Vec<_>>>()?;
            array(&items)?
        }
        // TVM writes the object but reads its graph as text.
        Value::Object(fields) if fields.contains_key(OBJECT) => text(&fields[OBJECT].to_string()),
        Value::Object(fields) => {
            let fields = fields
                .iter()
                .map(|(k, v)| Ok((text(k), object(v)?)))
                .collect::<Result<Vec<_>>>()?;
            map(fields.iter().map(|(k, v)| (k, v)))?
        }
    })
}

fn number(number: &Number) -> Obj {
    match number.as_i64() {
        Some(i) => int(i),
        None => Obj(tvm_ffi::Any::from(number.as_f64().unwrap_or_default())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_graph_becomes_the_value_it_stands_for() {
        let graph = json!({"root_index": 4, "nodes": [
            {"type": "ffi.String", "data": "Split"}, {"type": "int", "data": 3}, {"type": "None"},
            {"type": "ffi.Map", "data": [0, 1]}, {"type": "ffi.Array", "data": [0, 1, 2, 3]}]});
        assert_eq!(plain(&graph), Some(json!(["Split", 3, null, {"Split": 3}])));
        assert_eq!(plain(&json!({"nodes": [], "root_index": 0})), None);
    }

    #[test]
    fn objects_keep_the_part_of_the_graph_they_need() {
        let graph = json!({"root_index": 3, "nodes": [
            {"type": "int", "data": 2}, {"type": "ffi.String", "data": "i"},
            {"type": "tirx.IndexMap", "data": {"name": 1, "dtype": "int64"}}, {"type": "ffi.Array", "data": [0, 2]}]});
        let part = json!({"root_index": 0, "nodes": [
            {"type": "tirx.IndexMap", "data": {"name": 1, "dtype": "int64"}}, {"type": "ffi.String", "data": "i"}]});
        assert_eq!(plain(&graph), Some(json!([2, {"tvm_object": part}])));
    }
}
