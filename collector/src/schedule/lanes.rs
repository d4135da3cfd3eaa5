//! Choosing vector lengths and register tiles: plain arithmetic on extents.

/// Longest vector a loop is turned into, in registers; longer ones only grow the code.
const MAX_REGISTERS: i64 = 4;
/// Longest loop without a good divisor that is still vectorised whole, in registers.
const MAX_WHOLE_REGISTERS: i64 = 16;

/// All divisors of `n`, ascending.
pub(super) fn divisors(n: i64) -> impl Iterator<Item = i64> {
    (1..=n.max(1)).filter(move |d| n % d == 0)
}

/// Share of the lanes that do work if `length` elements are computed in registers of `lanes`.
pub(super) fn efficiency(length: i64, lanes: i64) -> f64 {
    length as f64 / (registers(length, lanes) * lanes) as f64
}

/// Registers of `lanes` that hold `length` elements.
pub(super) fn registers(length: i64, lanes: i64) -> i64 {
    (length + lanes - 1) / lanes
}

/// The vector length for a loop of `extent`: the divisor that wastes the fewest lanes, the longest of equals.
///
/// A loop without a divisor near the register's width (a prime one, say) is vectorised whole while that is bearable:
/// LLVM pads such vectors itself.
pub(super) fn vector_length(extent: i64, lanes: i64) -> i64 {
    let best = divisors(extent)
        .filter(|&d| d <= MAX_REGISTERS * lanes)
        .max_by(|&a, &b| {
            efficiency(a, lanes)
                .total_cmp(&efficiency(b, lanes))
                .then(a.cmp(&b))
        })
        .unwrap_or(1);
    let whole = extent <= MAX_WHOLE_REGISTERS * lanes
        && efficiency(extent, lanes) > 1.25 * efficiency(best, lanes);
    if whole { extent } else { best }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn lengths_fill_registers_where_they_can() {
        assert_eq!(vector_length(64, 16), 64);
        assert_eq!(vector_length(56, 16), 56);
        assert_eq!(vector_length(7, 16), 7);
        assert_eq!(vector_length(1000, 16), 50);
        assert_eq!(vector_length(197, 16), 197);
        assert_eq!(vector_length(1, 16), 1);
    }

    proptest! {
        #[test]
        fn a_vector_length_divides_its_loop(extent in 1i64..5000, log in 2u32..5) {
            let length = vector_length(extent, 1 << log);
            prop_assert!(length >= 1 && extent % length == 0);
        }
    }
}
