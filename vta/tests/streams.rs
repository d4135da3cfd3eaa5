//! Lowered programs compute what plain loops compute; streams and profiles that make no sense are refused on one line.

use proptest::prelude::*;
use vtasim::isa::{Instruction, MemoryType, Nest, Operation, Tokens, Transfer, Uop};
use vtasim::lower::{Program, Tail, lower};
use vtasim::reference::{accumulate, finish, pack, unpack};
use vtasim::{Config, Profile, Space, StreamError, Workload, execute, timing};

/// Values that differ from place to place, by a linear congruential generator.
fn values(count: usize, seed: u64) -> Vec<i8> {
    let mut state = seed.wrapping_mul(6_364_136_223_846_793_005) | 1;
    let mut next = || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (state >> 56) as i8
    };
    (0..count).map(|_| next()).collect()
}

/// The outputs of the executor and of plain loops.
fn both(profile: &Profile, w: &Workload, c: &Config, tail: Tail) -> (Vec<i8>, Vec<i8>) {
    let hardware = &profile.hardware;
    let program = lower(hardware, w, c, tail).unwrap();
    let packed = w.packed(hardware).unwrap();
    let data = values((w.batch * w.in_channels * w.height * w.width) as usize, 1);
    let taps = w.kernel[0] * w.kernel[1];
    let weights = values((w.out_channels * w.in_channels * taps) as usize, 2);
    let bias: Vec<i32> = match tail.bias {
        true => values(w.out_channels as usize, 3)
            .into_iter()
            .map(|b| i32::from(b) * 99)
            .collect(),
        false => Vec::new(),
    };
    let mut dram = pack(hardware, w, &packed, &data, &weights, &bias);
    execute::execute(profile, &program, &mut dram).unwrap();
    let expected = finish(w, &accumulate(w, &data, &weights), &bias, tail);
    (unpack(hardware, w, &packed, &dram.out), expected)
}

fn workloads() -> impl Strategy<Value = Workload> {
    (
        1..3_u64,
        1..40_u64,
        1..9_u64,
        1..9_u64,
        1..40_u64,
        1..4_u64,
        1..3_u64,
        0..2_u64,
    )
        .prop_map(
            |(batch, in_channels, height, width, out_channels, kernel, stride, padding)| Workload {
                batch,
                in_channels,
                height: height + kernel,
                width: width + kernel,
                out_channels,
                kernel: [kernel, kernel],
                stride: [stride, stride],
                padding: [padding, padding],
            },
        )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn every_configuration_computes_what_plain_loops_compute(
        w in workloads(),
        pick: prop::sample::Index,
        profile in prop::sample::select(vec!["pynq-1x16", "pynq-4x8"]),
        bias: bool,
    ) {
        let profile = Profile::find(profile).unwrap();
        let tail = Tail { bias, shift: 6, min: -100, max: 127 };
        let packed = w.packed(&profile.hardware).unwrap();
        let good: Vec<Config> = Space::of(&packed)
            .configs()
            .filter(|c| lower(&profile.hardware, &w, c, tail).is_ok())
            .collect();
        if !good.is_empty() {
            let config = good[pick.index(good.len())];
            let (ours, expected) = both(&profile, &w, &config, tail);
            prop_assert_eq!(ours, expected, "{} {}", w, config);
        }
    }

    #[test]
    fn good_streams_with_wrong_bits_end_with_an_answer(
        flips in prop::collection::vec((any::<prop::sample::Index>(), 0..128_u32), 1..4),
        seed in 0..64_u64,
    ) {
        let profile = Profile::find("pynq-1x16").unwrap();
        let hardware = &profile.hardware;
        let w = Workload { batch: 1, in_channels: 32, height: 8, width: 8, out_channels: 32, kernel: [3, 3], stride: [1, 1], padding: [1, 1] };
        let tail = Tail { bias: true, shift: 6, min: -100, max: 127 };
        let packed = w.packed(hardware).unwrap();
        let space = Space::of(&packed);
        let mut good = space.configs().filter_map(|c| lower(hardware, &w, &c, tail).ok());
        let mut program = good.nth(seed as usize % 8).unwrap();
        let mut undecodable = false;
        for (at, bit) in flips {
            let at = at.index(program.instructions.len());
            let bits = program.instructions[at].encode(hardware.widths()) ^ (1 << bit);
            match Instruction::decode(bits, hardware.widths()) {
                Ok(instruction) => program.instructions[at] = instruction,
                Err(_) => undecodable = true,
            }
        }
        if !undecodable {
            let count = |n: usize| values(n, seed);
            let data = count((w.in_channels * w.height * w.width) as usize);
            let weights = count((w.out_channels * w.in_channels * 9) as usize);
            let bias = vec![1; w.out_channels as usize];
            let mut dram = pack(hardware, &w, &packed, &data, &weights, &bias);
            let errors = [
                timing::simulate(&profile, &program).err(),
                execute::execute(&profile, &program, &mut dram).err(),
            ];
            for error in errors.into_iter().flatten() {
                prop_assert!(!error.to_string().contains('\n'), "{}", error);
            }
        }
    }

    #[test]
    fn streams_of_any_bits_end_with_an_answer(words: Vec<u128>, uops: Vec<u32>) {
        let profile = Profile::find("pynq-1x16").unwrap();
        let widths = profile.hardware.widths();
        let instructions: Result<Vec<Instruction>, vtasim::isa::UnknownField> =
            words.iter().map(|bits| Instruction::decode(*bits, widths)).collect();
        if let Ok(instructions) = instructions {
            let uops = uops.into_iter().map(|word| Uop::of_word(word, widths)).collect();
            let program = Program { instructions, uops, host_calls: 0 };
            let _ = timing::simulate(&profile, &program);
            let _ = execute::execute(&profile, &program, &mut execute::Dram::default());
        }
    }
}

