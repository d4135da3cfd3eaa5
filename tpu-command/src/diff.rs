//! `opcollect tpu diff`: dumps compared with the first of them.

use std::io::Write as _;
use std::path::Path;

use opreport::output::print;
use opreport::{Exit, OutputFormat, Verbosity, View};
use serde_json::{Value, json};
use tpuprofile::analysis::rollup::{Filter, Grouping};
use tpuprofile::diff::{Diff, diff, table, text};
use tpuprofile::{IngestOptions, Profile, ingest};

/// A dump, and others compared with it.
pub(crate) struct Comparison {
    first: Profile,
    /// The dumps' names in the order of the command line.
    names: Vec<String>,
    diffs: Vec<Diff>,
    /// Whether more than one is to be compared with it.
    several: bool,
    /// Whether all dumps were read, and none of them lacks a part.
    whole: bool,
}

impl Comparison {
    /// The name of the dump that another is compared with, or `several` others.
    pub(crate) fn of(
        dump: &Path,
        several: bool,
        options: &IngestOptions,
    ) -> anyhow::Result<Comparison> {
        let first = ingest(dump, options)?;
        Ok(Comparison {
            names: vec![dump.display().to_string()],
            diffs: Vec::new(),
            several,
            whole: first.report.is_whole(),
            first,
        })
    }

    /// Compares another dump. One that cannot be read is reported; the others are compared all the same.
    pub(crate) fn add(
        &mut self,
        dump: &Path,
        options: &IngestOptions,
        by: Grouping,
        filter: &Filter,
        view: View,
    ) -> anyhow::Result<()> {
        let other = match ingest(dump, options) {
            Ok(other) => other,
            Err(error) if self.several => {
                let text = format!("error: {error}; the other dumps are compared\n");
                note(view, Verbosity::Quiet, &text);
                self.whole = false;
                return Ok(());
            }
            Err(error) => return Err(error.into()),
        };
        self.whole &= other.report.is_whole();
        self.names.push(dump.display().to_string());
        self.diffs.push(diff(&self.first, &other, by, filter));
        Ok(())
    }

    /// Prints it, with at most `top` lines, and the reasons for doubt.
    pub(crate) fn show(&self, top: usize, view: View) -> anyhow::Result<()> {
        let one = |diff: &Diff| {
            let mut object = json!(diff);
            if let Some(changes) = object["changes"].as_array_mut() {
                changes.truncate(top);
            }
            object
        };
        for (name, diff) in self.names.iter().skip(1).zip(&self.diffs) {
            let place = if self.several {
                format!("{name}: ")
            } else {
                String::new()
            };
            let warnings = diff.warnings.iter();
            let warnings: String = warnings.map(|w| format!("warning: {place}{w}\n")).collect();
            note(view, Verbosity::Normal, &warnings);
        }
        match (view.format, self.diffs.as_slice()) {
            (OutputFormat::Json, [only]) if !self.several => {
                print(format!("{:#}\n", one(only)).as_bytes())?;
            }
            (OutputFormat::Json, all) => {
                let named = self.names.iter().skip(1).zip(all);
                let named = named.map(|(name, diff)| json!({ "dump": name, "diff": one(diff) }));
                let named: Value = named.collect();
                let object = json!({ "first": self.names[0], "others": named });
                print(format!("{object:#}\n").as_bytes())?;
            }
            (OutputFormat::Text, [only]) => print(text(only, top).as_bytes())?,
            (OutputFormat::Text, all) => print(table(&self.names, all, top).as_bytes())?,
        }
        Ok(())
    }

    /// Whether a dump takes longer than the first by more than is allowed, in percent.
    pub(crate) fn verdict(&self, fail_above: Option<f64>, view: View) -> Exit {
        let mut exit = if self.whole {
            Exit::Done
        } else {
            // Data missing in one of them may be the difference.
            Exit::PointsFailed
        };
        for (name, diff) in self.names.iter().skip(1).zip(&self.diffs) {
            let longer = diff.ratio.map(|ratio| (ratio - 1.0) * 100.0);
            let Some((longer, percent)) = longer.zip(fail_above).filter(|(l, p)| l > p) else {
                continue;
            };
            let text = format!(
                "{name} takes {longer:.2} % longer than {}, more than --fail-above {percent} %\n",
                self.names[0]
            );
            note(view, Verbosity::Normal, &text);
            exit = Exit::Regression;
        }
        exit
    }
}

/// Writes to standard error, unless the user wants less output.
pub(crate) fn note(view: View, least: Verbosity, text: &str) {
    if view.verbosity >= least && !text.is_empty() {
        // Goes on if standard error is closed.
        let _ = std::io::stderr().lock().write_all(text.as_bytes());
    }
}
