//! Frequent values of flags, which help texts and completions show.

use std::sync::LazyLock;

use clap::builder::{PossibleValue, TypedValueParser};
use opengine::device;

/// Accepts any text, but shows the usual values in the help and to completions. The real check is made in `plan`, whose
/// errors are more precise.
#[derive(Debug, Clone, Copy)]
pub(super) struct Suggest(pub(super) &'static [&'static str]);

impl Suggest {
    /// The targets of this build.
    pub fn targets() -> Suggest {
        static NAMES: LazyLock<Vec<&'static str>> =
            LazyLock::new(|| device::ALL.iter().map(|device| device.name()).collect());
        Suggest(&NAMES)
    }
}

impl TypedValueParser for Suggest {
    type Value = String;

    fn parse_ref(
        &self,
        command: &clap::Command,
        arg: Option<&clap::Arg>,
        value: &std::ffi::OsStr,
    ) -> Result<String, clap::Error> {
        clap::builder::StringValueParser::new().parse_ref(command, arg, value)
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        Some(Box::new(self.0.iter().map(PossibleValue::new)))
    }
}
