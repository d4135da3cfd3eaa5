//! The kind of device that a point ran on: an open word, so that a new device needs no change here.
//!
//! A kind is a lower-case name (`cpu`, `cuda`, …). The constants are the kinds whose meaning the schema documents. A
//! program that measures on another device writes its own word, and every reader keeps it.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;
use std::sync::Mutex;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use crate::cell::{ColumnType, Initial, excerpt, text_field};

/// Longest word of a kind, in bytes.
const MAX_BYTES: usize = 32;
/// Most kinds, beside the documented ones, that one process reads. Their words are kept for its whole life.
const MAX_OTHER_KINDS: usize = 256;

/// The kind of device a point ran on.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DeviceKind(&'static str);

/// The documented kinds: a constant each, its word and what it means.
macro_rules! documented {
    ($($constant:ident = $word:literal, $meaning:literal;)*) => {
        impl DeviceKind {
            $(#[doc = $meaning] pub const $constant: Self = Self($word);)*
            /// The words of the documented kinds.
            pub const WORDS: &'static [&'static str] = &[$($word),*];
            /// The documented kinds and what they mean.
            pub const DOCUMENTED: &'static [(Self, &'static str)] = &[$((Self::$constant, $meaning)),*];
        }
    };
}

documented! {
    CPU = "cpu", "A general-purpose processor.";
    CUDA = "cuda", "An NVIDIA GPU.";
    PYNQ = "pynq", "A PYNQ board (ARM with VTA).";
    TPU = "tpu", "A Sophgo TPU.";
    VTA_SIM = "vta-sim", "VTA, the accelerator of a PYNQ board, simulated.";
}

impl DeviceKind {
    /// The kind that a device of this program calls itself: lower-case letters, digits, `_` and `-`.
    pub const fn named(word: &'static str) -> Self {
        Self(word)
    }

    /// The word in the dataset.
    pub const fn as_str(self) -> &'static str {
        self.0
    }

    /// The kind of device that a target of TVM is for (`llvm -mcpu=znver4`, `cuda`). `None` if no documented kind has
    /// such targets.
    pub fn of_target(target: &str) -> Option<Self> {
        match target.split_whitespace().next()? {
            "llvm" | "c" => Some(Self::CPU),
            "cuda" => Some(Self::CUDA),
            "ext_dev" => Some(Self::PYNQ),
            _ => None,
        }
    }
}

impl FromStr for DeviceKind {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        static OTHERS: Mutex<BTreeSet<&'static str>> = Mutex::new(BTreeSet::new());
        if let Some(word) = Self::WORDS.iter().find(|word| **word == text) {
            return Ok(Self(word));
        }
        let is_name =
            |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"_-".contains(&byte);
        if text.is_empty() || text.len() > MAX_BYTES || !text.bytes().all(is_name) {
            return Err(format!(
                "expected a device kind ({}, or another lower-case name of at most {MAX_BYTES} bytes), found `{}`",
                Self::WORDS.join(", "),
                excerpt(text),
            ));
        }
        let mut others = OTHERS
            .lock()
            .map_err(|_| "another thread panicked".to_owned())?;
        if let Some(word) = others.get(text) {
            return Ok(Self(word));
        }
        if others.len() >= MAX_OTHER_KINDS {
            return Err(format!(
                "more than {MAX_OTHER_KINDS} device kinds; `{text}` is one too many"
            ));
        }
        let word: &'static str = Box::leak(text.to_owned().into_boxed_str());
        others.insert(word);
        Ok(Self(word))
    }
}

impl fmt::Debug for DeviceKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

impl fmt::Display for DeviceKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.0)
    }
}

impl Serialize for DeviceKind {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.0)
    }
}

impl<'de> Deserialize<'de> for DeviceKind {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?
            .parse()
            .map_err(de::Error::custom)
    }
}

impl Initial for DeviceKind {
    fn initial() -> Self {
        Self::CPU
    }
}

text_field!(DeviceKind, ColumnType::Word(DeviceKind::WORDS));

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_name_their_device() {
        for (target, kind) in [
            ("llvm -mcpu=znver4", Some(DeviceKind::CPU)),
            ("cuda", Some(DeviceKind::CUDA)),
            ("ext_dev -device=vta", Some(DeviceKind::PYNQ)),
            ("opencl", None),
            ("", None),
        ] {
            assert_eq!(DeviceKind::of_target(target), kind, "{target}");
        }
    }

    #[test]
    fn a_kind_that_nobody_documented_reads_back_as_itself() {
        let read = |text: &str| text.parse::<DeviceKind>();
        assert_eq!(read("abacus-2"), Ok(DeviceKind::named("abacus-2")));
        assert_eq!(read("cuda"), Ok(DeviceKind::CUDA));
        let json = serde_json::to_string(&read("abacus-2").unwrap()).unwrap();
        assert_eq!(
            serde_json::from_str::<DeviceKind>(&json).unwrap().as_str(),
            "abacus-2"
        );
        for wrong in ["", "GPU", "a b", "é", &"x".repeat(33)] {
            let error = read(wrong).unwrap_err();
            assert!(
                error.contains("expected a device kind (cpu, cuda, pynq, tpu"),
                "{error}"
            );
        }
    }
}
