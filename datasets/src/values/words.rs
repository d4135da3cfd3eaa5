//! The closed vocabularies of the schema: outcome, cache state, quality grade.
//!
//! Words are lower case with underscores (grades: one capital letter) and never change meaning
//! within a schema version.

use std::fmt;
use std::str::FromStr;

use crate::cell::{ColumnType, text_field};

/// Declares an enum with one word for each variant.
macro_rules! words {
    (
        $(#[$outer:meta])*
        $name:ident, $what:literal {
            $( $(#[doc = $doc:literal])+ $variant:ident = $word:literal, )+
        }
    ) => {
        $(#[$outer])*
        #[derive(
            Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash,
            serde::Serialize, serde::Deserialize,
        )]
        pub enum $name {
            $( $(#[doc = $doc])+ #[serde(rename = $word)] $variant, )+
        }

        impl $name {
            /// Every variant, in the order of the declaration.
            pub const ALL: &'static [Self] = &[$( Self::$variant, )+];
            /// Every word, in the order of [`Self::ALL`].
            pub const WORDS: &'static [&'static str] = &[$( $word, )+];

            /// The word in the dataset.
            pub const fn as_str(self) -> &'static str {
                match self {
                    $( Self::$variant => $word, )+
                }
            }

            /// What the word means.
            pub const fn meaning(self) -> &'static str {
                match self {
                    $( Self::$variant => concat!($( $doc ),+).trim_ascii(), )+
                }
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(self.as_str())
            }
        }

        impl FromStr for $name {
            type Err = String;

            fn from_str(text: &str) -> Result<Self, String> {
                Self::ALL
                    .iter()
                    .copied()
                    .find(|value| value.as_str() == text)
                    .ok_or_else(|| format!(
                        concat!("expected ", $what, " (one of {}), found `{}`"),
                        Self::WORDS.join(", "),
                        crate::cell::excerpt(text),
                    ))
            }
        }

        impl crate::cell::Initial for $name {
            fn initial() -> Self {
                Self::ALL[0]
            }
        }

        text_field!($name, ColumnType::Word(Self::WORDS));
    };
}

words! {
    /// How a point ended.
    Status, "a status" {
        /// The kernel's output was checked and its time taken.
        Measured = "measured",
        /// The kernel's output was checked and its time simulated: nothing was measured.
        Simulated = "simulated",
        /// No kernel came out of the compiler.
        CompileFailed = "compile_failed",
        /// The kernel's output differs from the reference beyond the tolerance.
        WrongResult = "wrong_result",
        /// Building or running it took longer than allowed.
        TimedOut = "timed_out",
        /// The worker died building or running it.
        Crashed = "crashed",
        /// The target or the tool cannot do this point.
        Unsupported = "unsupported",
        /// The point was left out on purpose.
        Skipped = "skipped",
        /// The kernel was compiled and, as asked, not run: it has no time, and its output was not checked.
        Compiled = "compiled",
    }
}

impl Status {
    /// Whether such a point has a time: it was measured or simulated.
    pub const fn has_time(self) -> bool {
        matches!(self, Status::Measured | Status::Simulated)
    }
}

words! {
    /// State of the caches when a sample began.
    CacheState, "a cache state" {
        /// As inside the model: as many bytes have passed since the weights and the model's inputs were last read and the outputs' memory was last used. On virtual machines, more than 4 MB with other operators in between counts as at least 64 MiB, because neighbours use the last-level cache. With several threads each has written a share of the activations.
        Model = "model",
        /// The arguments were left where the run before put them.
        Hot = "hot",
        /// The arguments were evicted from every cache before each sample.
        Flushed = "flushed",
    }
}

words! {
    /// The grade of a measurement, from its spread, slowdown and number of samples.
    Quality, "a quality grade" {
        /// Narrow interval, no slowdown: good for comparisons of a few percent.
        A = "A",
        /// Good for fitting.
        B = "B",
        /// Usable with care.
        C = "C",
        /// Noisy, or measured under interference: measure again before relying on it.
        D = "D",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_read_back_and_strangers_are_named() {
        for &status in Status::ALL {
            assert_eq!(status.as_str().parse(), Ok(status));
        }
        let error = "lukewarm".parse::<CacheState>().unwrap_err();
        assert_eq!(
            error,
            "expected a cache state (one of model, hot, flushed), found `lukewarm`"
        );
    }
}
