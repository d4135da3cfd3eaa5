//! Choosing vector lengths and register tiles: plain arithmetic on extents.

/// Longest vector a loop is turned into, in registers; longer ones only grow the code.
const MAX_REGISTERS: i64 = 4;

/// All divisors of `n`, ascending.
pub(super) fn divisors(n: i64) -> impl Iterator<Item = i64> {
    (1..=n.max(1)).filter(move |d| n % d == 0)
}

/// Pieces of `part` values that cover `extent` values, the last one perhaps in part.
pub(super) fn pieces(extent: i64, part: i64) -> i64 {
    (extent + part - 1) / part
}

/// Share of the values computed that are wanted, if `extent` values are computed in pieces of `part`.
pub(super) fn efficiency(extent: i64, part: i64) -> f64 {
    extent as f64 / (pieces(extent, part) * part) as f64
}

/// The vector length for a loop of `extent` that must be divided evenly: the divisor that wastes the fewest lanes, the
/// longest of equals.
///
/// Either part of one register or whole registers: vectors of an odd length beyond one register (29, 56) are legal, but
/// LLVM keeps them in memory, which costs a factor of ten.
pub(super) fn even_vector_length(extent: i64, lanes: i64) -> i64 {
    divisors(extent)
        .filter(|&d| d <= lanes || (d % lanes == 0 && d <= MAX_REGISTERS * lanes))
        .max_by(|&a, &b| {
            efficiency(a, lanes)
                .total_cmp(&efficiency(b, lanes))
                .then(a.cmp(&b))
        })
        .unwrap_or(1)
}

/// The vector length for a loop of `extent` whose last piece may be shorter: it then runs element by element, after the
/// loop has been parted ([`tvm_bridge::Schedule::part_loop`]). Takes the length with the fewest steps, an even one of
/// equals.
pub(super) fn vector_length(extent: i64, lanes: i64) -> i64 {
    let even = even_vector_length(extent, lanes);
    let steps = |length: i64| extent / length * pieces(length, lanes) + extent % length;
    // Whole, half and quarter registers: loads of other lengths come in pieces.
    [lanes, lanes / 2, lanes / 4]
        .into_iter()
        .filter(|&length| (1..=extent).contains(&length) && steps(length) < steps(even))
        .min_by_key(|&length| (steps(length), -length))
        .unwrap_or(even)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn lengths_fill_registers_where_they_can() {
        for (extent, length) in [
            (48, 48),
            (56, 14),
            (7, 7),
            (1000, 10),
            (1, 1),
            (13, 13),
            (55, 11),
        ] {
            assert_eq!(even_vector_length(extent, 16), length, "{extent}");
        }
    }

    #[test]
    fn loops_of_prime_extent_are_vectorised_but_for_their_end() {
        for (extent, length) in [(197, 16), (17, 16), (149, 16), (111, 8), (56, 14), (64, 64)] {
            assert_eq!(vector_length(extent, 16), length, "{extent}");
        }
    }

    proptest! {
        #[test]
        fn an_even_vector_length_divides_its_loop(extent in 1i64..5000, log in 2u32..5) {
            let length = even_vector_length(extent, 1 << log);
            prop_assert!(length >= 1 && extent % length == 0);
        }

        #[test]
        fn an_uneven_length_never_takes_more_steps(extent in 1i64..5000, log in 2u32..5) {
            let lanes = 1 << log;
            let (even, any) = (even_vector_length(extent, lanes), vector_length(extent, lanes));
            let steps = |l: i64| extent / l * pieces(l, lanes) + extent % l;
            prop_assert!(any >= 1 && any <= extent && steps(any) <= steps(even));
        }
    }
}
