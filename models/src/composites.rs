//! Composite operators: sequences of operators that a user counts as one, as a table in TOML.
//!
//! ```toml
//! [[composite]]
//! name = "attention"             # what lists and rows call it
//! operators = ["batch_matmul", "multiply", "softmax", "batch_matmul"]
//! ```
//!
//! Owns the file's form and the checks that need no model. A sequence may name another composite of the table, which
//! means that composite's sequence. The importer knows the operators, and finds a sequence in a model
//! (`opbench_import/composites.py`).

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use opdata::line_of;
use serde::{Deserialize, Serialize};
use toml::Spanned;

use crate::error::{ImportError, Result};
use crate::files;

/// Maximum number of entries of a table.
const MOST: usize = 256;
/// Maximum number of operators in one sequence, with those of the composites that it names.
const LONGEST: usize = 64;
/// Maximum number of characters of a name.
const LONGEST_NAME: usize = 64;

/// A table of composites.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Composites {
    /// The file that it was read from.
    pub file: PathBuf,
    /// Its entries, the longest sequence first: one that names another is longer than that.
    pub table: Vec<Composite>,
}

/// One entry of the table.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Composite {
    /// Its name.
    pub name: String,
    /// The operators, in the order in which they are computed, without the names of other composites.
    pub operators: Vec<String>,
    /// Its line in the file, from 1.
    pub line: usize,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Raw {
    #[serde(default)]
    composite: Vec<Spanned<RawComposite>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawComposite {
    name: Spanned<String>,
    operators: Spanned<Vec<String>>,
}

impl Composites {
    /// Reads a table.
    ///
    /// # Errors
    /// Fails if there is no such file, or with [`ImportError::BadComposites`], the line and the reason.
    pub fn read(path: &Path) -> Result<Composites> {
        Composites::parse(path, &files::read_text(path)?)
    }

    /// Reads a table's text; `path` names it.
    ///
    /// # Errors
    /// Fails with [`ImportError::BadComposites`].
    pub fn parse(path: &Path, text: &str) -> Result<Composites> {
        let wrong = |line: usize, reason: String| ImportError::BadComposites {
            message: format!("{}:{line}: {reason}", path.display()),
        };
        let raw: Raw = toml::from_str(text).map_err(|error| {
            let offset = error.span().map_or(0, |span| span.start);
            wrong(line_of(text, offset), error.message().replace('\n', ", "))
        })?;
        let entries = Entries::new(&raw, text).map_err(|(line, reason)| wrong(line, reason))?;
        let table = entries
            .flat()
            .map_err(|(line, reason)| wrong(line, reason))?;
        Ok(Composites {
            file: path.to_path_buf(),
            table,
        })
    }

    /// Whether there are no composites.
    pub fn is_empty(&self) -> bool {
        self.table.is_empty()
    }

    /// Composites that no operator of a model is named after: their sequences do not occur in it.
    pub fn absent<'a>(&'a self, operators: &[crate::graph::Operator]) -> Vec<&'a str> {
        let names = self.table.iter().map(|composite| composite.name.as_str());
        names
            .filter(|name| operators.iter().all(|operator| operator.name != **name))
            .collect()
    }
}

/// A reason with its line.
type Wrong = (usize, String);

/// The entries as the file has them, by name.
struct Entries<'a> {
    by_name: BTreeMap<&'a str, (usize, &'a [String])>,
}

