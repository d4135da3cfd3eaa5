//! Known cases, and every architecture against NVIDIA's own header where a C++ compiler and the header are there.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use super::*;
use crate::device::cuda::arch;
use crate::device::cuda::nvrtc::Toolkit;

fn demand(threads: u64, registers: u64, shared_bytes: u64) -> Demand {
    Demand {
        threads,
        registers,
        shared_bytes,
    }
}

#[test]
fn known_kernels_are_bound_by_what_binds_them() {
    let on = |arch: &str, demand| {
        let occupancy = of(arch::named(arch).unwrap(), demand);
        (
            occupancy.blocks,
            occupancy.share,
            occupancy.limiters.join(";"),
        )
    };
    // An element-wise kernel, a matrix product in registers, and one on tensor cores, as TVM makes them.
    assert_eq!(
        on("sm_80", demand(1024, 10, 0)),
        (2, 1.0, "warps".to_owned())
    );
    let (blocks, share, limiters) = on("sm_80", demand(128, 72, 6912));
    assert_eq!((blocks, limiters.as_str()), (7, "registers"));
    assert!((share - 0.4375).abs() < 1e-12);
    assert_eq!(
        on("sm_80", demand(512, 102, 55296)),
        (1, 0.25, "registers".to_owned())
    );
    // 49 threads are two warps: 32 blocks of two fill all 64 warps, though a quarter of their lanes is idle.
    assert_eq!(
        on("sm_80", demand(49, 16, 0)),
        (32, 1.0, "warps;blocks".to_owned())
    );
    assert_eq!(on("sm_86", demand(32, 16, 0)).2, "blocks");
    assert_eq!(on("sm_90", demand(128, 32, 100 << 10)).2, "shared_memory");
    // Too many registers for a block: it cannot be started.
    assert_eq!(on("sm_80", demand(1024, 128, 0)).0, 0);
}

/// The header's answers: blocks, and the bits of what limits them.
fn header(include: &Path, questions: &str) -> Option<Vec<(u64, u32)>> {
    let folder = tempfile::tempdir().ok()?;
    let program = folder.path().join("oracle");
    let built = Command::new("g++")
        .arg(concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/src/device/cuda/occupancy/oracle.cpp"
        ))
        .arg(format!("-I{}", include.display()))
        .arg("-o")
        .arg(&program)
        .status();
    if !built.is_ok_and(|status| status.success()) {
        return None;
    }
    let mut child = Command::new(program)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    let questions = questions.to_owned();
    let writer = std::thread::spawn(move || input.write_all(questions.as_bytes()));
    let output = child.wait_with_output().unwrap();
    writer.join().unwrap().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let answer = |line: &str| {
        let numbers: Vec<u64> = line.split(' ').map(|n| n.parse().unwrap()).collect();
        assert_eq!(numbers[0], 0, "the header refuses a question");
        (numbers[1], numbers[2] as u32)
    };
    Some(text.lines().map(answer).collect())
}

#[test]
fn every_architecture_agrees_with_nvidias_header() {
    let include = Toolkit::find().ok().map(|toolkit| toolkit.include());
    let include = include.filter(|include| include.join("cuda_occupancy.h").is_file());
    let Some(include) = include else {
        return optestkit::skip(
            "occupancy against NVIDIA's header",
            "cuda_occupancy.h is not installed (scripts/setup --with cuda)",
        );
    };
    let mut cases = Vec::new();
    let mut questions = String::new();
    for name in arch::names() {
        let arch = arch::named(&name).unwrap();
        let reserved = if arch.capability < 80 { 0 } else { 1024 };
        for threads in [1, 32, 33, 64, 96, 128, 192, 256, 320, 512, 768, 1024] {
            for registers in [1, 8, 16, 24, 32, 33, 40, 48, 64, 72, 96, 128, 168, 255] {
                for shared in [
                    0,
                    1,
                    127,
                    1024,
                    6912,
                    16 << 10,
                    33 << 10,
                    48 << 10,
                    60 << 10,
                ] {
                    let sm = (arch.capability, arch.threads, arch.shared_bytes, reserved);
                    questions.push_str(&format!(
                        "{} {} {} {} {threads} {registers} {shared}\n",
                        sm.0, sm.1, sm.2, sm.3
                    ));
                    cases.push((name.clone(), arch, demand(threads, registers, shared)));
                }
            }
        }
    }
    let Some(answers) = header(&include, &questions) else {
        return optestkit::skip(
            "occupancy against NVIDIA's header",
            "there is no g++ for NVIDIA's header",
        );
    };
    assert_eq!(answers.len(), cases.len());
    for ((name, arch, demand), (blocks, bits)) in cases.into_iter().zip(answers) {
        let found = of(arch, demand);
        assert_eq!(found.blocks, blocks, "{name} {demand:?}");
        // `cudaOccLimitingFactors` of the header.
        let factors = [
            ("warps", 1),
            ("registers", 2),
            ("shared_memory", 4),
            ("blocks", 8),
        ];
        for (factor, bit) in factors {
            let binds = found.limiters.contains(&factor);
            assert_eq!(binds, bits & bit != 0, "{name} {demand:?} {factor}");
        }
    }
}
