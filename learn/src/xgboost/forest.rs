//! Trained trees laid out for speed; their sums are XGBoost's to the bit.
//!
//! A value matters to a tree only by which thresholds it reaches, so each is first replaced by its rank: how many of its
//! feature's thresholds it reaches, one byte. All decisions of a tree are then taken for many rows at once, byte beside
//! byte, and merged from the leaves up to the root, without a jump. Every tree is filled up to the same depth for that.
//! Trees of other kinds (categories, several outputs, very deep ones) have no such layout; the library predicts with them.

use std::collections::BTreeMap;

use super::ubjson::Value;

/// Rows that go through a tree together; what is left over goes alone.
const TOGETHER: usize = 64;
/// The numbers of a deeper tree's leaves do not fit a byte.
const DEEPEST: usize = 8;
/// Most thresholds of a [`Scale`]: the greatest rank but the one that is kept for missing values.
const MOST_THRESHOLDS: usize = 254;
/// The rank of a missing value where it goes right.
const ABOVE_ALL: u8 = u8::MAX;
/// What predicts the sum of the leaves itself.
const OBJECTIVES: [&str; 3] = ["reg:squarederror", "reg:quantileerror", "rank:pairwise"];

/// A decision as XGBoost has it: right if the value is at least the threshold.
#[derive(Debug, Clone, Copy)]
struct Split {
    feature: usize,
    threshold: f32,
    missing_right: bool,
}

/// What a node does, before the tree is filled up.
enum Node {
    Leaf(f32),
    Inner { split: Split, children: [usize; 2] },
}

/// What a feature's values are ranked by: some of its thresholds, ascending. A feature with very many has several scales.
#[derive(Debug, Clone)]
struct Scale {
    feature: usize,
    thresholds: Vec<f32>,
}

/// A decision on ranks: right if the rank in `column` is at least `rank`.
#[derive(Debug, Clone, Copy)]
struct Decision {
    /// Twice the scale, and one more if a missing value goes right.
    column: u16,
    rank: u8,
}

/// All trees of a model.
#[derive(Debug, Clone)]
pub(super) struct Forest {
    /// What the sum begins with.
    base: f32,
    /// Features of a row.
    width: usize,
    /// Decisions from the root to a leaf.
    depth: usize,
    scales: Vec<Scale>,
    /// `2^depth` a tree, level by level from the second on: the children of `n` are `2n` and `2n + 1`.
    decisions: Vec<Decision>,
    /// `2^depth` a tree, from left to right.
    leaves: Vec<f32>,
}

