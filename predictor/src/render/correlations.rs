//! Factors of each kind of operator, strongest first.

use std::fmt::Write;

use opreport::Style;
use opreport::table::{Cell, Table};

use super::{number, optional};
use crate::correlate::KindReport;

/// The strongest factors of each kind, and below its table what the model predicts along the strongest ones.
pub fn correlations(kinds: &[KindReport], factors: usize, style: Style) -> String {
    let mut text = String::new();
    for kind in kinds {
        let _ = writeln!(text, "{} ({} samples)", kind.kind, kind.samples);
        let mut table =
            Table::headed("factor|#Pearson|#Spearman|#Kendall|#distance|#bits|#p (corr.)");
        let mut predicted = String::new();
        for f in kind.factors.iter().take(factors) {
            table.row([
                Cell::from(f.factor.clone()),
                optional(f.pearson, 2).into(),
                optional(f.spearman, 2).into(),
                optional(f.kendall, 2).into(),
                optional(f.distance, 2).into(),
                number(f.mutual_bits, 2),
                number(f.p_spearman.min(f.p_mutual), 3),
            ]);
            if !f.partial.is_empty() {
                let shown: Vec<String> = f
                    .partial
                    .iter()
                    .map(|d| format!("{:.1}: ×{:.2}", d.value, d.factor))
                    .collect();
                let _ = writeln!(predicted, "{} predicted at {}", f.factor, shown.join(", "));
            }
        }
        text += &table.render(style);
        text += &predicted;
        text.push('\n');
    }
    text
}
