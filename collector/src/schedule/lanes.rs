//! Choosing vector lengths and register tiles: plain arithmetic on extents.

/// Longest vector a loop is turned into, in registers; longer ones only grow the code.
const MAX_REGISTERS: i64 = 4;

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
/// Either part of one register or whole registers: vectors of an odd length beyond one register (29, 56) are legal, but
/// LLVM keeps them in memory, which costs a factor of ten.
pub(super) fn vector_length(extent: i64, lanes: i64) -> i64 {
    divisors(extent)
        .filter(|&d| d <= lanes || (d % lanes == 0 && d <= MAX_REGISTERS * lanes))
        .max_by(|&a, &b| {
            efficiency(a, lanes)
                .total_cmp(&efficiency(b, lanes))
                .then(a.cmp(&b))
        })
        .unwrap_or(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn lengths_fill_registers_where_they_can() {
        assert_eq!(vector_length(64, 16), 64);
        assert_eq!(vector_length(48, 16), 48);
        assert_eq!(vector_length(56, 16), 14);
        assert_eq!(vector_length(7, 16), 7);
        assert_eq!(vector_length(1000, 16), 10);
        assert_eq!(vector_length(197, 16), 1);
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