impl<'a> Entries<'a> {
    /// The entries of a file, each checked by itself.
    fn new(raw: &'a Raw, text: &str) -> Result<Entries<'a>, Wrong> {
        if raw.composite.is_empty() {
            let form = "[[composite]] with name = \"…\" and operators = [\"…\", \"…\"]";
            return Err((1, format!("the table is empty; add {form}")));
        }
        if let Some(extra) = raw.composite.get(MOST) {
            let line = line_of(text, extra.span().start);
            return Err((line, format!("more than {MOST} composites; take fewer")));
        }
        let mut by_name: BTreeMap<&str, (usize, &[String])> = BTreeMap::new();
        for entry in &raw.composite {
            let entry = entry.get_ref();
            let name = entry.name.get_ref().as_str();
            let line = line_of(text, entry.name.span().start);
            if !is_name(name) {
                let rule = format!(
                    "a small letter, then small letters, digits and _, at most {LONGEST_NAME}"
                );
                return Err((line, format!("composite '{name}': its name must be {rule}")));
            }
            if let Some((earlier, _)) = by_name.get(name) {
                let reason = format!(
                    "composite '{name}' is in line {earlier} already; give it another name"
                );
                return Err((line, reason));
            }
            let operators = entry.operators.get_ref().as_slice();
            if operators.len() < 2 {
                let found = match operators {
                    [] => "its sequence is empty",
                    _ => "one operator is no sequence",
                };
                let at = line_of(text, entry.operators.span().start);
                return Err((
                    at,
                    format!("composite '{name}': {found}; name two operators or more"),
                ));
            }
            by_name.insert(name, (line, operators));
        }
        Ok(Entries { by_name })
    }

    /// The sequences without the names of other composites, the longest first.
    fn flat(&self) -> Result<Vec<Composite>, Wrong> {
        let mut table = Vec::new();
        for (name, (line, _)) in &self.by_name {
            table.push(Composite {
                name: (*name).to_owned(),
                operators: self.sequence(name, &mut Vec::new())?,
                line: *line,
            });
        }
        table.sort_by_key(|composite| (usize::MAX - composite.operators.len(), composite.line));
        for (index, long) in table.iter().enumerate() {
            for short in &table[index + 1..] {
                self.require_apart(long, short)?;
            }
        }
        Ok(table)
    }

    /// The whole sequence of an entry; `open` are the entries that lead to it.
    fn sequence(&self, name: &'a str, open: &mut Vec<&'a str>) -> Result<Vec<String>, Wrong> {
        let (line, operators) = self.by_name[name];
        if open.contains(&name) {
            let circle = [open.as_slice(), &[name]].concat().join(" → ");
            return Err((
                line,
                format!("composite '{name}' contains itself: {circle}"),
            ));
        }
        open.push(name);
        let mut whole = Vec::new();
        for operator in operators {
            match self.by_name.get_key_value(operator.as_str()) {
                Some((other, _)) => whole.extend(self.sequence(other, open)?),
                None => whole.push(operator.clone()),
            }
            if whole.len() > LONGEST {
                let reason =
                    format!("composite '{name}' has more than {LONGEST} operators; split it");
                return Err((line, reason));
            }
        }
        open.pop();
        Ok(whole)
    }

    /// Refuses a sequence that contains another one without naming it: either would match there.
    fn require_apart(&self, long: &Composite, short: &Composite) -> Result<(), Wrong> {
        let contains = |part: &[String]| part == short.operators.as_slice();
        let overlap = long.operators.windows(short.operators.len()).any(contains);
        if !overlap || self.names(&long.name, &short.name) {
            return Ok(());
        }
        let (first, second) = if long.line < short.line {
            (long, short)
        } else {
            (short, long)
        };
        let next = if long.operators == short.operators {
            "leave one out".to_owned()
        } else {
            format!(
                "write \"{}\" in '{}' in place of that sequence",
                short.name, long.name
            )
        };
        let reason = format!(
            "composites '{}' and '{}' (line {}) match the same operators ({}); {next}",
            second.name,
            first.name,
            first.line,
            short.operators.join(", ")
        );
        Err((second.line, reason))
    }

    /// Whether an entry names another, itself or through one that it names.
    fn names(&self, long: &str, short: &str) -> bool {
        let (_, operators) = self.by_name[long];
        operators.iter().any(|operator| {
            operator == short
                || self.by_name.contains_key(operator.as_str()) && self.names(operator, short)
        })
    }
}

/// Whether a name can stand in lists, rows and generated code.
fn is_name(name: &str) -> bool {
    let inner = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    name.starts_with(|c: char| c.is_ascii_lowercase())
        && name.chars().all(inner)
        && name.len() <= LONGEST_NAME
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn parse(text: &str) -> Result<Composites> {
        Composites::parse(Path::new("own.toml"), text)
    }

    fn refusal(text: &str) -> String {
        parse(text).unwrap_err().to_string()
    }

    fn entry(name: &str, operators: &[&str]) -> String {
        format!("[[composite]]\nname = {name:?}\noperators = {operators:?}\n")
    }

    #[test]
    fn a_composite_may_consist_of_others() {
        let text = entry("block", &["head", "relu"]) + &entry("head", &["dense", "add"]);
        let table = parse(&text).unwrap().table;
        let found: Vec<(&str, String, usize)> = table
            .iter()
            .map(|c| (c.name.as_str(), c.operators.join(" "), c.line))
            .collect();
        assert_eq!(
            found,
            [
                ("block", "dense add relu".to_owned(), 2),
                ("head", "dense add".to_owned(), 5)
            ]
        );
    }

    #[test]
    fn wrong_tables_are_refused_with_line_and_reason() {
        insta::assert_snapshot!(refusal(""), @"own.toml:1: the table is empty; add [[composite]] with name = \"…\" and operators = [\"…\", \"…\"]");
        insta::assert_snapshot!(refusal(&entry("a", &[])), @"own.toml:3: composite 'a': its sequence is empty; name two operators or more");
        insta::assert_snapshot!(refusal(&entry("a", &["add"])), @"own.toml:3: composite 'a': one operator is no sequence; name two operators or more");
        insta::assert_snapshot!(refusal(&entry("A b", &["add", "relu"])), @"own.toml:2: composite 'A b': its name must be a small letter, then small letters, digits and _, at most 64");
        let twice = entry("a", &["add", "relu"]) + &entry("a", &["dense", "add"]);
        insta::assert_snapshot!(refusal(&twice), @"own.toml:5: composite 'a' is in line 2 already; give it another name");
        let circle = entry("a", &["b", "relu"]) + &entry("b", &["add", "a"]);
        insta::assert_snapshot!(refusal(&circle), @"own.toml:2: composite 'a' contains itself: a → b → a");
        let same = entry("a", &["add", "relu"]) + &entry("b", &["add", "relu"]);
        insta::assert_snapshot!(refusal(&same), @"own.toml:5: composites 'b' and 'a' (line 2) match the same operators (add, relu); leave one out");
        let within = entry("a", &["add", "relu"]) + &entry("b", &["dense", "add", "relu"]);
        insta::assert_snapshot!(refusal(&within), @"own.toml:5: composites 'b' and 'a' (line 2) match the same operators (add, relu); write \"a\" in 'b' in place of that sequence");
        assert!(parse(&(entry("a", &["add", "relu"]) + &entry("b", &["dense", "a"]))).is_ok());
        assert!(
            refusal("[[composite]]\nname = \"a\"\noperators = 3\n").starts_with("own.toml:3: ")
        );
        assert!(refusal("[[composite]]\nname = \"a\"\nops = []\n").contains("unknown field"));
        assert!(refusal("[[composite\n").starts_with("own.toml:1: "));
    }

    #[test]
    fn sequences_cannot_grow_without_bound() {
        let names: Vec<String> = (0..20).map(|i| format!("c{i}")).collect();
        let mut text = entry("c0", &["add", "relu"]);
        for pair in names.windows(2) {
            text += &entry(&pair[1], &[&pair[0], &pair[0]]);
        }
        assert!(refusal(&text).contains("more than 64 operators"));
    }

    proptest! {
        #[test]
        fn no_text_panics(text in ".{0,80}") {
            let _ = parse(&text);
        }
    }
}
