//! Flags of `opcollect vta`: the simulator of VTA by itself.

use std::path::PathBuf;
use std::str::FromStr;

use clap::{Args, Subcommand, ValueHint};
use vtasim::{Config, Workload};

/// `opcollect vta`.
#[derive(Debug, PartialEq, Args)]
pub struct VtaArgs {
    /// The command.
    #[command(subcommand)]
    pub command: VtaCommand,
}

/// Commands of the simulator.
#[derive(Debug, PartialEq, Subcommand)]
pub enum VtaCommand {
    /// Show a simulated run: what limits it, when each stage is busy, its instructions
    Show(ShowArgs),
    /// Fit a profile's timing parameters to a log of a board, and print the error on tasks left out of the fit
    Calibrate(CalibrateArgs),
    /// Set a log of a board beside the simulator: errors by task, order of configurations, what cannot be compiled
    Compare(LogArgs),
}

/// `vta show`.
#[derive(Debug, PartialEq, Args)]
pub struct ShowArgs {
    /// conv2d:NxCxHxW:FILTERSxKHxKW[:sSTRIDE][:pPADDING], or dense:ROWSxINPUTSxOUTPUTS
    #[arg(value_name = "WORKLOAD", value_parser = workload)]
    pub workload: Workload,
    /// Knobs, e.g. tile_h=7,tile_w=14; missing ones are those of the fastest configuration
    #[arg(long, value_name = "KNOB=N,…", value_delimiter = ',')]
    pub knobs: Vec<Knob>,
    /// Hardware build: a built-in profile or a TOML file
    #[arg(long, value_name = "NAME", default_value = "pynq-1x16")]
    pub profile: String,
    /// Run the instructions of this JSON file (`insn`, `uop`) in place of lowered ones
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub stream: Option<PathBuf>,
    /// Print every instruction
    #[arg(long)]
    pub disassembly: bool,
    /// Write the Gantt chart as a picture
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub svg: Option<PathBuf>,
    /// Write a trace for Perfetto
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub trace: Option<PathBuf>,
}

/// A log, and the profile to set beside it.
#[derive(Debug, PartialEq, Args)]
pub struct LogArgs {
    /// AutoTVM's log of conv2d_packed.vta, gzipped or not
    #[arg(value_name = "LOG", value_hint = ValueHint::FilePath)]
    pub log: PathBuf,
    /// Hardware build: a built-in profile or a TOML file
    #[arg(long, value_name = "NAME", default_value = "pynq-1x16")]
    pub profile: String,
}

/// `vta calibrate`.
#[derive(Debug, PartialEq, Args)]
pub struct CalibrateArgs {
    /// The log, and the profile that the fit starts from.
    #[command(flatten)]
    pub log: LogArgs,
    /// Write the fitted profile
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub out: Option<PathBuf>,
}

/// A knob with its value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Knob {
    /// Its name.
    pub name: String,
    /// Its value.
    pub value: u64,
}

impl FromStr for Knob {
    type Err = String;

    fn from_str(text: &str) -> Result<Knob, String> {
        let knob = text.split_once('=').and_then(|(name, value)| {
            Some(Knob {
                name: name.to_owned(),
                value: value.parse().ok()?,
            })
        });
        let known = |knob: &Knob| {
            let mut config = Config::ONES;
            config.set(&knob.name, knob.value)
        };
        knob.filter(known).ok_or_else(|| {
            "expected a knob and a number; knobs are tile_b, tile_h, tile_w, tile_ci, tile_co, oc_nthread, h_nthread"
                .to_owned()
        })
    }
}

/// Reads a workload as [`ShowArgs::workload`] takes it.
fn workload(text: &str) -> Result<Workload, String> {
    const EXPECTED: &str = "expected e.g. conv2d:1x64x56x56:64x3x3:s1:p1 or dense:1x512x1000";
    fn numbers<const N: usize>(text: &str) -> Result<[u64; N], String> {
        let numbers = text.split('x').map(str::parse);
        let numbers: Result<Vec<u64>, _> = numbers.collect();
        numbers
            .ok()
            .and_then(|n| n.try_into().ok())
            .ok_or_else(|| EXPECTED.to_owned())
    }
    let mut parts = text.split(':');
    match (parts.next(), parts.next()) {
        (Some("dense"), Some(extents)) => {
            let [rows, inputs, outputs] = numbers(extents)?;
            match parts.next() {
                None => Ok(Workload::dense(rows, inputs, outputs)),
                Some(_) => Err(EXPECTED.to_owned()),
            }
        }
        (Some("conv2d"), Some(data)) => {
            let [batch, in_channels, height, width] = numbers(data)?;
            let [out_channels, kh, kw] = numbers(parts.next().unwrap_or_default())?;
            let (mut stride, mut padding) = (1, 0);
            for part in parts {
                let own = match part.as_bytes().first() {
                    Some(b's') => &mut stride,
                    Some(b'p') => &mut padding,
                    _ => return Err(EXPECTED.to_owned()),
                };
                *own = part[1..].parse().map_err(|_| EXPECTED.to_owned())?;
            }
            Ok(Workload {
                batch,
                in_channels,
                height,
                width,
                out_channels,
                kernel: [kh, kw],
                stride: [stride, stride],
                padding: [padding, padding],
            })
        }
        _ => Err(EXPECTED.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn workloads_are_read_or_refused() {
        let conv = workload("conv2d:1x64x56x56:128x3x3:s2:p1").unwrap();
        assert_eq!((conv.out_channels, conv.output()), (128, [28, 28]));
        assert_eq!(
            workload("dense:1x512x1000"),
            Ok(Workload::dense(1, 512, 1000))
        );
        for wrong in [
            "",
            "conv2d",
            "conv2d:1x2x3:4x5x6",
            "conv2d:1x64x8x8:8x3x3:q1",
            "dense:1x2",
            "dense:1x2x3:s1",
            "conv2d:1x64x8x-8:8x3x3",
        ] {
            assert!(
                workload(wrong).unwrap_err().contains("expected e.g."),
                "{wrong}"
            );
        }
    }
}
