//! The table of settings: one row a setting, from which the layers, the check of unknown keys and
//! `--print-config` all work. A test holds it together with the command line's flags.

/// Number of values that a setting takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Arity {
    /// One value.
    One,
    /// Any number: repeated flags, a comma-separated variable, a TOML list.
    List,
    /// `true` or `false`; the bare flag means `true`.
    Switch,
}

/// One setting.
#[derive(Debug, Clone, Copy)]
pub struct Setting {
    /// Its name: flag `--key`, TOML key `key`, variable `OPCOLLECT_KEY`.
    pub key: &'static str,
    /// Number of values that it takes.
    pub arity: Arity,
    /// The default, as it would be written on the command line; `None` for no value.
    pub default: Option<&'static str>,
}

const fn one(key: &'static str, default: Option<&'static str>) -> Setting {
    Setting {
        key,
        arity: Arity::One,
        default,
    }
}

const fn list(key: &'static str, default: Option<&'static str>) -> Setting {
    Setting {
        key,
        arity: Arity::List,
        default,
    }
}

const fn switch(key: &'static str) -> Setting {
    Setting {
        key,
        arity: Arity::Switch,
        default: Some("false"),
    }
}

/// All settings, in the order of `--print-config`.
pub const SETTINGS: &[Setting] = &[
    one("modelsource", Some("local")),
    one("modelname", None),
    one("batchsize", None),
    one("seqlen", None),
    list("input", None),
    one("hidden", None),
    one("layers", None),
    one("heads", None),
    one("intermediate", None),
    one("model-config", None),
    one("fusion", Some("full")),
    one("composites", None),
    one("target", Some("llvm")),
    list("arch", None),
    switch("compile-only"),
    one("keep-kernels", None),
    list("threads", Some("1,max")),
    list("cache", Some("model")),
    list("condition", None),
    list("counters", Some("auto")),
    one("sweep", None),
    one("shard", None),
    one("executor", Some("vm")),
    one("whole-model", Some("measure")),
    one("seed", Some("0")),
    one("ci", Some("3%")),
    one("budget", Some("1s")),
    one("warmup", Some("3")),
    one("min-samples", Some("10")),
    one("max-samples", Some("1000")),
    one("number", Some("auto")),
    one("remeasure-budget", Some("0.5")),
    one("compile-timeout", Some("120s")),
    one("timeout", Some("60s")),
    one("memory-limit", Some("8GiB")),
    one("max-statements", Some("8192")),
    one("time-budget", None),
    one("max-failed", Some("0")),
    one("name", None),
    one("note", None),
    list("tag", None),
    one("export-markdown", None),
    one("out", None),
    one("python", None),
    one("host", None),
    one("port", Some("9190")),
    one("key", None),
    switch("iftune"),
    switch("ifcompare"),
    switch("ifpartial"),
    list("tuner", Some("auto")),
    one("trials", Some("64")),
    list("history", None),
    one("store", Some("auto")),
];

/// Variables of TVM's own tools that say where a tracker is, and their settings; alone they make no run one of another
/// machine.
pub const TRACKER_VARIABLES: [(&str, &str); 2] =
    [("TVM_TRACKER_HOST", "host"), ("TVM_TRACKER_PORT", "port")];

/// Prefix of the environment variables that are settings.
pub(super) const ENV_PREFIX: &str = "OPCOLLECT_";

/// The environment variable of a setting: `max-failed` → `OPCOLLECT_MAX_FAILED`.
pub fn env_name(key: &str) -> String {
    format!("{ENV_PREFIX}{}", key.to_ascii_uppercase().replace('-', "_"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_unique() {
        let mut keys: Vec<_> = SETTINGS.iter().map(|s| s.key).collect();
        keys.sort_unstable();
        let all = keys.len();
        keys.dedup();
        assert_eq!(keys.len(), all);
    }

    #[test]
    fn keys_have_variables() {
        assert_eq!(env_name("max-failed"), "OPCOLLECT_MAX_FAILED");
    }
}
