//! What a feature is: its name, its meaning, and how it depends on the size of the problem.

/// How a feature depends on the size of the problem. Members of the ensemble leave out groups, so that some see only
/// what carries over to workloads of another size.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize, serde::Deserialize,
)]
#[serde(rename_all = "snake_case")]
pub enum Scope {
    /// What is computed, apart from its size.
    Kind,
    /// Sizes of the whole problem: a tree can tell workloads apart by them.
    Size,
    /// Totals of the scheduled loops, which grow with the problem.
    Total,
    /// Properties of a tile, a block or a step.
    Tile,
    /// The code that was emitted: known of kernels that were compiled, not of those that are only asked about.
    Code,
    /// What a processor, a simulator or an analyser counted of the kernel, in units of its work: known of kernels that were
    /// counted. What a clock says under another name (cycles, stalls, task clock, energy) is not among it.
    Counted,
    /// How an operator fills a device with known figures. It is for members that predict devices without training
    /// rows; to others it would identify the device.
    Foreign,
    /// Where it runs.
    Machine,
    /// In what state the machine was.
    State,
}

impl Scope {
    /// What is known of some kernels alone: those that were built, and more.
    pub const OF_BUILT: [Scope; 2] = [Scope::Code, Scope::Counted];
}

/// What the number of a feature is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scale {
    /// The value itself.
    Plain,
    /// Its base-2 logarithm.
    Log2,
}

/// One feature.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Feature {
    /// Name, as in explanations and documents.
    pub name: &'static str,
    /// How it depends on size.
    pub scope: Scope,
    /// What its number is.
    pub scale: Scale,
    /// Meaning, with its unit.
    pub doc: &'static str,
}

impl Feature {
    /// The value that a number of it stands for, in the unit of its meaning.
    pub fn value(&self, number: f32) -> f32 {
        match self.scale {
            Scale::Plain => number,
            Scale::Log2 => number.exp2(),
        }
    }
}