#[test]
fn the_fastest_configuration_is_the_fastest_of_all() {
    let profile = Profile::find("pynq-1x16").unwrap();
    for w in [
        Workload {
            batch: 1,
            in_channels: 64,
            height: 14,
            width: 14,
            out_channels: 64,
            kernel: [3, 3],
            stride: [1, 1],
            padding: [1, 1],
        },
        Workload::dense(1, 512, 1000),
    ] {
        let packed = w.packed(&profile.hardware).unwrap();
        let space = Space::of(&packed);
        let all = space.configs().filter_map(|c| {
            let program = lower(&profile.hardware, &w, &c, Tail::AUTOTVM).ok()?;
            Some(timing::simulate(&profile, &program).unwrap().total_ns)
        });
        let fastest = all.fold(f64::INFINITY, f64::min);
        let (_, found) = timing::best::best(&profile, &w, Tail::AUTOTVM).unwrap();
        assert_eq!(found.total_ns, fastest, "{w}");
    }
}

fn program(operations: &[(Operation, Tokens)]) -> Program {
    let instruction = |&(operation, tokens)| Instruction { tokens, operation };
    Program {
        instructions: operations.iter().map(instruction).collect(),
        uops: vec![Uop::default(); 4],
        host_calls: 0,
    }
}

const NONE: Tokens = Tokens {
    pop_prev: false,
    pop_next: false,
    push_prev: false,
    push_next: false,
};
const FINISH: (Operation, Tokens) = (Operation::Finish, NONE);

fn load(memory: MemoryType, sram: u16, dram: u32, rows: u16, columns: u16) -> (Operation, Tokens) {
    let transfer = Transfer {
        sram,
        dram,
        rows,
        columns,
        stride: columns,
        ..Transfer::nothing(memory)
    };
    (Operation::Load(transfer), NONE)
}

fn gemm(iterations: [u16; 2], reset: bool) -> (Operation, Tokens) {
    let nest = Nest {
        begin: 0,
        end: 1,
        iterations,
        ..Nest::default()
    };
    (
        Operation::Gemm {
            nest,
            reset,
            wgt: [0, 0],
        },
        NONE,
    )
}

#[test]
fn hostile_streams_are_refused_by_name() {
    let profile = Profile::find("pynq-1x16").unwrap();
    let pops = |pop_prev, pop_next| Tokens {
        pop_prev,
        pop_next,
        ..NONE
    };
    let uop = load(MemoryType::Uop, 0, 0, 1, 4);
    let nothing = |memory| Operation::Load(Transfer::nothing(memory));
    let cases = [
        (
            vec![],
            "the stream of 0 instructions has no FINISH, so the driver would wait for ever",
        ),
        (
            vec![uop],
            "the stream of 1 instructions has no FINISH, so the driver would wait for ever",
        ),
        (
            vec![uop, gemm([1, 1], false), FINISH],
            "instruction 1: element 0 of ACC is read before anything writes it",
        ),
        (
            vec![gemm([1, 1], true), FINISH],
            "instruction 0: element 0 of UOP is read before anything writes it",
        ),
        (
            vec![uop, gemm([1, 1], true), gemm([1, 1], false), FINISH],
            "instruction 2: element 0 of INP is read before anything writes it",
        ),
        (
            vec![load(MemoryType::Inp, 0, 0, 65535, 65535), FINISH],
            "instruction 0: the INP tensor in DRAM has 0 elements, element 0 is accessed",
        ),
        (
            vec![load(MemoryType::Uop, 8190, 0, 1, 4), FINISH],
            "instruction 0: UOP has 8192 elements, element 8192 is accessed",
        ),
        (
            vec![load(MemoryType::Uop, 0, u32::MAX, 1, 4), FINISH],
            "instruction 0: the UOP tensor in DRAM has 4 elements, element 4294967295 is accessed",
        ),
        (
            vec![load(MemoryType::Out, 0, 0, 1, 1), FINISH],
            "instruction 0: the output memory cannot be loaded",
        ),
        (
            vec![(nothing(MemoryType::Uop), pops(true, false)), FINISH],
            "deadlock: the compute stage waits at instruction 0 for a token of the load-to-compute queue that nothing pushes",
        ),
        (
            vec![(nothing(MemoryType::Inp), pops(false, true)), FINISH],
            "deadlock: the load stage waits at instruction 0 for a token of the compute-to-load queue that nothing pushes",
        ),
        (
            vec![(nothing(MemoryType::Inp), pops(true, false)), FINISH],
            "instruction 0: the load stage has no stage before it",
        ),
        (
            vec![
                uop,
                gemm([16383, 100], true),
                gemm([16383, 100], true),
                gemm([16383, 100], true),
                FINISH,
            ],
            "",
        ),
    ];
    for (operations, expected) in cases {
        let result = execute::execute(
            &profile,
            &program(&operations),
            &mut execute::Dram::default(),
        );
        match expected {
            // Much work, but bounded.
            "" => assert!(result.is_ok()),
            _ => assert_eq!(result.unwrap_err().to_string(), expected),
        }
    }
    let endless = vec![gemm([16383, 16383], true); 64];
    let endless: Vec<_> = std::iter::once(uop)
        .chain(endless)
        .chain([FINISH])
        .collect();
    let error = execute::execute(&profile, &program(&endless), &mut execute::Dram::default());
    assert!(
        matches!(error, Err(StreamError::TooLong { .. })),
        "{error:?}"
    );
}

