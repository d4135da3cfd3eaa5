//! `opcollect compare` of three or more runs: the best first.

use opreport::table::{Column, Table};
use opreport::{Style, units};

use super::compare::interval;
use crate::compare::Ranking;

/// The ranking as text.
pub fn ranking_text(ranking: &Ranking, style: Style) -> String {
    table(ranking).render(style) + "\n" + &closing(ranking)
}

/// The ranking in Markdown.
pub fn ranking_markdown(ranking: &Ranking) -> String {
    table(ranking).markdown() + "\n" + &closing(ranking)
}

fn table(ranking: &Ranking) -> Table {
    let mut table = Table::new(&[
        Column::left("run").shrinks_to(20),
        Column::right("rank"),
        Column::right("time over base"),
        Column::left("95 % interval").hides(0),
        Column::right("whole models").only_if_filled(),
        Column::right("slower"),
        Column::right("faster"),
    ]);
    for (place, run) in ranking.runs.iter().enumerate() {
        let ratio = run.ratio.as_ref();
        let number = |value: Option<f64>| value.map_or_else(String::new, |v| format!("{v:.3}"));
        let is_base = run.path == ranking.base;
        let count = |n: u64| {
            if is_base {
                "base".to_owned()
            } else {
                n.to_string()
            }
        };
        table.row([
            run.path.display().to_string().into(),
            (place + 1).to_string().into(),
            number(ratio.map(|r| r.value)).into(),
            ratio.and_then(interval).unwrap_or_default().into(),
            number(run.whole_models).into(),
            count(run.slower).into(),
            count(run.faster).into(),
        ]);
    }
    table
}

fn closing(ranking: &Ranking) -> String {
    format!(
        "geometric means over {} that every run measured; slower and faster: surely, and by more than {}\n",
        units::plural(ranking.points, "point"),
        units::percent(ranking.threshold)
    )
}
