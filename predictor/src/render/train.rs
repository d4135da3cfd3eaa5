//! A trained model: its training data, its features, and the gain of an adaptation to another machine.

use std::fmt::Write;
use std::path::Path;

use oplearn::features::{FEATURE_VERSION, FEATURES, Scope};
use opreport::Style;
use opreport::table::{Cell, Table};
use opreport::units::plural;

use super::{number, optional, reservations};
use crate::model::trained::Facts;
use crate::transfer::Gain;

/// The default level of intervals, 0 to 1.
const USUAL_LEVEL: f64 = 0.9;

/// The results of training, as `train` prints them at its end.
pub fn facts(facts: &Facts, out: &Path, style: Style) -> String {
    let mut text = format!(
        "{}: {} of {}, {}, {}\n\
         on workloads held out: MAPE {:.1} %, median {:.1} %\n\n",
        facts.device_kind,
        plural(facts.samples as u64, "sample"),
        plural(facts.rows as u64, "row"),
        plural(facts.workloads as u64, "workload"),
        plural(facts.machines.len() as u64, "machine"),
        facts.mape,
        facts.median_ape,
    );
    let mut table = Table::headed("kind|#samples|#workloads|#median %");
    for (kind, known) in &facts.kinds {
        table.row([
            Cell::from(kind.as_str()),
            known.samples.to_string().into(),
            known.workloads.to_string().into(),
            number(known.median_ape, 1),
        ]);
    }
    text += &table.render(style);
    text.push('\n');
    text += &reservations(facts, USUAL_LEVEL);
    let _ = writeln!(text, "model in {}", out.display());
    text
}

/// The list of features as Markdown.
pub fn features_markdown() -> String {
    let mut text = format!("Version {FEATURE_VERSION}, {} features.\n", FEATURES.len());
    for (scope, title) in [
        (Scope::Kind, "What is computed, apart from its size"),
        (Scope::Size, "Sizes of the problem"),
        (Scope::Total, "Totals of the scheduled loops"),
        (Scope::Tile, "Tiles, blocks and steps"),
        (Scope::Code, "The code that was emitted"),
        (Scope::Counted, "What was counted of the kernel"),
        (
            Scope::Foreign,
            "How it fills a device that was not trained on",
        ),
        (Scope::Machine, "Where it runs"),
        (Scope::State, "How the machine was meanwhile"),
    ] {
        let _ = write!(
            text,
            "\n### {title}\n\n| feature | meaning |\n| --- | --- |\n"
        );
        for feature in FEATURES.iter().filter(|f| f.scope == scope) {
            let _ = writeln!(text, "| `{}` | {} |", feature.name, feature.doc);
        }
    }
    text
}

/// The gain of a few measurements on a new machine.
pub fn gain(gain: &Gain) -> String {
    let named = |(name, share): &(String, f64)| format!("{name} {:.0} %", 100.0 * share);
    let alike = match gain.alike.as_slice() {
        _ if gain.measurements == 0 => String::new(),
        [] | [_] => String::new(),
        several => format!(
            "corrections are to what the model predicts of the machines alike: {}\n",
            several.iter().map(named).collect::<Vec<_>>().join(", ")
        ),
    };
    let [old, factor, corrected, trees, rates, alone] = gain.shares.map(|share| 100.0 * share);
    format!(
        "{} chosen, mean error on the other {}:\n\
         {:>8.1} %  the model as it is\n\
         {:>8.1} %  with one factor\n\
         {:>8} %  a model of these measurements alone\n\
         {:>8.1} %  adapted: {old:.0} % as it is, {factor:.0} % with one factor, {corrected:.0} % corrected by level, intensity and \
         kind,\n{:>12}{trees:.0} % by trees, too, {rates:.0} % by rates, {alone:.0} % from the measurements alone\n\
         {:>8.1} %  adapted by as many at random\n\
         {alike}",
        plural(gain.measurements as u64, "measurement"),
        gain.held_out,
        gain.zero_shot_mape,
        gain.one_factor_mape,
        optional(gain.afresh_mape, 1),
        gain.adapted_mape,
        "",
        gain.random_mape,
    )
}
