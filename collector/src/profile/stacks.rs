//! The stacks of a profile for flame graphs: the model, the layer's path, then functions that call each other.

use opengine::protocol::ProfiledCycle;
use opreport::flame::Stack;

use super::ProfiledModel;
use super::summary::{Class, GroupBy, SortBy, summary};

/// Lists the frames of each call of a cycle, with the call's own time in a run.
pub fn stacks(model: &ProfiledModel, cycle: &ProfiledCycle) -> Vec<Stack> {
    let calls = &model.profiled.calls;
    let table = summary(model, cycle, GroupBy::Call, SortBy::Program);
    let lines = table.lines.iter().zip(calls);
    lines
        .map(|(line, call)| {
            let mut functions = vec![line.name.clone()];
            let mut outer = call.parent;
            while let Some(index) = outer {
                functions.push(table.lines[index].name.clone());
                outer = calls[index].parent;
            }
            let mut frames = vec![model.graph.model.clone()];
            match &line.layer {
                Some(layer) => frames.extend(layer.split(['.', '/']).map(str::to_owned)),
                None if line.class == Class::Machine => frames.push("virtual machine".to_owned()),
                None => {}
            }
            frames.extend(functions.into_iter().rev());
            (frames, line.own_ns.round().max(0.0) as u64)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::summary::testing::model;

    #[test]
    fn an_operator_stands_below_its_layer() {
        let model = model();
        let all = stacks(&model, &model.profiled.cycles[0]);
        let frames: Vec<String> = all.iter().map(|(frames, _)| frames.join(";")).collect();
        assert_eq!(frames[1], "made-up;layer1;conv1;conv2d_relu");
        assert!(
            frames[0].starts_with("made-up;virtual machine;"),
            "{}",
            frames[0]
        );
        assert_eq!(all[1].1, 800);
    }
}