impl Forest {
    /// The trees of a model (UBJSON); none if they do not fit the layout.
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
        let depth = trees.iter().map(|tree| depth(tree, 0)).max().unwrap_or(0);
        if depth > DEEPEST {
            return None;
        }
        let scales = Scales::of(&trees);
        let mut forest = Self {
            base: base.parse().ok()?,
            width,
            depth,
            decisions: Vec::new(),
            leaves: Vec::new(),
            scales: Vec::new(),
        };
        for tree in &trees {
            forest.fill(tree, &scales)?;
        }
        forest.scales = scales.all;
        Some(forest)
    }

    /// Appends a tree, every path filled up to the same depth; nothing if there are too many thresholds to number.
    fn fill(&mut self, tree: &[Node], scales: &Scales) -> Option<()> {
        // Where both ways lead to the same leaf, any decision will do.
        let nothing = Decision { column: 0, rank: 0 };
        self.decisions.push(nothing);
        let mut level = vec![0];
        for _ in 0..self.depth {
            let mut next = Vec::with_capacity(2 * level.len());
            for place in level {
                match &tree[place] {
                    Node::Inner { split, children } => {
                        self.decisions.push(scales.decision(split)?);
                        next.extend(children);
                    }
                    Node::Leaf(_) => {
                        self.decisions.push(nothing);
                        next.extend([place, place]);
                    }
                }
            }
            level = next;
        }
        self.leaves
            .extend(level.iter().map(|&place| match &tree[place] {
                Node::Leaf(value) => *value,
                Node::Inner { .. } => 0.0,
            }));
        Some(())
    }

    /// Features of a row.
    pub fn width(&self) -> usize {
        self.width
    }

    /// How many scales there are.
    #[cfg(test)]
    pub fn scales(&self) -> usize {
        self.scales.len()
    }

    /// The prediction for each of `count` rows, of which `value` tells row and feature.
    pub fn predict(&self, count: usize, value: impl Fn(usize, usize) -> f32) -> Vec<f32> {
        let mut sums = vec![self.base; count];
        let (groups, rest) = sums.as_chunks_mut::<TOGETHER>();
        let alone = TOGETHER * groups.len();
        let mut columns = vec![[0; TOGETHER]; 2 * self.scales.len()];
        for (group, sums) in groups.iter_mut().enumerate() {
            let (pairs, _) = columns.as_chunks_mut::<2>();
            for (scale, pair) in self.scales.iter().zip(pairs) {
                let first = TOGETHER * group;
                let values = std::array::from_fn(|row| value(first + row, scale.feature));
                rank_together(&values, &scale.thresholds, pair);
            }
            match self.depth {
                0 => self.add::<1>(&columns, sums),
                1 => self.add::<2>(&columns, sums),
                2 => self.add::<4>(&columns, sums),
                3 => self.add::<8>(&columns, sums),
                4 => self.add::<16>(&columns, sums),
                5 => self.add::<32>(&columns, sums),
                6 => self.add::<64>(&columns, sums),
                7 => self.add::<128>(&columns, sums),
                _ => self.add::<256>(&columns, sums),
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

    /// Adds all trees, which have `LEAVES` leaves, in their order to the sums of the rows with these ranks.
    fn add<const LEAVES: usize>(&self, columns: &[[u8; TOGETHER]], sums: &mut [f32; TOGETHER]) {
        let (decisions, _) = self.decisions.as_chunks::<LEAVES>();
        let (leaves, _) = self.leaves.as_chunks::<LEAVES>();
        // For each node of a level, the leaf that a row ends in if it comes by.
        let mut ends = [[0u8; TOGETHER]; LEAVES];
        for (decisions, leaves) in decisions.iter().zip(leaves) {
            for (place, end) in ends.iter_mut().enumerate() {
                *end = [place as u8; TOGETHER];
            }
            let mut level = LEAVES;
            while level > 1 {
                level /= 2;
                for place in 0..level {
                    let Decision { column, rank } = decisions[level + place];
                    let (left, right) = (ends[2 * place], ends[2 * place + 1]);
                    let ways = ends[place].iter_mut().zip(left.iter().zip(&right));
                    for ((end, (left, right)), found) in ways.zip(&columns[usize::from(column)]) {
                        // As arithmetic on bits, because compilers put no jump there.
                        let goes_right = 0u8.wrapping_sub(u8::from(*found >= rank));
                        *end = left ^ (goes_right & (left ^ right));
                    }
                }
            }
            for (sum, end) in sums.iter_mut().zip(&ends[0]) {
                *sum += leaves[usize::from(*end) % LEAVES];
            }
        }
    }

    /// Adds all trees in their order to the sum of the row with these ranks.
    fn add_alone(&self, ranks: &[u8], sum: &mut f32) {
        let leaves = 1 << self.depth;
        let trees = self.decisions.chunks_exact(leaves);
        for (decisions, leaves) in trees.zip(self.leaves.chunks_exact(leaves)) {
            let mut at = 1;
            for _ in 0..self.depth {
                let Decision { column, rank } = decisions[at];
                at = 2 * at + usize::from(ranks[usize::from(column)] >= rank);
            }
            *sum += leaves[at - leaves.len()];
        }
    }
}

/// The rank of a value, where a missing one is below all thresholds and where it is above them all.
fn rank(value: f32, thresholds: &[f32]) -> [u8; 2] {
    let rank = thresholds.partition_point(|threshold| value >= *threshold) as u8;
    [rank, if value.is_nan() { ABOVE_ALL } else { rank }]
}

/// The same ranks of many values. Their thresholds are few enough to be counted one by one.
fn rank_together(
    values: &[f32; TOGETHER],
    thresholds: &[f32],
    [below, above]: &mut [[u8; TOGETHER]; 2],
) {
    // So many counts fit a processor's registers.
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

    /// A split as a decision on ranks; none if there are too many scales to number.
    fn decision(&self, split: &Split) -> Option<Decision> {
        let (first, thresholds) = self.of_feature.get(&split.feature)?;
        let place = thresholds.partition_point(|threshold| *threshold < split.threshold);
        let scale = first + place / MOST_THRESHOLDS;
        Some(Decision {
            column: u16::try_from(2 * scale + usize::from(split.missing_right)).ok()?,
            // Whoever reaches this threshold reaches those before it.
            rank: (place % MOST_THRESHOLDS + 1) as u8,
        })
    }
}

/// The nodes of a tree, the root first; none if a split is by categories or makes no sense.
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
