//! The rest of a function after a device has run its first statements.

use serde_json::Value;

use crate::error::{Error, Result};
use crate::ir::PrimFunc;

impl PrimFunc {
    /// The function without its first `statements`: `parameter` is given what they left in the local buffer `buffer`, in
    /// place of its own tensor. Local buffers that nothing uses any more stay.
    ///
    /// # Errors
    /// Fails if the function is not a block of several statements, or has no such local buffer or parameter.
    pub fn rest_after(
        &self,
        statements: usize,
        buffer: &str,
        parameter: usize,
    ) -> Result<PrimFunc> {
        let mut graph: Value = serde_json::from_str(&self.to_json()?)
            .map_err(|error| Error::unexpected("PrimFunc::to_json", error.to_string()))?;
        let done = rewrite(&mut graph, statements, buffer, parameter);
        done.ok_or_else(|| {
            let reason = format!("no statement after {statements} that reads {buffer}");
            Error::unexpected("PrimFunc::rest_after", reason)
        })?;
        PrimFunc::from_json(&graph.to_string())
    }
}

/// Edits TVM's graph of nodes, which name each other by their places.
fn rewrite(graph: &mut Value, statements: usize, buffer: &str, parameter: usize) -> Option<()> {
    let place = |value: &Value| Some(value.as_u64()? as usize);
    let root = place(&graph["root_index"])?;
    let nodes = graph["nodes"].as_array_mut()?;
    let follow =
        |nodes: &[Value], from: usize, field: &str| place(&nodes.get(from)?["data"][field]);
    let block = follow(nodes, follow(nodes, root, "body")?, "block")?;
    let sequence = follow(nodes, follow(nodes, block, "body")?, "seq")?;
    let locals = follow(nodes, block, "alloc_buffers")?;
    let parameters = follow(nodes, root, "params")?;
    let name_of = |nodes: &[Value], variable: usize| -> Option<String> {
        let name = follow(nodes, variable, "name")?;
        Some(nodes.get(name)?["data"].as_str()?.to_owned())
    };
    let variables: Vec<usize> = nodes[locals]["data"]
        .as_array()?
        .iter()
        .filter_map(place)
        .collect();
    let own = variables
        .iter()
        .copied()
        .find(|v| name_of(nodes, *v).as_deref() == Some(buffer))?;
    let rest = nodes[sequence]["data"]
        .as_array()?
        .get(statements..)?
        .to_vec();
    match &rest[..] {
        [] => return None,
        [only] => nodes[block]["data"]["body"] = only.clone(),
        _ => nodes[sequence]["data"] = Value::Array(rest),
    }
    nodes[locals]["data"]
        .as_array_mut()?
        .retain(|v| place(v) != Some(own));
    *nodes[parameters]["data"]
        .as_array_mut()?
        .get_mut(parameter)? = own.into();
    Some(())
}
