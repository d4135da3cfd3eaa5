//! `mca`: LLVM's machine code analyser on the kernel's hottest block. It is a static estimate: every load hits the
//! first cache, every branch is predicted, and the block is repeated a hundred times.
//!
//! The block comes from the kernel's assembly ([`super::assembly`]). `llvm-mca` must know the processor that the kernel
//! was compiled for; it is never run for another one.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;

use super::assembly::{assembly, hottest};
use super::tools::find_program;
use super::{Counter, CounterError, Program, Simulated, Simulator};

/// The kind.
#[derive(Clone, Copy)]
pub(super) struct Mca;

const NAME: &str = "mca";
/// Repetitions of the block.
const ITERATIONS: f64 = 100.0;
/// Newest version that is looked for by number, and the oldest with output that can be read.
const VERSIONS: std::ops::RangeInclusive<u32> = 13..=25;
/// A block that every architecture has.
const TRIAL: &str = "nop\n";
/// Counters with their units: of one pass through the block.
const EVENTS: [(&str, &str); 4] = [
    ("block-cycles", "cycles"),
    ("block-throughput-cycles", "cycles"),
    ("block-instructions", "instructions"),
    ("busiest-port-cycles", "cycles"),
];

fn problem(reason: impl Into<String>, next: &str) -> CounterError {
    CounterError::new(NAME, reason, next)
}

const INSTALL: &str = "Debian, Ubuntu: apt-get install llvm-19, or a later one";

/// The newest analyser.
fn analyser() -> Result<PathBuf, CounterError> {
    let numbered = VERSIONS.rev().map(|version| format!("llvm-mca-{version}"));
    let names: Vec<String> = numbered.chain(["llvm-mca".to_owned()]).collect();
    find_program(&names).ok_or_else(|| problem("llvm-mca is not installed", INSTALL))
}

impl Simulator for Mca {
    fn name(&self) -> &'static str {
        NAME
    }

    fn title(&self) -> &'static str {
        "static estimate of the hottest block by llvm-mca"
    }

    fn counters(&self) -> Vec<Counter> {
        let counter = |(name, unit): &(&str, &str)| Counter::new(*name, *unit);
        EVENTS.iter().map(counter).collect()
    }

    /// The newest analyser, if it knows this machine's processor.
    fn available(&self) -> Result<String, CounterError> {
        let tool = analyser()?;
        let cpu = tvm_bridge::target::host_cpu()
            .map_err(|error| problem(error.to_string(), "see opcollect doctor"))?;
        analyse(&tool, &cpu, TRIAL)?;
        Ok(format!("{}; it knows {cpu}", tool.display()))
    }

    fn count(&self, program: &Program<'_>) -> Result<Simulated, CounterError> {
        let tool = analyser()?;
        let Some(cpu) = program.target.json()["mcpu"].as_str() else {
            return Err(problem(
                "the target names no processor",
                "give one with -mcpu",
            ));
        };
        let assembly = assembly(program).map_err(|error| problem(error, "report this operator"))?;
        let block = hottest_block(&assembly)
            .ok_or_else(|| problem("the kernel has no block with arithmetic", "leave mca out"))?;
        let report = analyse(&tool, cpu, &block)?;
        let value = |(name, _): &(&str, &str)| {
            value(&report, name).ok_or_else(|| "llvm-mca's report does not have it".to_owned())
        };
        Ok(Simulated {
            values: EVENTS.iter().map(value).collect(),
            cpu: None,
        })
    }
}

/// A value of a report, for one pass through the block.
fn value(report: &Value, name: &str) -> Option<f64> {
    let region = &report["CodeRegions"][0];
    let summary = &region["SummaryView"];
    let per_pass = |value: f64| value / ITERATIONS;
    match name {
        "block-cycles" => summary["TotalCycles"].as_f64().map(per_pass),
        "block-throughput-cycles" => summary["BlockRThroughput"].as_f64(),
        "block-instructions" => summary["Instructions"].as_f64().map(per_pass),
        "busiest-port-cycles" => {
            let usage = region["ResourcePressureView"]["ResourcePressureInfo"].as_array()?;
            let instructions = region["Instructions"].as_array()?.len() as u64;
            // The index after the last instruction means the whole block.
            let whole = usage
                .iter()
                .filter(|u| u["InstructionIndex"] == instructions);
            whole
                .filter_map(|u| u["ResourceUsage"].as_f64())
                .reduce(f64::max)
        }
        _ => None,
    }
}