#[test]
fn a_wrong_stream_is_noticed() {
    let profile = Profile::find("pynq-1x16").unwrap();
    let w = Workload {
        batch: 1,
        in_channels: 32,
        height: 8,
        width: 8,
        out_channels: 32,
        kernel: [3, 3],
        stride: [1, 1],
        padding: [1, 1],
    };
    let (config, _) = timing::best::best(&profile, &w, Tail::AUTOTVM).unwrap();
    let mut program = lower(&profile.hardware, &w, &config, Tail::AUTOTVM).unwrap();
    let weights = program
        .instructions
        .iter()
        .position(|i| matches!(i.operation, Operation::Load(t) if t.memory == MemoryType::Wgt));
    program.instructions.remove(weights.unwrap());
    let packed = w.packed(&profile.hardware).unwrap();
    let mut dram = pack(
        &profile.hardware,
        &w,
        &packed,
        &values(2048, 1),
        &values(9216, 2),
        &[],
    );
    assert!(execute::execute(&profile, &program, &mut dram).is_err());
}

#[test]
fn profiles_that_make_no_sense_are_refused() {
    let good = include_str!("../profiles/pynq-1x16.toml");
    for name in Profile::names() {
        Profile::find(name).unwrap();
    }
    let cases = [
        ("batch = 1", "batch = 0", "hardware.batch is 0"),
        ("block = 16", "block = 17", "hardware.block is 17"),
        ("block = 16", "block = -16", "is not valid"),
        (
            "inp_bytes = 32768",
            "inp_bytes = 8",
            "hardware is [8192, 1024, 0, 2048, 2048] elements",
        ),
        (
            "acc_bytes = 131072",
            "acc_bytes = 16777216",
            "which micro-ops of 32 bits cannot address",
        ),
        (
            "uop_bytes = 32768",
            "uop_bytes = 1099511627776",
            "hardware.uop_bytes is 1099511627776",
        ),
        (
            "clock_mhz = 100",
            "clock_mhz = 0",
            "hardware.clock_mhz is 0",
        ),
        ("gemm_uop = 1.0", "gemm_uop = nan", "timing.gemm_uop is NaN"),
        ("gemm_uop = 1.0", "gemm_uop = 0.0", "timing.gemm_uop is 0"),
        ("fetch = 4.0", "fetch = -4.0", "timing.fetch is -4"),
        ("token = 2.0", "token = inf", "timing.token is inf"),
        ("token = 2.0", "tokn = 2.0", "is not valid"),
        ("[timing]", "[timing", "is not valid"),
        ("name = \"pynq-1x16\"", "name = \"\"", "name is \"\""),
    ];
    for (from, to, expected) in cases {
        assert!(good.contains(from), "{from}");
        let error = Profile::parse(&good.replace(from, to), "own.toml")
            .unwrap_err()
            .to_string();
        assert!(
            error.contains(expected) && error.contains("own.toml"),
            "{to}: {error}"
        );
        assert_eq!(error.lines().count(), 1, "{error}");
    }
    let error = Profile::find("/nowhere/own.toml").unwrap_err().to_string();
    assert!(error.contains("pynq-1x16, pynq-4x8"), "{error}");
    let error = Profile::find("/dev/zero").unwrap_err().to_string();
    assert!(error.contains("no regular file"), "{error}");
}
