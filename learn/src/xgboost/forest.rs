//! Trained trees laid out for speed; their sums are XGBoost's to the bit.
//!
//! A value matters to a tree only by the thresholds that it reaches. So each is first replaced by its rank, the number
//! of its feature's thresholds that it reaches, one byte. All decisions of a tree are then taken for many rows at once,
//! byte beside byte, from the leaves to the root. No branch is taken: every decision takes the leaf that its left or
//! its right side ends in. Trees of other kinds (categories, several outputs, very deep ones) have no such layout; the
//! library predicts with them.

use std::collections::BTreeMap;
use std::ops::Range;

use super::ubjson::Value;

/// Rows that go through a tree together; remaining rows go one by one.
const TOGETHER: usize = 64;
/// The numbers of a deeper tree's leaves do not fit a byte.
const DEEPEST: usize = 8;
/// Maximum number of leaves of a tree.
const LEAVES: usize = 1 << DEEPEST;
/// Positions for the leaves that rows end in: the leaves themselves, and two for each depth, one for either side.
const PLACES: usize = 2 * LEAVES;
/// Maximum number of thresholds of a [`Scale`]: one rank is reserved for missing values.
const MOST_THRESHOLDS: usize = 254;
/// The rank of a missing value where it goes right.
const ABOVE_ALL: u8 = u8::MAX;
/// Objectives whose prediction is the sum of the leaves itself.
const OBJECTIVES: [&str; 3] = ["reg:squarederror", "reg:quantileerror", "rank:pairwise"];

/// A decision as XGBoost has it: right if the value is at least the threshold.
#[derive(Debug, Clone, Copy)]
struct Split {
    feature: usize,
    threshold: f32,
    missing_right: bool,
}

/// A node, before the tree is filled up.
enum Node {
    Leaf(f32),
    Inner { split: Split, children: [usize; 2] },
}

/// The thresholds that rank a feature's values, ascending. A feature with very many has several scales.
#[derive(Debug, Clone)]
struct Scale {
    feature: usize,
    thresholds: Vec<f32>,
}

/// A decision on ranks: a row goes right if its rank in `column` is at least `rank`. Each side names the position of the
/// leaf in which the row ends there. Positions below [`LEAVES`] are the leaves themselves.
#[derive(Debug, Clone, Copy)]
struct Decision {
    /// Twice the number of the scale, plus one if a missing value goes right.
    column: u16,
    rank: u8,
    left: u16,
    right: u16,
    /// Position of the leaf that a row ends in if it passes here.
    end: u16,
    /// Number of decisions between the last one of its left side and this one.
    left_before: u16,
}

/// One tree's part of all decisions.
#[derive(Debug, Clone)]
struct Tree {
    decisions: Range<usize>,
    leaves: [f32; LEAVES],
}

/// All trees of a model.
#[derive(Debug, Clone)]
pub(super) struct Forest {
    /// The start value of the sum.
    base: f32,
    /// Features of a row.
    width: usize,
    scales: Vec<Scale>,
    /// Tree by tree, both sides of a decision before it, the left one first.
    decisions: Vec<Decision>,
    trees: Vec<Tree>,
}

impl Forest {
    /// The trees of a model (UBJSON). `None` if they do not fit the layout.
    pub fn of_model(bytes: &[u8]) -> Option<Self> {
        let model = Value::read(bytes)?;
        let learner = model.at(&["learner"])?;
        let parameter = |name| learner.text(&["learner_model_param", name]);
        let booster = learner.at(&["gradient_booster"])?;
        if !OBJECTIVES.contains(&learner.text(&["objective", "name"])?)
            || booster.text(&["name"])? != "gbtree"
            || parameter("num_class")? != "0"
            || parameter("num_target").is_some_and(|targets| targets != "1")
        {
            return None;
        }
        // Versions from 3.1 on write a list with one number.
        let base = parameter("base_score")?.trim_matches(['[', ']']);
        let width = parameter("num_feature")?.parse().ok()?;
        let trees: Vec<Vec<Node>> = booster
            .array(&["model", "trees"])?
            .iter()
            .map(|tree| nodes(tree, width))
            .collect::<Option<_>>()?;
        if trees.iter().any(|tree| depth(tree, 0) > DEEPEST) {
            return None;
        }
        let scales = Scales::of(&trees);
        let mut forest = Self {
            base: base.parse().ok()?,
            width,
            decisions: Vec::new(),
            trees: Vec::new(),
            scales: Vec::new(),
        };
        for tree in &trees {
            forest.append(tree, &scales)?;
        }
        forest.scales = scales.all;
        Some(forest)
    }

    /// Appends a tree; nothing if there are too many thresholds to number.
    fn append(&mut self, tree: &[Node], scales: &Scales) -> Option<()> {
        let first = self.decisions.len();
        let mut leaves = Vec::new();
        self.append_side(tree, scales, (0, LEAVES), &mut leaves)?;
        let mut all = [0.0; LEAVES];
        all[..leaves.len()].copy_from_slice(&leaves);
        self.trees.push(Tree {
            decisions: first..self.decisions.len(),
            leaves: all,
        });
        Some(())
    }

