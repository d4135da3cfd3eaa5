//! The names of tuners: what `--tuner` takes. What each does is in `propose/tuning`.

use std::sync::LazyLock;

use serde::Serialize;

/// A tuner by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct TunerName {
    /// Its name in `--tuner`.
    pub name: &'static str,
    /// Other names of it.
    pub aliases: &'static [&'static str],
    /// A description in a few words.
    pub about: &'static str,
    /// Whether it learns with XGBoost's library.
    #[serde(skip)]
    pub learns: bool,
}

const fn tuner(
    name: &'static str,
    aliases: &'static [&'static str],
    learns: bool,
    about: &'static str,
) -> TunerName {
    TunerName {
        name,
        aliases,
        about,
        learns,
    }
}

/// The tuners, in the order in which they are listed. The names of XGBoost's are AutoTVM's.
pub const TUNERS: &[TunerName] = &[
    tuner(
        "auto",
        &[],
        true,
        "drafts by a cost model shared by all operators, then coordinate descent; starts from the store",
    ),
    tuner(
        "xgb",
        &["xgb_itervar", "xgb-itervar"],
        true,
        "XGBoost on features of the loop nest",
    ),
    tuner(
        "xgb-rank",
        &["xgb_rank"],
        true,
        "XGBoost on features of the loop nest, trained to rank",
    ),
    tuner(
        "xgb_knob",
        &["xgb-knob"],
        true,
        "XGBoost on the knobs' values",
    ),
    tuner(
        "xgb_curve",
        &["xgb-curve"],
        true,
        "XGBoost on the knobs, and products of neighbouring and preceding knobs",
    ),
    tuner("ga", &[], false, "a genetic algorithm"),
    tuner(
        "droplet",
        &[],
        false,
        "coordinate descent from the default schedule",
    ),
    tuner("random", &[], false, "random schedules"),
    tuner("gridsearch", &["grid"], false, "all schedules, in order"),
    tuner(
        "metaschedule",
        &["meta-schedule"],
        true,
        "TVM's evolutionary search over its own design space",
    ),
];

/// The tuner of a name.
pub fn named(name: &str) -> Option<&'static TunerName> {
    TUNERS
        .iter()
        .find(|tuner| tuner.name == name || tuner.aliases.contains(&name))
}

/// The names, as `--tuner` lists them.
pub fn names() -> &'static [&'static str] {
    static NAMES: LazyLock<Vec<&str>> =
        LazyLock::new(|| TUNERS.iter().map(|tuner| tuner.name).collect());
    &NAMES
}
