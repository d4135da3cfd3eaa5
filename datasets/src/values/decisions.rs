//! The decisions of a sample of MetaSchedule's space.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The decisions of a trace, each list in the order of its instructions.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Decisions {
    /// Factors of every tiled loop, outermost first: four of a spatial loop, two of a reduction (`SSRSRS`).
    pub tiles: Vec<Vec<i64>>,
    /// Which of the categories was drawn (the unrolling steps, …).
    pub categories: Vec<i64>,
    /// The loop at which a block is computed, counted from the outermost (-1: at the root, -2: inlined).
    pub compute_locations: Vec<i64>,
}

impl Decisions {
    /// The decisions of a trace as TVM writes it: `[instructions, [[instruction's place, decision], …]]`. Instructions that sample
    /// something else are left out.
    pub fn of_trace(trace: &Value) -> Self {
        let part = |which: usize| trace.get(which)?.as_array();
        let (Some(instructions), Some(pairs)) = (part(0), part(1)) else {
            return Self::default();
        };
        let mut found = Self::default();
        for pair in pairs {
            let kind = || {
                let place = usize::try_from(pair.get(0)?.as_u64()?).ok()?;
                instructions.get(place)?.get(0)?.as_str()
            };
            let decision = pair.get(1).unwrap_or(&Value::Null);
            match kind() {
                Some("SamplePerfectTile") => {
                    let tile = decision.as_array().map_or(&[][..], Vec::as_slice);
                    found
                        .tiles
                        .push(tile.iter().filter_map(Value::as_i64).collect());
                }
                Some("SampleCategorical") => found.categories.extend(decision.as_i64()),
                Some("SampleComputeLocation") => found.compute_locations.extend(decision.as_i64()),
                _ => {}
            }
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn decisions_are_found_by_the_kind_of_their_instruction() {
        let trace = json!([
            [
                ["GetSBlock", [], ["c"], ["b0"]],
                ["SamplePerfectTile", ["l1"], [4, 64], []],
                ["SampleCategorical", [], [], []],
                ["SampleComputeLocation", ["b0"], [], []]
            ],
            [[1, [7, 1, 8]], [2, 3], [3, -1], [9, 5]]
        ]);
        let found = Decisions::of_trace(&trace);
        assert_eq!(found.tiles, [[7, 1, 8]]);
        assert_eq!(
            (found.categories, found.compute_locations),
            (vec![3], vec![-1])
        );
        assert_eq!(
            Decisions::of_trace(&json!("no trace")),
            Decisions::default()
        );
    }
}
