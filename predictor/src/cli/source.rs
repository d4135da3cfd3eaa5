//! Sources of rows: datasets and logs of other tools, as arguments.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use clap::Args as ClapArgs;
use opdata::import::{Format, Import};
use oplearn::data::{RowSet, Source};
use opreport::Misuse;
use opreport::output::say;

/// Sources of rows.
#[derive(Debug, Clone, ClapArgs)]
pub struct SourceArgs {
    /// Datasets: runs (folders, names, `latest`), folders of runs, .csv, .parquet or .jsonl files.
    pub data: Vec<PathBuf>,
    /// A log of another tool, e.g. --import autotvm tune.log.gz, or NAME=FILE to name its machine; may be repeated. Formats:
    /// autotvm, metaschedule, table.
    #[arg(long, num_args = 2, value_names = ["FORMAT", "FILE"], action = clap::ArgAction::Append)]
    pub import: Vec<String>,
    /// Refuse a log with lines that cannot be used, instead of counting them.
    #[arg(long, requires = "import")]
    pub strict: bool,
}

impl SourceArgs {
    /// The sources, checked.
    pub fn sources(&self) -> anyhow::Result<Vec<Source>> {
        let named = |word: &PathBuf| opdata::named_run(word, Path::new(opdata::RUNS));
        let mut sources = Vec::new();
        for word in &self.data {
            sources.push(Source::Dataset(named(word)?));
        }
        for pair in self.import.chunks(2) {
            let [format, file] = pair else { continue };
            sources.push(Source::Import(self.import_of(format, file)?));
        }
        if sources.is_empty() {
            let message =
                "no data: name datasets (such as runs/*), or a log with --import autotvm FILE";
            return Err(Misuse(message.to_owned()).into());
        }
        Ok(sources)
    }

    /// Reads all rows. Reports records that could not be imported on standard error.
    pub fn read(&self) -> anyhow::Result<RowSet> {
        let rows = RowSet::read(&self.sources()?)?;
        report_left_out(&rows.left_out);
        Ok(rows)
    }

    /// One import; of `NAME=FILE` the machine's name, unless there is a file of that whole name.
    fn import_of(&self, format: &str, file: &str) -> anyhow::Result<Import> {
        let all = Format::ALL;
        let known = all
            .into_iter()
            .find(|f| f.name() == format.to_ascii_lowercase());
        let Some(format) = known else {
            anyhow::bail!(
                "--import {format}: no such format; there are {}",
                all.map(Format::name).join(", ")
            );
        };
        let named = file.split_once('=').filter(|(name, _)| {
            !name.is_empty() && !name.contains('/') && !Path::new(file).exists()
        });
        let (machine, path) = named.map_or((None, file), |(name, path)| (Some(name), path));
        Ok(Import {
            machine: machine.map(str::to_owned),
            strict: self.strict,
            ..Import::new(format, path)
        })
    }
}

/// Reports on standard error how many records were left out, and why.
pub fn report_left_out(left_out: &BTreeMap<String, u64>) {
    for (reason, count) in left_out {
        say(&format!("{count} left out: {reason}"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        source: SourceArgs,
    }

    fn sources(words: &[&str]) -> anyhow::Result<Vec<Source>> {
        Line::parse_from([&["oppredict"], words].concat())
            .source
            .sources()
    }

    #[test]
    fn data_may_be_named_in_several_ways() {
        let autotvm = || Import::new(Format::Autotvm, "x.log");
        assert_eq!(
            sources(&["runs/a", "--import", "autotvm", "x.log"]).unwrap(),
            [Source::Dataset("runs/a".into()), Source::Import(autotvm())]
        );
        let named = Import {
            machine: Some("board 2".to_owned()),
            strict: true,
            ..autotvm()
        };
        assert_eq!(
            sources(&["--strict", "--import", "AutoTVM", "board 2=x.log"]).unwrap(),
            [Source::Import(named)]
        );
        assert_eq!(
            sources(&["--import", "table", "a/b=c.csv"]).unwrap(),
            [Source::Import(Import::new(Format::Table, "a/b=c.csv"))]
        );
        let error = sources(&["--import", "ansor", "x.log"]).unwrap_err();
        assert_eq!(
            error.to_string(),
            "--import ansor: no such format; there are autotvm, metaschedule, table"
        );
    }
}
