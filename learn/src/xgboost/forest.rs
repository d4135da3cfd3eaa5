//! Trained trees laid out for speed; their sums are XGBoost's to the bit.
//!
//! Each tree is filled up to a complete binary tree and stored level by level. A walk from the root to a leaf then
//! takes no branch, because the result of a comparison is a part of the next decision's number. Trees of other kinds
//! (categories, several outputs, very deep ones) have no such layout; the library predicts with them.

use std::collections::BTreeSet;

use super::ubjson::Value;

/// Rows that go through a tree together: enough that a tree is read rarely, few enough for a core's cache.
const TOGETHER: usize = 64;
/// Rows that take each step together. With 4 a walk takes a third longer, with 16 a tenth less (2026-11-29).
const STEPS: usize = 8;
/// Deeper trees are not filled up: each level doubles their size.
const DEEPEST: usize = 8;
/// Decisions and leaves of a tree of that depth.
const PLACES: usize = 1 << DEEPEST;
/// Objectives whose prediction is the sum of the leaves itself.
const OBJECTIVES: [&str; 3] = ["reg:squarederror", "reg:quantileerror", "rank:pairwise"];

/// A node, before the tree is filled up.
enum Node {
    Leaf(f32),
    Inner {
        column: Column,
        threshold: f32,
        children: [usize; 2],
    },
}

/// A feature as decisions read it. A value that is missing there goes right in one column, and left in another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Column {
    feature: usize,
    missing_right: bool,
}

/// A decision of a tree that is filled up: right if the value in the column is at least the threshold.
#[derive(Debug, Clone, Copy, Default)]
struct Decision {
    threshold: f32,
    column: u16,
}

/// A tree that is filled up. Places are numbered from the root, 1; below place `n` are `2n` and `2n + 1`.
#[derive(Debug, Clone)]
struct Tree {
    /// Decisions of every walk.
    depth: usize,
    decisions: [Decision; PLACES],
    /// The leaf at place `n` is number `n` modulo [`PLACES`], whatever the depth.
    leaves: [f32; PLACES],
}

/// All trees of a model.
#[derive(Debug, Clone)]
pub(super) struct Forest {
    /// The start value of the sum.
    base: f32,
    /// Features of a row.
    width: usize,
    columns: Vec<Column>,
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
        let mut forest = Self {
            base: base.parse().ok()?,
            width,
            columns: columns(&trees),
            trees: Vec::new(),
        };
        for nodes in &trees {
            let depth = depth(nodes, 0);
            if depth > DEEPEST {
                return None;
            }
            let mut tree = Tree {
                depth,
                decisions: [Decision::default(); PLACES],
                leaves: [0.0; PLACES],
            };
            forest.fill(&mut tree, (1, depth), (nodes, 0))?;
            forest.trees.push(tree);
        }
        Some(forest)
    }

    /// Fills the `levels` levels of a tree below a place with the nodes below `node`. All places below a leaf lead to its
    /// value. `None` if there are too many columns to number.
    fn fill(
        &self,
        tree: &mut Tree,
        (place, levels): (usize, usize),
        (nodes, node): (&[Node], usize),
    ) -> Option<()> {
        let [left, right] = match &nodes[node] {
            Node::Leaf(value) if levels == 0 => {
                tree.leaves[place % PLACES] = *value;
                return Some(());
            }
            Node::Leaf(_) => [node; 2],
            Node::Inner {
                column,
                threshold,
                children,
            } => {
                let column = self.columns.binary_search(column).ok()?;
                tree.decisions[place] = Decision {
                    threshold: *threshold,
                    column: column.try_into().ok()?,
                };
                *children
            }
        };
        self.fill(tree, (2 * place, levels - 1), (nodes, left))?;
        self.fill(tree, (2 * place + 1, levels - 1), (nodes, right))
    }

    /// Features of a row.
    pub fn width(&self) -> usize {
        self.width
    }

    /// The prediction for each of `count` rows. `value` returns a feature of a row.
    pub fn predict(&self, count: usize, value: impl Fn(usize, usize) -> f32) -> Vec<f32> {
        let mut sums = vec![self.base; count];
        let mut values = Vec::with_capacity(self.columns.len() * count.min(TOGETHER));
        for (group, sums) in sums.chunks_mut(TOGETHER).enumerate() {
            values.clear();
            for row in 0..sums.len() {
                for column in &self.columns {
                    let value = value(TOGETHER * group + row, column.feature);
                    // Infinity reaches every threshold, and a missing value none.
                    values.push(match column.missing_right && value.is_nan() {
                        true => f32::INFINITY,
                        false => value,
                    });
                }
            }
            self.add(&values, sums);
        }
        sums
    }

    /// Adds all trees in their order to the sums of rows with these values, row by row.
    fn add(&self, values: &[f32], sums: &mut [f32]) {
        let width = self.columns.len();
        for tree in &self.trees {
            let (some, rest) = sums.as_chunks_mut::<STEPS>();
            let (own, alone) = values.split_at(width * STEPS * some.len());
            for (place, sums) in some.iter_mut().enumerate() {
                tree.add(&own[width * STEPS * place..], width, sums);
            }
            for (place, sum) in rest.iter_mut().enumerate() {
                tree.add(&alone[width * place..], width, std::array::from_mut(sum));
            }
        }
    }
}

impl Tree {
    /// Adds the leaf of each row to its sum. While one row's next step waits for memory, the other rows take theirs.
    fn add<const ROWS: usize>(&self, values: &[f32], width: usize, sums: &mut [f32; ROWS]) {
        let mut places = [1; ROWS];
        for _ in 0..self.depth {
            for (row, place) in places.iter_mut().enumerate() {
                let Decision { threshold, column } = self.decisions[*place];
                let value = values[width * row + usize::from(column)];
                *place = 2 * *place + usize::from(value >= threshold);
            }
        }
        for (sum, place) in sums.iter_mut().zip(places) {
            *sum += self.leaves[place % PLACES];
        }
    }
}

/// The columns that some decision reads, ascending.
fn columns(trees: &[Vec<Node>]) -> Vec<Column> {
    let read = trees.iter().flatten().filter_map(|node| match node {
        Node::Inner { column, .. } => Some(*column),
        Node::Leaf(_) => None,
    });
    BTreeSet::from_iter(read).into_iter().collect()
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
                column: Column {
                    feature,
                    missing_right: *missing_left.get(place)? == 0,
                },
                threshold: condition,
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
