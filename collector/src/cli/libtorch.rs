//! The flags of `opcollect profile --framework torch`: those of a profile. Flags without a meaning for libtorch are
//! refused by name.

use optorch::lines;
use optorch::protocol::Device;

use super::profile::ProfileArgs;
use crate::config::{Origin, Settings};
use crate::plan::Planned;
use crate::profile::libtorch::{TorchRequest, TorchShown};
use crate::profile::summary::{GroupBy, SortBy};

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
    let flags = args.shown;
    let sort_by = match flags.sort_by {
        SortBy::Own => lines::SortBy::Own,
        SortBy::Total => lines::SortBy::Total,
        SortBy::Name => lines::SortBy::Name,
        SortBy::Count => lines::SortBy::Count,
        SortBy::Mean => lines::SortBy::Mean,
        SortBy::Program => lines::SortBy::Program,
        SortBy::Allocated if flags.memory => lines::SortBy::Memory,
        SortBy::Allocated => {
            return Err("--sort allocated needs --memory with --framework torch".to_owned());
        }
        SortBy::Flops => lines::SortBy::Flops,
        SortBy::Freed | SortBy::Live => {
            return Err(
                "--sort freed and live are of TVM's virtual machine; with --framework torch sort by self, total, name, \
                 count, mean, flops, program or allocated"
                    .to_owned(),
            );
        }
    };
    let group_by = match flags.group_by {
        GroupBy::Call => lines::GroupBy::Call,
        GroupBy::Operator if flags.stack => lines::GroupBy::OperatorInModule,
        GroupBy::Operator => lines::GroupBy::Operator,
        GroupBy::Kind => lines::GroupBy::Kind,
        GroupBy::Shape => lines::GroupBy::Shape,
        GroupBy::Layer => lines::GroupBy::Layer,
    };
    let is_json = |path: &std::path::PathBuf| {
        let ending = path.extension();
        ending.is_some_and(|ending| ending.eq_ignore_ascii_case("json"))
    };
    if let Some(path) = flags.trace.as_ref().filter(|path| !is_json(path)) {
        return Err(format!(
            "--trace {}: libtorch writes Chrome's format; give a name that ends in .json",
            path.display()
        ));
    }
    Ok(TorchRequest {
        planned,
        device,
        schedule: args.steps.schedule(),
        shown: TorchShown {
            group_by,
            sort_by,
            flags,
        },
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
