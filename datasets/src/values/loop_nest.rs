//! The iteration space of an operator: `ff:64:s,yy:56:s,rc:64:r`.
//!
//! One entry a loop, outermost first: name, extent, and `s` (spatial) or `r` (reduction).

use std::fmt;
use std::str::FromStr;

use crate::cell::{ColumnType, excerpt, text_field};

/// What a loop runs over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum LoopKind {
    /// An axis of the output.
    Spatial,
    /// An axis that is summed, maximised or otherwise reduced away.
    Reduction,
}

/// One loop of the iteration space.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Loop {
    name: String,
    /// The number of iterations.
    pub extent: u64,
    /// What the loop runs over.
    pub kind: LoopKind,
}

impl Loop {
    /// A loop; characters of the name that would break the text form become `_`.
    pub fn new(name: &str, extent: u64, kind: LoopKind) -> Self {
        let mut one = Self {
            name: String::new(),
            extent,
            kind,
        };
        one.rename(name);
        one
    }

    fn rename(&mut self, name: &str) {
        self.name.clear();
        if name.is_empty() {
            self.name.push('_');
        } else if name.bytes().all(|b| b.is_ascii_alphanumeric()) {
            self.name.push_str(name);
        } else {
            let fits = |c: char| c.is_alphanumeric() || matches!(c, '.' | '_');
            let fitting = name.chars().map(|c| if fits(c) { c } else { '_' });
            self.name.extend(fitting);
        }
    }

    /// The loop variable's name.
    pub fn name(&self) -> &str {
        &self.name
    }
}

/// Loops, outermost first. An empty nest is the same as a missing cell.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct LoopNest(pub Vec<Loop>);

impl FromIterator<Loop> for LoopNest {
    fn from_iter<I: IntoIterator<Item = Loop>>(loops: I) -> Self {
        Self(loops.into_iter().collect())
    }
}

impl fmt::Display for LoopNest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().enumerate().try_for_each(|(position, one)| {
            let separator = if position == 0 { "" } else { "," };
            let kind = match one.kind {
                LoopKind::Spatial => 's',
                LoopKind::Reduction => 'r',
            };
            write!(f, "{separator}{}:{}:{kind}", one.name, one.extent)
        })
    }
}

impl FromStr for LoopNest {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut nest = Self::default();
        nest.become_that_of(text)?;
        Ok(nest)
    }
}

impl LoopNest {
    /// Replaces the loops by those of a text.
    fn become_that_of(&mut self, text: &str) -> Result<(), String> {
        let mut count = 0;
        for entry in text.split(',') {
            let (name, extent, kind) = parts(entry).ok_or_else(|| {
                format!(
                    "expected loops like `ff:64:s,rc:64:r`, found `{}`",
                    excerpt(entry)
                )
            })?;
            match self.0.get_mut(count) {
                Some(one) => {
                    one.rename(name);
                    (one.extent, one.kind) = (extent, kind);
                }
                None => self.0.push(Loop::new(name, extent, kind)),
            }
            count += 1;
        }
        self.0.truncate(count);
        Ok(())
    }
}

/// Name, extent and kind of an entry.
fn parts(entry: &str) -> Option<(&str, u64, LoopKind)> {
    let mut parts = entry.split(':');
    let (name, extent, kind) = (parts.next()?, parts.next()?, parts.next()?);
    let kind = match kind {
        "s" => LoopKind::Spatial,
        "r" => LoopKind::Reduction,
        _ => return None,
    };
    if name.is_empty() || parts.next().is_some() {
        return None;
    }
    Some((name, extent.parse().ok()?, kind))
}

text_field!(LoopNest, ColumnType::LoopNest, become_that_of);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_nest_reads_back() {
        let nest = LoopNest(vec![
            Loop::new("ff", 64, LoopKind::Spatial),
            Loop::new("r,c:1", 3, LoopKind::Reduction),
            Loop::new("", 1, LoopKind::Spatial),
        ]);
        assert_eq!(nest.to_string(), "ff:64:s,r_c_1:3:r,_:1:s");
        assert_eq!(nest.to_string().parse(), Ok(nest));
    }

    #[test]
    fn damaged_nests_are_refused() {
        for text in [
            "ff:64",
            "ff:64:x",
            "ff:-1:s",
            ":64:s",
            "ff:64:s,",
            "ff:64:s:s",
        ] {
            assert!(text.parse::<LoopNest>().is_err(), "{text}");
        }
    }
}
