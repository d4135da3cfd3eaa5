//! The machine that a log's target names.

/// The options of a target that tell machines apart; others (`-keys`, `-link-params`, `-max_num_threads`, …) say how code
/// is generated, or what follows from these.
const TELLING: [&str; 6] = ["arch", "device", "mattr", "mcpu", "model", "mtriple"];

/// The machine of a target in its text form: the kind, then the options that tell machines apart, in alphabetical
/// order. `cuda -keys=cuda,gpu -arch=sm_75` is `cuda -arch=sm_75`. A text of another form is returned as it is.
pub fn machine_of_target(target: &str) -> String {
    let mut words = target.split_whitespace();
    let Some(kind) = words.next().filter(|kind| !kind.starts_with(['{', '"'])) else {
        return target.to_owned();
    };
    let mut options: Vec<&str> = words
        .filter(|word| {
            word.trim_start_matches('-')
                .split_once('=')
                .is_some_and(|(key, value)| TELLING.contains(&key) && value != "unknown")
        })
        .collect();
    options.sort_unstable();
    options.dedup();
    options.insert(0, kind);
    options.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_that_do_not_change_the_machine_do_not_name_it() {
        for (target, machine) in [
            (
                "cuda -keys=cuda,gpu -arch=sm_75 -max_num_threads=1024",
                "cuda -arch=sm_75",
            ),
            ("cuda -arch=sm_75 -model=unknown", "cuda -arch=sm_75"),
            ("llvm -keys=cpu -link-params=0", "llvm"),
            (
                "llvm -mcpu=skylake -device=a",
                "llvm -device=a -mcpu=skylake",
            ),
            ("", ""),
        ] {
            assert_eq!(machine_of_target(target), machine);
        }
    }
}
