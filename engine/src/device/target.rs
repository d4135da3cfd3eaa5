//! Targets as users write them: the device's name and options, as in `llvm -mcpu=haswell -mattr=+avx2,-fma`.

use opdata::contract::Environment;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::DeviceRef;

/// The target of a compilation, as the user wrote it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Written")]
pub struct Target {
    /// The device.
    #[serde(rename = "kind")]
    pub device: DeviceRef,
    /// All options of the device by name: null or an empty list where none was given.
    #[serde(flatten)]
    pub options: Map<String, Value>,
}

/// A target as a plan has it. A plan of an earlier version lacks newer options.
#[derive(Deserialize)]
struct Written {
    #[serde(rename = "kind")]
    device: DeviceRef,
    #[serde(flatten)]
    options: Map<String, Value>,
}

impl From<Written> for Target {
    fn from(written: Written) -> Target {
        let mut target = Target::plain(written.device);
        target.options.extend(written.options);
        target
    }
}

/// An option of a device's targets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TargetOption {
    /// Its name: `mcpu` for `-mcpu=NAME`.
    pub name: &'static str,
    /// Whether it takes one value or several with commas between them.
    pub arity: OptionArity,
    /// Placeholder of the value in help, e.g. `NAME`.
    pub value: &'static str,
}

impl TargetOption {
    /// An option that takes one value.
    pub const fn one(name: &'static str, value: &'static str) -> TargetOption {
        TargetOption {
            name,
            arity: OptionArity::One,
            value,
        }
    }
}

/// Number of values that an option takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OptionArity {
    /// The option takes one value.
    One,
    /// The option takes several values.
    List,
}

/// The reason why a target is invalid, as two clauses for a message.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{problem}; {next}")]
pub struct TargetProblem {
    /// Description of the fault.
    pub problem: String,
    /// How to mend the target.
    pub next: String,
}

impl Target {
    /// The target of a device without any option.
    pub fn plain(device: DeviceRef) -> Target {
        let absent = |option: &TargetOption| match option.arity {
            OptionArity::One => Value::Null,
            OptionArity::List => Value::Array(Vec::new()),
        };
        let options = device.options().iter();
        Target {
            device,
            options: options.map(|o| (o.name.to_owned(), absent(o))).collect(),
        }
    }

    /// Reads the options after a device's name. [`check`](super::DevicePlan::check) checks their values with the
    /// compiler.
    ///
    /// # Errors
    /// Fails if a word is not an option of the device, or if an option is given twice.
    pub fn parse<'a>(
        device: DeviceRef,
        words: impl Iterator<Item = &'a str>,
    ) -> Result<Target, TargetProblem> {
        let mut target = Target::plain(device);
        for word in words {
            let option = word.strip_prefix('-').and_then(|o| o.split_once('='));
            let known = option.filter(|(_, value)| !value.is_empty());
            let known = known.and_then(|(name, value)| {
                let option = device.options().iter().find(|o| o.name == name)?;
                Some((option, value))
            });
            let Some((option, text)) = known else {
                return Err(TargetProblem {
                    problem: format!("`{word}` is no option of a target here"),
                    next: options_in_words(device),
                });
            };
            if !target.values(option.name).is_empty() {
                return Err(TargetProblem {
                    problem: format!("-{} is given twice", option.name),
                    next: "leave one of them out".to_owned(),
                });
            }
            let value = match option.arity {
                OptionArity::One => Value::from(text),
                OptionArity::List => text.split(',').map(Value::from).collect(),
            };
            target.options.insert(option.name.to_owned(), value);
        }
        Ok(target)
    }

    /// The device's dictionary of the target on a machine.
    pub fn dictionary(&self, machine: &Environment) -> Value {
        self.device.dictionary(self, machine)
    }

    /// Whether an option selects the hardware.
    pub fn names_hardware(&self) -> bool {
        self.options.values().any(Value::is_string)
    }

    /// The values of an option; empty if it was not given.
    pub fn values(&self, option: &str) -> Vec<&str> {
        match self.options.get(option) {
            Some(Value::String(value)) => vec![value],
            Some(Value::Array(values)) => values.iter().filter_map(Value::as_str).collect(),
            _ => Vec::new(),
        }
    }

    /// The value of an option that takes one.
    pub fn value(&self, option: &str) -> Option<&str> {
        self.values(option).first().copied()
    }
}

fn options_in_words(device: DeviceRef) -> String {
    let options: Vec<String> = device
        .options()
        .iter()
        .map(|o| format!("-{}={}", o.name, o.value))
        .collect();
    match options.is_empty() {
        true => format!(
            "{} has no options; threads are set by --threads",
            device.name()
        ),
        false => format!(
            "options are {}; threads are set by --threads",
            options.join(" and ")
        ),
    }
}

impl std::fmt::Display for Target {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.device.name())?;
        // In the order in which the device lists them.
        for option in self.device.options() {
            let values = self.values(option.name);
            if !values.is_empty() {
                write!(f, " -{}={}", option.name, values.join(","))?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::device::named;

    fn parse(text: &str) -> Result<Target, TargetProblem> {
        Target::parse(named("llvm").unwrap(), text.split_whitespace())
    }

    #[test]
    fn targets_are_serialised_as_plans_have_them_and_shown_as_they_were_written() {
        let plain = parse("").unwrap();
        let form = json!({ "kind": "llvm", "mattr": [], "mcpu": null, "mfloat-abi": null, "mtriple": null });
        assert_eq!(serde_json::to_value(&plain).unwrap(), form);
        assert_eq!(plain.to_string(), "llvm");
        let words = "-mcpu=haswell -mattr=+avx2,-fma";
        let target = parse(words).unwrap();
        assert_eq!(target.to_string(), format!("llvm {words}"));
        let form = json!({ "kind": "llvm", "mattr": ["+avx2", "-fma"], "mcpu": "haswell" });
        assert_eq!(serde_json::from_value::<Target>(form).unwrap(), target);
    }

    #[test]
    fn words_that_are_no_options_are_refused_with_those_that_are() {
        for word in ["-mcpu", "-mcpu=", "mcpu=haswell", "-march=x", "--mcpu=x"] {
            let problem = parse(word).unwrap_err().to_string();
            assert_eq!(
                problem,
                format!(
                    "`{word}` is no option of a target here; options are -mtriple=TRIPLE and -mfloat-abi=hard|soft and -mcpu=NAME and -mattr=+FEATURE,-FEATURE; threads are set by --threads"
                )
            );
        }
    }

    #[test]
    fn an_option_is_given_once() {
        for words in ["-mcpu=haswell -mcpu=znver5", "-mattr=+fma -mattr=+avx2"] {
            let problem = parse(words).unwrap_err().to_string();
            assert!(problem.contains("is given twice"), "{problem}");
        }
    }
}
