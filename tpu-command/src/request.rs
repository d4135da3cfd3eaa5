//! The flags of `opcollect tpu` as plain requests of `tpuprofile`. Reads and writes no files.

use std::collections::BTreeSet;
use std::path::PathBuf;

use opcollect::cli::tpu::{
    EngineName, GroupingName, TpuArgs, TpuCommand, TpuOutputArgs, TpuReadArgs,
};
use tpuprofile::analysis::rollup::{Filter, Grouping};
use tpuprofile::job::{DEFAULT_OUTPUTS, Job, Output};
use tpuprofile::record::RecordOptions;
use tpuprofile::report::Engine;
use tpuprofile::{IngestOptions, Strictness, Window};

/// The requests of `opcollect tpu`.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum TpuRequest {
    /// Read dumps and write files.
    Read(TpuReading),
    /// Compare dumps.
    Diff {
        /// The first.
        first: PathBuf,
        /// The dumps to compare with the first.
        others: Vec<PathBuf>,
        /// Key to pair by.
        by: Grouping,
        /// How the dumps are read.
        ingest: IngestOptions,
        /// The events that count.
        filter: Filter,
        /// Length of the list.
        top: usize,
        /// By how many percent a dump may take longer than the first.
        fail_above: Option<f64>,
    },
    /// Record, then read.
    Record {
        /// The command to run.
        options: RecordOptions,
        /// How to read its dumps, which are not known yet.
        reading: TpuReading,
    },
}

/// Reading dumps.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct TpuReading {
    /// The job.
    pub(crate) job: Job,
    /// Tables to print after the summary.
    pub(crate) tables: Vec<Grouping>,
    /// Number of cores that the user expects.
    pub(crate) cores: Option<u32>,
}

/// The request that the arguments make.
pub(crate) fn request(args: TpuArgs) -> TpuRequest {
    match args.command {
        None => TpuRequest::Read(reading(args.job.dirs, &args.job.read, &args.job.output)),
        Some(TpuCommand::Diff(args)) => TpuRequest::Diff {
            by: grouping(args.by),
            ingest: ingest(&args.read),
            filter: filter(&args.read),
            top: args.read.top,
            first: args.first,
            others: args.others,
            fail_above: args.fail_above,
        },
        Some(TpuCommand::Record(args)) => TpuRequest::Record {
            reading: reading(Vec::new(), &args.read, &args.output),
            options: RecordOptions {
                command: args.command,
                directory: PathBuf::from("."),
                mode: args.profile_mode,
                records: args.record_size,
                firmware: args.firmware,
            },
        },
    }
}

fn reading(mut dumps: Vec<PathBuf>, read: &TpuReadArgs, output: &TpuOutputArgs) -> TpuReading {
    let mut out = output.out.clone();
    if out.is_none() && dumps.len() == 2 && !dumps[1].join("global.profile").exists() {
        out = dumps.pop();
    }
    TpuReading {
        job: Job {
            dumps,
            out: out.unwrap_or_else(|| PathBuf::from("profile_out")),
            outputs: outputs(output),
            ingest: ingest(read),
            trace_file: output.trace_file.clone(),
            filter: filter(read),
            top: read.top,
        },
        tables: output.by.iter().copied().map(grouping).collect(),
        cores: output.num_core,
    }
}

fn ingest(args: &TpuReadArgs) -> IngestOptions {
    IngestOptions {
        tiu_mhz: args.tiu_freq,
        dma_mhz: args.dma_freq,
        strictness: if args.strict {
            Strictness::Strict
        } else {
            Strictness::Report
        },
        window: Window {
            from_ns: args.from_ns,
            to_ns: args.to_ns,
        },
        scratch: None,
    }
}

fn filter(args: &TpuReadArgs) -> Filter {
    let engine = |name: &EngineName| match name {
        EngineName::Tiu => Engine::Tiu,
        EngineName::Gdma => Engine::Gdma,
        EngineName::Sdma => Engine::Sdma,
        EngineName::Cdma => Engine::Cdma,
    };
    Filter {
        cores: args.cores.clone(),
        engines: args.engines.iter().map(engine).collect(),
        name: args.name.clone(),
        min_ns: args.min_ns,
    }
}

fn grouping(name: GroupingName) -> Grouping {
    match name {
        GroupingName::Operator => Grouping::Operator,
        GroupingName::Kernel => Grouping::Kernel,
        GroupingName::Layer => Grouping::Layer,
        GroupingName::Shape => Grouping::Shape,
    }
}

fn outputs(args: &TpuOutputArgs) -> BTreeSet<Output> {
    let chosen = [
        (args.summary, Output::Summary),
        (args.perfetto, Output::Perfetto),
        (args.doc, Output::Doc),
        (args.web, Output::Web),
        (args.profile_json, Output::Json),
        (args.parquet, Output::Parquet),
        (args.rows, Output::Rows),
    ];
    let mut outputs: BTreeSet<Output> = chosen
        .iter()
        .filter(|(yes, _)| *yes || args.all)
        .map(|(_, output)| *output)
        .collect();
    // bigTpuProfile writes the summary and the trace, and further files on request.
    if outputs.is_empty() || (args.doc && !args.summary && !args.perfetto && !args.all) {
        outputs.extend(DEFAULT_OUTPUTS);
    }
    for (off, output) in [
        (args.disable_summary, Output::Summary),
        (args.disable_doc, Output::Doc),
        (args.disable_web, Output::Web),
    ] {
        if off {
            outputs.remove(&output);
        }
    }
    outputs
}

#[cfg(test)]
mod tests;