    /// Appends the part of a tree below a node, to keep its leaf at `end`; returns where it is kept.
    fn append_side(
        &mut self,
        tree: &[Node],
        scales: &Scales,
        (place, end): (usize, usize),
        leaves: &mut Vec<f32>,
    ) -> Option<u16> {
        let (split, [left, right]) = match &tree[place] {
            Node::Leaf(value) => {
                leaves.push(*value);
                return u16::try_from(leaves.len() - 1).ok();
            }
            Node::Inner { split, children } => (split, *children),
        };
        // Places of one depth are free again once the decision above is taken.
        let below = (end - LEAVES) / 2 * 2 + 2 + LEAVES;
        let left = self.append_side(tree, scales, (left, below), leaves)?;
        let last_of_left = self.decisions.len();
        let right = self.append_side(tree, scales, (right, below + 1), leaves)?;
        let (column, rank) = scales.decision(split)?;
        self.decisions.push(Decision {
            column,
            rank,
            left,
            right,
            end: u16::try_from(end).ok()?,
            left_before: u16::try_from(self.decisions.len() - last_of_left + 1).ok()?,
        });
        u16::try_from(end).ok()
    }

    /// Features of a row.
    pub fn width(&self) -> usize {
        self.width
    }

    /// Number of scales.
    #[cfg(test)]
    pub fn scales(&self) -> usize {
        self.scales.len()
    }

    /// The prediction for each of `count` rows. `value` returns a feature of a row.
    pub fn predict(&self, count: usize, value: impl Fn(usize, usize) -> f32) -> Vec<f32> {
        #[cfg(target_arch = "x86_64")]
        if std::is_x86_feature_detected!("avx2") {
            // SAFETY: the processor has these instructions.
            return unsafe { self.predict_wide(count, value) };
        }
        self.predict_anywhere(count, value)
    }

    /// The predictions with vectors of 32 bytes, twice the length that every x86-64 processor has.
    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2")]
    fn predict_wide(&self, count: usize, value: impl Fn(usize, usize) -> f32) -> Vec<f32> {
        self.predict_anywhere(count, value)
    }

    // Inlined into the function above, so that it is compiled again for the longer vectors.
    #[inline(always)]
    fn predict_anywhere(&self, count: usize, value: impl Fn(usize, usize) -> f32) -> Vec<f32> {
        let mut sums = vec![self.base; count];
        let (groups, rest) = sums.as_chunks_mut::<TOGETHER>();
        let alone = TOGETHER * groups.len();
        if !groups.is_empty() {
            let mut columns = vec![[0; TOGETHER]; 2 * self.scales.len()];
            let mut ends: Vec<[u8; TOGETHER]> =
                (0..PLACES).map(|leaf| [leaf as u8; TOGETHER]).collect();
            for (group, sums) in groups.iter_mut().enumerate() {
                let (pairs, _) = columns.as_chunks_mut::<2>();
                for (scale, pair) in self.scales.iter().zip(pairs) {
                    let first = TOGETHER * group;
                    let values = std::array::from_fn(|row| value(first + row, scale.feature));
                    rank_together(&values, &scale.thresholds, pair);
                }
                self.add(&columns, &mut ends, sums);
            }
        }
        let mut ranks = vec![0; 2 * self.scales.len()];
        for (row, sum) in rest.iter_mut().enumerate() {
            let (pairs, _) = ranks.as_chunks_mut::<2>();
            for (scale, pair) in self.scales.iter().zip(pairs) {
                *pair = rank(value(alone + row, scale.feature), &scale.thresholds);
            }
            self.add_alone(&ranks, sum);
        }
        sums
    }

    /// Adds all trees in their order to the sums of the rows with these ranks. `ends` has [`PLACES`]; the first of them
    /// hold the numbers of the leaves.
    #[inline(always)]
    fn add(
        &self,
        columns: &[[u8; TOGETHER]],
        ends: &mut [[u8; TOGETHER]],
        sums: &mut [f32; TOGETHER],
    ) {
        for tree in &self.trees {
            let mut root = 0;
            for decision in &self.decisions[tree.decisions.clone()] {
                let left = ends[usize::from(decision.left)];
                let right = ends[usize::from(decision.right)];
                root = usize::from(decision.end);
                let ways = ends[root].iter_mut().zip(left.iter().zip(&right));
                let ranks = &columns[usize::from(decision.column)];
                for ((end, (left, right)), found) in ways.zip(ranks) {
                    // As arithmetic on bits, because compilers put no jump there.
                    let goes_right = 0u8.wrapping_sub(u8::from(*found >= decision.rank));
                    *end = left ^ (goes_right & (left ^ right));
                }
            }
            for (sum, end) in sums.iter_mut().zip(&ends[root]) {
                *sum += tree.leaves[usize::from(*end)];
            }
        }
    }

