//! Counters read around the calls of a sample: hardware events, energy, whatever a source can tell of them.

use serde::{Deserialize, Serialize};

use crate::stats::Counts;

/// A counter of a source.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counter {
    /// Its name in the source, e.g. `cycles`.
    pub name: String,
    /// Unit of its counts, e.g. `events`, `bytes`, `uJ`.
    pub unit: String,
}

/// Why a source did not count.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{source_name} does not count: {reason}; {next}")]
pub struct CounterError {
    /// The source.
    pub source_name: String,
    /// Why, in one line.
    pub reason: String,
    /// What to do about it.
    pub next: String,
}

/// A place that counts come from: a performance monitoring unit, an energy meter, a simulator.
pub trait CounterSource {
    /// Its name, e.g. `perf`.
    fn name(&self) -> &str;
    /// The counters that it reads, in the order of the counts that [`CounterSource::stop`] returns.
    fn counters(&self) -> &[Counter];
    /// Begins to count.
    ///
    /// # Errors
    /// The source refuses.
    fn start(&mut self) -> Result<(), CounterError>;
    /// Ends counting; counts since [`CounterSource::start`], one for each counter.
    ///
    /// # Errors
    /// The counts cannot be read.
    fn stop(&mut self) -> Result<Vec<f64>, CounterError>;
}

/// Counts of one of `calls` calls that were made while all `sources` counted.
///
/// # Errors
/// A source refuses. The calls have been made if it did so afterwards.
pub(super) fn counted<T>(
    sources: &mut [Box<dyn CounterSource>],
    calls: u32,
    work: impl FnOnce() -> T,
) -> Result<(T, Counts), CounterError> {
    for source in sources.iter_mut() {
        source.start()?;
    }
    let result = work();
    let mut counts = Counts::new();
    // The last that began is the first to end, so that none counts what another one does.
    for source in sources.iter_mut().rev() {
        let values = source.stop()?;
        let per_call = |value: f64| value / f64::from(calls.max(1));
        let names = source.counters().iter().map(|c| &c.name);
        let of_source = names.map(|name| format!("{}:{name}", source.name()));
        counts.extend(of_source.zip(values.into_iter().map(per_call)));
    }
    Ok((result, counts))
}
