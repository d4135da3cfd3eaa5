//! Cost of exponentials fused after a reduction on a CPU.
//!
//! They are computed one vector of results after the other. Each step of the polynomial waits for the one before, so a
//! vector of few lanes takes nearly as long as a full one. At one thread of a Zen 4, depthwise convolutions with SiLU
//! took longer than those with ReLU6. The difference was 4.0, 4.5 and 6.7 ns for each vector of 4, 8 and 16 lanes.

use crate::features::device::Query;
use crate::features::operator::Class;
use crate::features::operator::windows::Vectors;

/// Lanes of a full vector, where the machine's are not known.
const USUAL_LANES: f64 = 8.0;
/// Lanes in which a vector could be computed while it waits.
const WAIT_LANES: f64 = 8.0;

/// Lanes for each exponential after a reduction, including lanes without work; missing if the operator has no
/// reduction.
pub(super) fn lanes(query: &Query<'_>) -> Option<f64> {
    let unit = query.machine.vector;
    let most = unit.map_or(USUAL_LANES, |unit| unit.lanes() as f64);
    match query.operator.class {
        Class::Depthwise | Class::Pool => {
            let rows = query.windows;
            Some(rows.map_or_else(|| full(most), |rows| in_rows(rows, most)))
        }
        Class::Conv | Class::Dense | Class::BatchMatmul => Some(full(most)),
        Class::Rows | Class::Elementwise | Class::Movement | Class::Other => None,
    }
}

/// Lanes for each result, where vectors are full.
fn full(most: f64) -> f64 {
    (most + WAIT_LANES) / most
}

/// Lanes for each result, if each row of results has vectors of its own. LLVM widens those that are no power of two.
fn in_rows(rows: &Vectors, most: f64) -> f64 {
    let widened = rows.length.log2().ceil().exp2().min(most);
    rows.per_result(most) * (widened + WAIT_LANES)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::features::knobs::Knobs;
    use crate::features::machine::MachineFacts;
    use crate::features::operator::Operator;
    use crate::testing::dense_row;

    fn of(length: f64, computed: f64, wanted: f64) -> f64 {
        let rows = Vectors {
            length,
            computed,
            wanted,
            several: 1,
        };
        in_rows(&rows, 16.0)
    }

    #[test]
    fn short_and_partial_vectors_take_more_for_each_result() {
        assert_eq!(of(16.0, 64.0, 64.0), full(16.0));
        // 6 results in a vector of 8 lanes, 3 in one of 4.
        assert_eq!((of(8.0, 8.0, 6.0), of(3.0, 3.0, 3.0)), (16.0 / 6.0, 4.0));
        // 20 results are two vectors.
        assert!((of(20.0, 20.0, 20.0) - 2.4).abs() < 1e-12);
    }

    #[test]
    fn exponentials_of_a_kernel_of_their_own_wait_for_nothing() {
        let row = dense_row(16, 64, 64, "{}");
        let of_class = |class: Class| {
            let operator = Operator {
                class,
                ..Operator::of_row(&row)
            };
            lanes(&Query {
                row: &row,
                operator: &operator,
                knobs: &Knobs::default(),
                machine: &MachineFacts::default(),
                best: None,
                windows: None,
            })
        };
        assert_eq!(of_class(Class::Dense), Some(full(USUAL_LANES)));
        assert_eq!(of_class(Class::Elementwise), None);
    }
}
