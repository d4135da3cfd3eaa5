//! Aligns two sequences that are nearly the same, in linear time.
//!
//! As long as items fit exactly they are paired as they come. Where two do not, the next stretch of both is aligned by
//! dynamic programming. Its first half is kept, and the walk goes on from there. So the time for damage depends on the
//! damage, not on the length. This module owns the search only; the caller sets the prices of pairs.

/// How the next items align.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    /// These two belong together.
    Pair(usize, usize),
    /// The item of the left sequence has no partner.
    Left(usize),
    /// The item of the right sequence has no partner.
    Right(usize),
}

/// Items of each side that are looked at together; damages closer than half of it are seen as one.
const WINDOW: usize = 192;

/// Prices: of a pair (0: they fit exactly), and of leaving an item of either side without a partner.
pub(crate) struct Prices<'a> {
    /// Cost of pairing an item of the left with one of the right.
    pub pair: &'a dyn Fn(usize, usize) -> u32,
    /// Cost of leaving an item of the left unpaired.
    pub left: &'a dyn Fn(usize) -> u32,
    /// Cost of leaving an item of the right unpaired.
    pub right: &'a dyn Fn(usize) -> u32,
}

/// Aligns `left` items with `right` items. Of equally cheap ways the one that pairs early wins.
pub(crate) fn align(left: usize, right: usize, prices: &Prices) -> Vec<Step> {
    let price = prices.pair;
    let mut steps = Vec::with_capacity(left.max(right));
    let (mut i, mut j) = (0, 0);
    loop {
        while i < left && j < right && price(i, j) == 0 {
            steps.push(Step::Pair(i, j));
            (i, j) = (i + 1, j + 1);
        }
        if i == left || j == right {
            break;
        }
        let size = (WINDOW.min(left - i), WINDOW.min(right - j));
        let last = (i + size.0 == left, j + size.1 == right) == (true, true);
        let here = Prices {
            pair: &|x, y| price(i + x, j + y),
            left: &|x| (prices.left)(i + x),
            right: &|y| (prices.right)(j + y),
        };
        let found = window(size, &here, last);
        let keep = if last { usize::MAX } else { WINDOW / 2 };
        let from = (i, j);
        for step in found {
            if i - from.0 >= keep || j - from.1 >= keep {
                break;
            }
            steps.push(match step {
                Step::Pair(x, y) => Step::Pair(from.0 + x, from.1 + y),
                Step::Left(x) => Step::Left(from.0 + x),
                Step::Right(y) => Step::Right(from.1 + y),
            });
            i += usize::from(!matches!(step, Step::Right(_)));
            j += usize::from(!matches!(step, Step::Left(_)));
        }
    }
    steps.extend((i..left).map(Step::Left));
    steps.extend((j..right).map(Step::Right));
    steps
}

/// The cheapest way through a table from its first corner: to the last one if `last`, else to where either side ends.
fn window((rows, columns): (usize, usize), prices: &Prices, last: bool) -> Vec<Step> {
    let width = columns + 1;
    let mut cost = vec![0u32; (rows + 1) * width];
    let by_pair = |cost: &[u32], x: usize, y: usize| match (x, y) {
        (0, _) | (_, 0) => u32::MAX,
        _ => cost[(x - 1) * width + y - 1].saturating_add((prices.pair)(x - 1, y - 1)),
    };
    for x in 0..=rows {
        for y in 0..=columns {
            if x + y == 0 {
                continue;
            }
            let mut best = by_pair(&cost, x, y);
            if x > 0 {
                best = best.min(cost[(x - 1) * width + y].saturating_add((prices.left)(x - 1)));
            }
            if y > 0 {
                best = best.min(cost[x * width + y - 1].saturating_add((prices.right)(y - 1)));
            }
            cost[x * width + y] = best;
        }
    }
    let (mut x, mut y) = (rows, columns);
    if !last {
        let ends = (0..=columns)
            .map(|y| (rows, y))
            .chain((0..=rows).map(|x| (x, columns)));
        if let Some(best) = ends.min_by_key(|&(x, y)| cost[x * width + y]) {
            (x, y) = best;
        }
    }
    let mut steps = Vec::with_capacity(x + y);
    while x + y > 0 {
        let here = cost[x * width + y];
        // The walk goes backwards. It takes left-overs first, so that they come after the pairs.
        if y > 0 && cost[x * width + y - 1].saturating_add((prices.right)(y - 1)) == here {
            y -= 1;
            steps.push(Step::Right(y));
        } else if x > 0 && cost[(x - 1) * width + y].saturating_add((prices.left)(x - 1)) == here {
            x -= 1;
            steps.push(Step::Left(x));
        } else {
            (x, y) = (x - 1, y - 1);
            steps.push(Step::Pair(x, y));
        }
    }
    steps.reverse();
    steps
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn of(left: &[u8], right: &[u8]) -> Vec<Step> {
        let price = |i: usize, j: usize| if left[i] == right[j] { 0 } else { 7 };
        let prices = Prices {
            pair: &price,
            left: &|_| 4,
            right: &|_| 4,
        };
        align(left.len(), right.len(), &prices)
    }

    #[test]
    fn what_is_left_over_lies_behind() {
        use Step::{Left, Pair, Right};
        assert_eq!(
            of(b"abc", b"abbc"),
            [Pair(0, 0), Pair(1, 1), Right(2), Pair(2, 3)]
        );
        assert_eq!(of(b"axc", b"abc"), [Pair(0, 0), Pair(1, 1), Pair(2, 2)]);
        assert_eq!(of(b"ab", b""), [Left(0), Left(1)]);
        assert_eq!(of(b"", b"a"), [Right(0)]);
    }

    proptest! {
        /// Items removed here and there from a long sequence: the rest stays paired with its like.
        #[test]
        fn long_sequences_come_back_into_step(
            text in prop::collection::vec(0..9u8, 400..1500),
            gone in prop::collection::vec(any::<prop::sample::Index>(), 0..6),
        ) {
            let gone: std::collections::BTreeSet<usize> =
                gone.iter().map(|at| at.index(text.len())).collect();
            let left: Vec<u8> = (0..text.len()).filter(|i| !gone.contains(i)).map(|i| text[i]).collect();
            let steps = of(&left, &text);
            let over = steps.iter().filter(|s| matches!(s, Step::Right(_))).count();
            prop_assert_eq!(over, gone.len());
            for step in steps {
                match step {
                    Step::Pair(i, j) => prop_assert_eq!(left[i], text[j]),
                    Step::Left(i) => prop_assert!(false, "{} is left over", i),
                    Step::Right(_) => {}
                }
            }
        }
    }
}
