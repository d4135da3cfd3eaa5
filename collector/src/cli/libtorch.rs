//! The flags of `opcollect profile --framework torch`: those of a profile. Flags without a meaning for libtorch are
//! refused by name.

use optorch::lines::{GroupBy, SortBy};
use optorch::protocol::Device;

use super::profile::{Grouping, ProfileArgs, Sorting};
use crate::config::{Origin, Settings};
use crate::plan::Planned;
use crate::profile::libtorch::{TorchRequest, TorchShown};

/// Settings that only TVM's side uses, and why.
const OF_TVM: [(&str, &str); 3] = [
    (
        "fusion",
        "libtorch fuses nothing: each operator is a call of its own",
    ),
    (
        "seed",
        "inputs are those that the importer made for PyTorch",
    ),
    (
        "memory-limit",
        "libtorch runs in a process without a limit of memory",
    ),
];

/// The request that the arguments make. Fails with a sentence about a flag that means nothing to libtorch.
pub(super) fn request(
    args: ProfileArgs,
    planned: Box<Planned>,
    settings: &Settings,
) -> Result<TorchRequest, String> {
    for (key, reason) in OF_TVM {
        if settings.get(key).origin != Origin::Default {
            return Err(format!(
                "--{key} with --framework torch: {reason}; leave it out"
            ));
        }
    }
    let device = device(settings)?;
    let shown = args.shown;
    let sort_by = match shown.sort {
        Sorting::SelfTime => SortBy::Own,
        Sorting::Total => SortBy::Total,
        Sorting::Name => SortBy::Name,
        Sorting::Count => SortBy::Count,
        Sorting::Mean => SortBy::Mean,
        Sorting::Program => SortBy::Program,
        Sorting::Allocated if shown.memory => SortBy::Memory,
        Sorting::Allocated => {
            return Err("--sort allocated needs --memory with --framework torch".to_owned());
        }
        Sorting::Flops => SortBy::Flops,
        Sorting::Freed | Sorting::Live => {
            return Err(
                "--sort freed and live are of TVM's virtual machine; with --framework torch sort by self, total, name, \
                 count, mean, flops, program or allocated"
                    .to_owned(),
            );
        }
    };
    let is_json = |path: &std::path::PathBuf| {
        let ending = path.extension();
        ending.is_some_and(|ending| ending.eq_ignore_ascii_case("json"))
    };
    if let Some(path) = shown.trace.as_ref().filter(|path| !is_json(path)) {
        return Err(format!(
            "--trace {}: libtorch writes Chrome's format; give a name that ends in .json",
            path.display()
        ));
    }
    Ok(TorchRequest {
        planned,
        device,
        schedule: args.steps.schedule(),
        show: TorchShown {
            group_by: match shown.group_by {
                Grouping::Call => GroupBy::Call,
                Grouping::Operator if shown.stack => GroupBy::OperatorInModule,
                Grouping::Operator => GroupBy::Operator,
                Grouping::Kind => GroupBy::Kind,
                Grouping::Shape => GroupBy::Shape,
                Grouping::Layer => GroupBy::Layer,
            },
            sort_by,
            top: shown.top,
            memory: shown.memory,
            stack: shown.stack,
        },
        csv: shown.csv,
        flamegraph: shown.flamegraph,
        trace: shown.trace,
    })
}

/// Where the model runs: libtorch compiles nothing, so of a target only the device means something.
fn device(settings: &Settings) -> Result<Device, String> {
    let target = settings.get("target");
    let text = target.texts.first().map_or("", String::as_str);
    match (target.origin, text) {
        (Origin::Default, _) => Ok(Device::Cpu),
        (_, "cuda") => Ok(Device::Cuda),
        _ => Err(format!(
            "--target {text} with --framework torch: libtorch compiles nothing; leave it out to run on the processor, or give \
             cuda alone to run on the first GPU"
        )),
    }
}
