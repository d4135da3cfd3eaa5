//! Trained trees laid out for speed; their sums are XGBoost's to the bit.
//!
//! Every tree is filled up to the same depth, so that walking down takes no decision but left or right, and rows go down
//! a tree side by side. A row holds each value twice: a missing one is −∞ for splits that send it left and +∞ for those
//! that send it right, which spares a test at every node. Trees of other kinds (categories, several outputs, very deep
//! ones) have no such layout; the library predicts with them.

use super::Rows;
use super::ubjson::Value;

/// Rows that go down a tree side by side.
const LANES: usize = 8;
/// Groups of so many rows that go down a tree one after the other, while it is in the core's nearest cache.
const GROUPS: usize = 2;
/// Most features of a row.
const WIDEST: usize = 256;
/// Both forms of every value of the rows that go side by side. As an array whose length is a power of two, it is indexed
/// without a check.
type Block = [f32; 2 * WIDEST * LANES];
/// Deeper trees would take too much room.
const DEEPEST: usize = 10;
/// What predicts the sum of the leaves itself.
const OBJECTIVES: [&str; 3] = ["reg:squarederror", "reg:quantileerror", "rank:pairwise"];

/// A decision: right if the value is at least the threshold.
#[derive(Debug, Clone, Copy)]
struct Split {
    threshold: f32,
    /// Where the block has the value of the first row: [`LANES`] times twice the feature, and one more if a missing value
    /// goes right.
    place: u32,
}

/// What a node does, before the tree is filled up.
enum Node {
    Leaf(f32),
    Inner { split: Split, children: [usize; 2] },
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
    /// `2^depth` a tree, level by level from the second on: the children of `n` are `2n` and `2n + 1`.
    splits: Vec<Split>,
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
        let trees: Vec<Vec<Node>> = booster
            .array(&["model", "trees"])?
            .iter()
            .map(nodes)
            .collect::<Option<_>>()?;
        let depth = trees.iter().map(|tree| depth(tree, 0)).max().unwrap_or(0);
        let width = parameter("num_feature")?.parse().ok()?;
        if depth > DEEPEST || width > WIDEST {
            return None;
        }
        let mut forest = Self {
            base: base.parse().ok()?,
            width,
            depth,
            splits: Vec::new(),
            leaves: Vec::new(),
        };
        for tree in &trees {
            forest.fill(tree);
        }
        Some(forest)
    }

    /// Appends a tree, every path filled up to the same depth.
    fn fill(&mut self, tree: &[Node]) {
        let nothing = Split {
            threshold: 0.0,
            place: 0,
        };
        self.splits.push(nothing);
        let mut level = vec![0];
        for _ in 0..self.depth {
            let mut next = Vec::with_capacity(2 * level.len());
            for place in level {
                match &tree[place] {
                    Node::Inner { split, children } => {
                        self.splits.push(*split);
                        next.extend(children);
                    }
                    // Both ways lead to the same leaf.
                    Node::Leaf(_) => {
                        self.splits.push(nothing);
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
    }

    /// The prediction for each row; none if the rows have another width than the training rows.
    pub fn predict(&self, rows: Rows<'_>) -> Option<Vec<f32>> {
        if rows.width != self.width {
            return None;
        }
        let mut sums = vec![self.base; rows.len()];
        let mut blocks: [Block; GROUPS] = [[0.0; 2 * WIDEST * LANES]; GROUPS];
        let width = self.width.max(1);
        let together = rows.values.chunks(width * LANES * GROUPS);
        for (values, sums) in together.zip(sums.chunks_mut(LANES * GROUPS)) {
            for (group, block) in values.chunks(width * LANES).zip(&mut blocks) {
                fill(block, group, width);
            }
            let mut totals = [[self.base; LANES]; GROUPS];
            let groups = sums.len().div_ceil(LANES);
            let (blocks, totals) = (&blocks[..groups], &mut totals[..groups]);
            match self.depth {
                0 => self.add::<1>(blocks, totals),
                1 => self.add::<2>(blocks, totals),
                2 => self.add::<4>(blocks, totals),
                3 => self.add::<8>(blocks, totals),
                4 => self.add::<16>(blocks, totals),
                5 => self.add::<32>(blocks, totals),
                6 => self.add::<64>(blocks, totals),
                7 => self.add::<128>(blocks, totals),
                8 => self.add::<256>(blocks, totals),
                9 => self.add::<512>(blocks, totals),
                _ => self.add::<1024>(blocks, totals),
            }
            for (sum, total) in sums.iter_mut().zip(totals.iter().flatten()) {
                *sum = *total;
            }
        }
        Some(sums)
    }

    /// Adds all trees of `LEAVES` leaves, in their order, to the sums of the rows in blocks. Indices are cut to the
    /// lengths of the arrays, which changes none of them and spares a check of each.
    fn add<const LEAVES: usize>(&self, blocks: &[Block], totals: &mut [[f32; LANES]]) {
        let (splits, _) = self.splits.as_chunks::<LEAVES>();
        let (leaves, _) = self.leaves.as_chunks::<LEAVES>();
        for (splits, leaves) in splits.iter().zip(leaves) {
            for (block, totals) in blocks.iter().zip(&mut *totals) {
                let mut at = [1usize; LANES];
                for _ in 0..LEAVES.trailing_zeros() {
                    for (lane, at) in at.iter_mut().enumerate() {
                        let split = splits[*at % LEAVES];
                        let value = block[(split.place as usize + lane) % block.len()];
                        *at = 2 * *at + usize::from(value >= split.threshold);
                    }
                }
                for (total, at) in totals.iter_mut().zip(at) {
                    *total += leaves[at % LEAVES];
                }
            }
        }
    }
}

/// Puts up to [`LANES`] rows into a block, side by side.
fn fill(block: &mut Block, rows: &[f32], width: usize) {
    for (lane, row) in rows.chunks_exact(width).enumerate() {
        for (place, value) in block.chunks_exact_mut(2 * LANES).zip(row) {
            let missing = value.is_nan();
            place[lane] = if missing { f32::NEG_INFINITY } else { *value };
            place[LANES + lane] = if missing { f32::INFINITY } else { *value };
        }
    }
}

/// The nodes of a tree, the root first; none if a split is by categories or makes no sense.
fn nodes(tree: &Value) -> Option<Vec<Node>> {
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
            let missing_right = u32::from(*missing_left.get(place)? == 0);
            let feature = u32::try_from(*features.get(place)?).ok()?;
            if !condition.is_finite() || feature as usize >= WIDEST {
                return None;
            }
            Some(Node::Inner {
                split: Split {
                    threshold: condition,
                    place: (2 * feature + missing_right) * LANES as u32,
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
