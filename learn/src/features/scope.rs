//! A feature: its name, its meaning, and how it depends on the size of the problem.

/// How a feature depends on the size of the problem. Members of the ensemble leave out groups, so that some see only
/// what carries over to workloads of another size.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize, serde::Deserialize,
)]
#[serde(rename_all = "snake_case")]
pub enum Scope {
    /// The computation, apart from its size.
    Kind,
    /// Sizes of the whole problem: a tree can identify workloads by them.
    Size,
    /// Totals of the scheduled loops, which grow with the problem.
    Total,
    /// Properties of a tile, a block or a step.
    Tile,
    /// The generated code: known of kernels that were compiled.
    Code,
    /// Counts by a processor, a simulator or an analyser, in units of the kernel's work: known of kernels that were
    /// counted. Counters that are another form of the time (cycles, stalls, task clock, energy) are left out.
    Counted,
    /// How an operator fills a device with known figures. It is for members that predict devices without training
    /// rows; to others it would identify the device.
    Foreign,
    /// The machine that the point runs on.
    Machine,
    /// The state of the machine during the measurement.
    State,
}

impl Scope {
    /// The scopes of features known of some kernels only: those that were built, or also counted.
    pub const OF_BUILT: [Scope; 2] = [Scope::Code, Scope::Counted];
}

/// How a feature's number follows from its value.
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
    /// How the feature depends on size.
    pub scope: Scope,
    /// How the feature's number follows from its value.
    pub scale: Scale,
    /// Meaning, with its unit.
    pub doc: &'static str,
}

impl Feature {
    /// The value that a feature's number represents, in the unit of its meaning.
    pub fn value(&self, number: f32) -> f32 {
        match self.scale {
            Scale::Plain => number,
            Scale::Log2 => number.exp2(),
        }
    }
}
