//! Runs of neighbours: the number of adjacent elements that a copy or an element-wise operator reads from its first
//! input in the order of its output. Also the length of the rows along which a window slides.
//!
//! None of this needs a schedule. The collector's schedule follows from it, because it makes vectors of whole runs.

use opdata::{Dims, Row, Shapes};
use opmodels::tile::{VectorUnit, even_vector_length};

use crate::features::list::Values;
use crate::features::operator::{Class, Operator};
use crate::features::scale::log;

/// Results in a row that are not a whole number of these are finished one by one.
const WHOLE: f64 = 16.0;

/// Fills in the features of a row's operator, as far as it has them.
pub(in crate::features) fn describe(
    values: &mut Values,
    row: &Row,
    operator: &Operator,
    unit: Option<VectorUnit>,
) {
    match operator.class {
        Class::Elementwise | Class::Movement => {}
        Class::Pool | Class::Depthwise => {
            values.window_row = log(operator.out_width);
            values.window_row_rest = (operator.out_width % WHOLE) as f32;
            return;
        }
        _ => return,
    }
    let Some((input, output)) =
        first(row.input_shapes.as_ref()).zip(first(row.output_shapes.as_ref()))
    else {
        return;
    };
    let run = run(input, output);
    values.run = log(run as f64);
    if let (Some(&from), Some(&to)) = (input.0.last(), output.0.last()) {
        values.run_ratio = log(to as f64 / from as f64);
    }
    if let Some(unit) = unit {
        let run = i64::try_from(run).unwrap_or(i64::MAX);
        values.run_vector = log(even_vector_length(run, unit.lanes()) as f64);
    }
}

fn first(shapes: Option<&Shapes>) -> Option<&Dims> {
    shapes?.0.first()
}

/// Elements of the innermost axes that both tensors have in common.
fn run(input: &Dims, output: &Dims) -> u64 {
    let pairs = input.0.iter().rev().zip(output.0.iter().rev());
    let alike = pairs.take_while(|(a, b)| a == b);
    alike.fold(1, |run: u64, (&extent, _)| run.saturating_mul(extent))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{conv_row, dense_row};

    fn described(row: &Row) -> Values {
        let mut values = Values::default();
        let unit = VectorUnit::of_width(512, true);
        describe(&mut values, row, &Operator::of_row(row), Some(unit));
        values
    }

    fn copy(input: &str, output: &str) -> Values {
        described(&Row {
            op_kind: "transpose".to_owned(),
            input_shapes: input.parse().ok(),
            output_shapes: output.parse().ok(),
            ..dense_row(1, 1, 1, "{}")
        })
    }

    #[test]
    fn a_run_ends_where_the_axes_differ() {
        // Whole images stay together; vectors of 14 divide them.
        let images = copy("1x2x116x14x14", "1x116x2x14x14");
        assert_eq!((images.run, images.run_ratio), (log(196.0), 0.0));
        assert_eq!(images.run_vector, log(14.0));
        let turned = copy("1x128x2x64", "1x2x64x128");
        assert_eq!((turned.run, turned.run_ratio), (0.0, 1.0));
        assert_eq!(copy("16x64;16x64", "16x64").run_vector, log(64.0));
    }

    #[test]
    fn windows_have_rows_and_products_have_neither() {
        let mut row = conv_row([1, 64, 23, 23], [64, 1, 1], "{}");
        assert!(described(&row).window_row.is_nan());
        row.op_kind = "max_pool".to_owned();
        let pool = described(&row);
        assert_eq!((pool.window_row, pool.window_row_rest), (log(23.0), 7.0));
        assert!(pool.run.is_nan());
    }
}
