//! `plan --candidates`: the number of points written, and where.

use opreport::units;

use crate::preview::Listed;

/// One line for the terminal.
pub fn candidates_text(listed: &Listed) -> String {
    let folder = listed.folder.display();
    format!(
        "{} of {} in {folder}; `oppredict suggest runs/* --candidates {folder} --budget 1h --out plan.toml` chooses from them\n",
        units::plural(listed.points, "point"),
        units::plural(listed.operators, "operator"),
    )
}