    /// Adds all trees in their order to the sum of the row with these ranks.
    fn add_alone(&self, ranks: &[u8], sum: &mut f32) {
        for tree in &self.trees {
            let decisions = &self.decisions[tree.decisions.clone()];
            let mut at = decisions.len();
            let mut end = 0;
            while at > 0 {
                let decision = &decisions[at - 1];
                let goes_right = ranks[usize::from(decision.column)] >= decision.rank;
                (end, at) = match goes_right {
                    true => (decision.right, at - 1),
                    false => (decision.left, at - usize::from(decision.left_before)),
                };
                if usize::from(end) < LEAVES {
                    break;
                }
            }
            *sum += tree.leaves[usize::from(end)];
        }
    }
}

/// The rank of a value, where a missing one is below all thresholds and where it is above them all.
fn rank(value: f32, thresholds: &[f32]) -> [u8; 2] {
    let rank = thresholds.partition_point(|threshold| value >= *threshold) as u8;
    [rank, if value.is_nan() { ABOVE_ALL } else { rank }]
}

/// The same ranks of many values. Their thresholds are few enough to be counted one by one.
#[inline(always)]
fn rank_together(
    values: &[f32; TOGETHER],
    thresholds: &[f32],
    [below, above]: &mut [[u8; TOGETHER]; 2],
) {
    // Number of counts that fit a processor's registers.
    const COUNTED: usize = 16;
    let some = values
        .chunks_exact(COUNTED)
        .zip(below.chunks_exact_mut(COUNTED));
    for ((values, below), above) in some.zip(above.chunks_exact_mut(COUNTED)) {
        let mut ranks = [0u32; COUNTED];
        for threshold in thresholds {
            for (rank, value) in ranks.iter_mut().zip(values) {
                *rank += u32::from(value >= threshold);
            }
        }
        for (row, rank) in ranks.into_iter().enumerate() {
            below[row] = rank as u8;
            above[row] = if values[row].is_nan() {
                ABOVE_ALL
            } else {
                rank as u8
            };
        }
    }
}

/// The scales of all features, while trees are put together.
struct Scales {
    all: Vec<Scale>,
    /// The first scale of each feature, and all its thresholds.
    of_feature: BTreeMap<usize, (usize, Vec<f32>)>,
}

impl Scales {
    fn of(trees: &[Vec<Node>]) -> Self {
        let mut of_feature: BTreeMap<usize, (usize, Vec<f32>)> = BTreeMap::new();
        for node in trees.iter().flatten() {
            if let Node::Inner { split, .. } = node {
                let (_, thresholds) = of_feature.entry(split.feature).or_default();
                thresholds.push(split.threshold);
            }
        }
        let mut all = Vec::new();
        for (&feature, (first, thresholds)) in &mut of_feature {
            thresholds.sort_by(f32::total_cmp);
            thresholds.dedup();
            *first = all.len();
            all.extend(thresholds.chunks(MOST_THRESHOLDS).map(|some| Scale {
                feature,
                thresholds: some.to_vec(),
            }));
        }
        Self { all, of_feature }
    }

    /// The column and the rank that a split decides by. `None` if there are too many scales to number.
    fn decision(&self, split: &Split) -> Option<(u16, u8)> {
        let (first, thresholds) = self.of_feature.get(&split.feature)?;
        let place = thresholds.partition_point(|threshold| *threshold < split.threshold);
        let scale = first + place / MOST_THRESHOLDS;
        let column = u16::try_from(2 * scale + usize::from(split.missing_right)).ok()?;
        // A value that reaches this threshold also reaches all smaller ones.
        Some((column, (place % MOST_THRESHOLDS + 1) as u8))
    }
}

/// The nodes of a tree, the root first. `None` if a split is by categories or is malformed.
fn nodes(tree: &Value, width: usize) -> Option<Vec<Node>> {
    let [left, right, features, missing_left] = [
        "left_children",
        "right_children",
        "split_indices",
        "default_left",
    ]
    .map(|name| tree.integers(&[name]));
    let (left, right, features, missing_left) = (left?, right?, features?, missing_left?);
    let conditions = tree.floats(&["split_conditions"])?;
    let by_category = tree
        .integers(&["split_type"])
        .is_some_and(|types| types.iter().any(|kind| *kind != 0));
    if by_category || left.is_empty() {
        return None;
    }
    let child = |place: i64, parent: usize| {
        // Children come later in the list, so that no walk is endless.
        usize::try_from(place)
            .ok()
            .filter(|child| *child > parent && *child < left.len())
    };
    (0..left.len())
        .map(|place| {
            let condition = *conditions.get(place)?;
            if left[place] < 0 {
                return Some(Node::Leaf(condition));
            }
            let feature = usize::try_from(*features.get(place)?).ok()?;
            if !condition.is_finite() || feature >= width {
                return None;
            }
            Some(Node::Inner {
                split: Split {
                    feature,
                    threshold: condition,
                    missing_right: *missing_left.get(place)? == 0,
                },
                children: [
                    child(left[place], place)?,
                    child(*right.get(place)?, place)?,
                ],
            })
        })
        .collect()
}

fn depth(tree: &[Node], place: usize) -> usize {
    match &tree[place] {
        Node::Leaf(_) => 0,
        Node::Inner { children, .. } => {
            1 + children
                .iter()
                .map(|&child| depth(tree, child))
                .max()
                .unwrap_or(0)
        }
    }
}
