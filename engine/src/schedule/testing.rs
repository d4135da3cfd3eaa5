//! Helpers that the tests of schedules share.

use tvm_bridge::PrimFunc;

/// The loops and blocks of a function, without what the blocks compute.
pub(crate) fn nest(function: &PrimFunc) -> String {
    let script = function.script().unwrap();
    let is_structure = |line: &&str| {
        let line = line.trim_start();
        line.starts_with("for ") || line.starts_with("with T.sblock(\"")
    };
    let lines: Vec<&str> = script.lines().filter(is_structure).collect();
    let indent = |line: &str| line.len() - line.trim_start().len();
    let outermost = lines.iter().map(|line| indent(line)).min().unwrap_or(0);
    let shortened = lines.iter().map(|line| {
        let depth = (indent(line) - outermost) / 4;
        let text = line.trim().trim_end_matches(':').replace("T.", "");
        format!(
            "{}{}",
            "  ".repeat(depth),
            text.replace("with sblock", "block")
        )
    });
    shortened.collect::<Vec<_>>().join("\n")
}