/// llvm-mca's report about a block of assembly.
fn analyse(tool: &Path, cpu: &str, block: &str) -> Result<Value, CounterError> {
    let failed = |reason: String| problem(format!("llvm-mca fails: {reason}"), INSTALL);
    let io = |error: std::io::Error| failed(error.to_string());
    let mut child = Command::new(tool)
        .args(["-json", "-iterations=100", "-resource-pressure"])
        .arg(format!(
            "-mtriple={}-unknown-linux-gnu",
            std::env::consts::ARCH
        ))
        .arg(format!("-mcpu={cpu}"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(io)?;
    if let Some(mut input) = child.stdin.take() {
        // llvm-mca ends without reading its input if it does not know the processor.
        let _ = input.write_all(block.as_bytes());
    }
    let output = child.wait_with_output().map_err(io)?;
    let words = String::from_utf8_lossy(&output.stderr);
    if ["not a recognized", "unable to find", "is not a valid"]
        .iter()
        .any(|w| words.contains(w))
    {
        return Err(problem(
            format!("{} does not know the processor {cpu}", tool.display()),
            INSTALL,
        ));
    }
    if !output.status.success() {
        let line = words
            .lines()
            .find(|l| l.contains("error"))
            .unwrap_or("no reason given");
        return Err(failed(line.to_owned()));
    }
    serde_json::from_slice(&output.stdout).map_err(|error| failed(error.to_string()))
}

/// The lines of the hottest block, if it calculates anything.
fn hottest_block(assembly: &str) -> Option<String> {
    let block = hottest(assembly)?.block;
    let calculates = block.iter().any(|one| one.effect().flops > 0);
    let lines: Vec<&str> = block.iter().map(|one| one.text).collect();
    calculates.then(|| lines.join("\n") + "\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    const KERNEL: &str = "\t.text\nmain:\n\tpushq %rbp\n.LBB0_1:\n\tvmovups (%rax), %ymm0\n\
        \tvfmadd231ps (%rcx), %ymm0, %ymm1 # ymm1 = x\n\tvfmadd231ps 32(%rcx), %ymm0, %ymm2\n\
        \taddq $64, %rcx\n\tcmpq %rcx, %rdx\n\tjne .LBB0_1\n.LBB0_2:\n\tvaddps %ymm1, %ymm2, %ymm1\n\
        \tvaddps %ymm1, %ymm2, %ymm1\n\tvaddps %ymm1, %ymm2, %ymm1\n\tvaddps %ymm1, %ymm2, %ymm1\n\
        \tvaddps %ymm1, %ymm2, %ymm1\n\tvaddps %ymm1, %ymm2, %ymm1\n\tretq\n";

    #[test]
    fn the_block_is_without_comments_and_directives() {
        let block = hottest_block(KERNEL).unwrap();
        assert!(
            block.starts_with("vmovups") && block.ends_with("jne .LBB0_1\n"),
            "{block}"
        );
        assert!(!block.contains('#'));
        assert_eq!(hottest_block("main:\n\tretq\n"), None);
    }

    #[test]
    fn the_installed_analyser_estimates_the_block_and_knows_no_nonsense() {
        let Ok(tool) = analyser() else {
            optestkit::skip("llvm-mca", "it is not installed");
            return;
        };
        let block = hottest_block(KERNEL).unwrap();
        if cfg!(target_arch = "x86_64") {
            let report = analyse(&tool, "haswell", &block).unwrap();
            assert_eq!(value(&report, "block-instructions"), Some(6.0));
            let cycles = value(&report, "block-cycles").unwrap();
            let throughput = value(&report, "block-throughput-cycles").unwrap();
            assert!(
                cycles >= throughput && throughput > 0.0,
                "{cycles} {throughput}"
            );
            // Two chains of multiply-adds with a latency of five cycles.
            assert!((5.0..8.0).contains(&cycles), "{cycles}");
            assert!(value(&report, "busiest-port-cycles").unwrap() >= 1.0);
            assert!(analyse(&tool, "haswell", TRIAL).is_ok());
            for block in [&block, TRIAL] {
                let error = analyse(&tool, "znver99", block).unwrap_err();
                assert!(error.reason.contains("does not know"), "{error}");
            }
        }
    }
}
