//! Where a run's time went, by stage: kept in `run.json` and shown by `--verbose`.
//!
//! A worker's stages come with its result; the others are timed here. With several workers at once the stages of points
//! add up to more than the wall time.

use std::collections::BTreeMap;
use std::time::Duration;

use opengine::protocol::Spent;
use opreport::units;

/// Time by stage, in nanoseconds.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Stages(BTreeMap<&'static str, u64>);

/// The stages in the order of a point's way through them.
#[rustfmt::skip]
const ORDER: [&str; 12] = [
    "import", "whole_model", "propose", "build", "prepare", "reference_kernel", "wait", "check",
    "samples", "counters", "tuned", "write",
];

impl Stages {
    /// Adds time to one of [`ORDER`].
    pub fn add(&mut self, stage: &'static str, took: Duration) {
        debug_assert!(ORDER.contains(&stage), "{stage}");
        *self.0.entry(stage).or_default() += took.as_nanos() as u64;
    }

    /// Adds what a worker spent on a point.
    pub fn add_point(&mut self, spent: &Spent) {
        for (stage, ns) in [
            ("prepare", spent.prepare_ns),
            ("reference_kernel", spent.reference_kernel_ns),
            ("wait", spent.wait_ns),
            ("check", spent.check_ns),
            ("samples", spent.samples_ns),
            ("counters", spent.counters_ns),
        ] {
            self.add(stage, Duration::from_nanos(ns));
        }
    }

    /// Adds all stages to those of a manifest.
    pub fn add_to(&self, manifest: &mut BTreeMap<String, u64>) {
        for (stage, ns) in self.0.iter().filter(|(_, ns)| **ns > 0) {
            *manifest.entry((*stage).to_owned()).or_default() += ns;
        }
    }

    /// One line: each stage with its time and its share of the wall time, and the remaining time.
    pub fn line(&self, wall: Duration) -> String {
        let wall_ns = wall.as_nanos() as u64;
        let words = |name: &str, ns: u64| {
            let share = units::percent(ns as f64 / wall_ns.max(1) as f64);
            format!("{} {} ({share})", name.replace('_', " "), units::wall(ns))
        };
        let stages = ORDER
            .iter()
            .filter_map(|name| Some((*name, *self.0.get(name)?)));
        let mut all: Vec<String> = stages
            .filter(|(_, ns)| *ns > 0)
            .map(|(name, ns)| words(name, ns))
            .collect();
        let known: u64 = self.0.values().sum();
        all.push(words("other", wall_ns.saturating_sub(known)));
        format!("stages: {}", all.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stages_add_up_and_the_rest_is_named() {
        let mut stages = Stages::default();
        stages.add("build", Duration::from_secs(2));
        stages.add("build", Duration::from_secs(1));
        stages.add("tuned", Duration::from_secs(1));
        stages.add_point(&Spent {
            samples_ns: 4_000_000_000,
            ..Spent::default()
        });
        assert_eq!(
            stages.line(Duration::from_secs(10)),
            "stages: build 3.0 s (30.0 %), samples 4.0 s (40.0 %), tuned 1.0 s (10.0 %), other 2.0 s (20.0 %)"
        );
        let mut manifest = BTreeMap::from([("build".to_owned(), 5)]);
        stages.add_to(&mut manifest);
        assert_eq!(manifest["build"], 3_000_000_005);
        assert_eq!(manifest.len(), 3, "what took no time is not there");
    }
}
