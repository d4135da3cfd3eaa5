//! Parses a kernel's assembly: blocks between labels, the loops around them, and the effect of an instruction.
//!
//! Loops are the lines between a label and a later jump back to it. The hottest block is the one with most arithmetic,
//! or without any the one with most memory accesses. Each level of loops counts for [`PASSES`] passes, because no
//! profile says how often they run. What instructions do is read of LLVM's AT&T syntax for x86, where the last operand
//! is the destination.

use tvm_bridge::compile::{Asserts, Lowered};

use super::Program;

/// Passes that a loop is taken to make.
const PASSES: f64 = 8.0;

/// One instruction.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Instruction<'a> {
    /// Its text without label and comment.
    pub text: &'a str,
    /// Whether `%rbp` points to the stack here.
    frame_pointer: bool,
}

/// The hottest part of a kernel.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Hottest<'a> {
    /// The block: straight code between two labels.
    pub block: Vec<Instruction<'a>>,
    /// The innermost loop around it. `None` for straight code.
    pub inner_loop: Option<Vec<Instruction<'a>>>,
}

/// Straight code between two labels, by its place among all instructions.
struct Block {
    from: usize,
    to: usize,
}

/// The effect of an instruction, from its text.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Effect {
    /// The instruction works on several lanes at once.
    pub is_vector: bool,
    /// The instruction reads memory other than the stack.
    pub loads: bool,
    /// The instruction writes memory other than the stack.
    pub stores: bool,
    /// It reads or writes the stack: what registers could not hold.
    pub spills: bool,
    /// Arithmetic on floating-point values, and products of small integers, flop.
    pub flops: u32,
}

/// The assembly of a program's kernel, compiled once more.
///
/// # Errors
/// Fails with TVM's error as text.
pub(super) fn assembly(program: &Program<'_>) -> Result<String, String> {
    Lowered::new(program.module, program.target, Asserts::Dropped)
        .and_then(Lowered::generate)
        .and_then(|generated| generated.assembly())
        .map_err(|error| error.to_string())
}

/// The part of a kernel that must take most of its time. `None` if nothing reads, writes or calculates.
pub(super) fn hottest(assembly: &str) -> Option<Hottest<'_>> {
    let mut instructions: Vec<Instruction<'_>> = Vec::new();
    // Labels with the place of the instruction after them, in ascending order.
    let mut labels: Vec<(&str, usize)> = Vec::new();
    let mut frame_pointer = false;
    for line in assembly.lines() {
        let text = line.split('#').next().unwrap_or_default().trim();
        if let Some(label) = text.strip_suffix(':') {
            // Labels of functions have no dot.
            frame_pointer &= label.starts_with('.');
            labels.push((label, instructions.len()));
        } else if !text.is_empty() && !text.starts_with('.') {
            frame_pointer |= operands(text) == ["%rsp", "%rbp"];
            instructions.push(Instruction {
                text,
                frame_pointer,
            });
        }
    }
    let loops = loops(&instructions, &labels);
    let depth = |place: usize| loops.iter().filter(|l| l.contains(&place)).count();
    let score = |block: &Block| {
        let of = |count: &dyn Fn(Effect) -> u32| -> f64 {
            let all = instructions[block.from..block.to].iter();
            let sum: u32 = all.map(|i| count(i.effect())).sum();
            f64::from(sum) * PASSES.powi(depth(block.from) as i32)
        };
        let accesses = |e: Effect| u32::from(e.loads) + u32::from(e.stores);
        (of(&|e| e.flops), of(&accesses))
    };
    let mut best: Option<((f64, f64), Block)> = None;
    for block in blocks(&labels, instructions.len()) {
        let score = score(&block);
        if score > (0.0, 0.0) && best.as_ref().is_none_or(|(most, _)| score > *most) {
            best = Some((score, block));
        }
    }
    let (_, block) = best?;
    let innermost = loops.iter().filter(|l| l.contains(&block.from));
    let innermost = innermost.min_by_key(|l| l.len());
    Some(Hottest {
        inner_loop: innermost.map(|l| instructions[l.clone()].to_vec()),
        block: instructions[block.from..block.to].to_vec(),
    })
}

/// The blocks between labels.
fn blocks(labels: &[(&str, usize)], instructions: usize) -> Vec<Block> {
    let mut starts: Vec<usize> = labels.iter().map(|(_, place)| *place).collect();
    starts.insert(0, 0);
    starts.push(instructions);
    starts.dedup();
    let pairs = starts.windows(2);
    pairs
        .map(|pair| Block {
            from: pair[0],
            to: pair[1],
        })
        .collect()
}

/// The loops: from a label to the last jump back to it.
fn loops(
    instructions: &[Instruction<'_>],
    labels: &[(&str, usize)],
) -> Vec<std::ops::Range<usize>> {
    let mut found: Vec<std::ops::Range<usize>> = Vec::new();
    for (place, instruction) in instructions.iter().enumerate() {
        let Some(target) = instruction.jumps_to() else {
            continue;
        };
        let behind = |(name, at): &&(&str, usize)| *name == target && *at <= place;
        let Some((_, start)) = labels.iter().find(behind) else {
            continue;
        };
        match found.iter_mut().find(|l| l.start == *start) {
            Some(known) => known.end = place + 1,
            None => found.push(*start..place + 1),
        }
    }
    found
}

impl<'a> Instruction<'a> {
    fn mnemonic(&self) -> &'a str {
        self.text.split_whitespace().next().unwrap_or_default()
    }

    /// The label that it may jump to: of x86 `jne .LBB0_1`, of ARM `b.ne .LBB0_1` and `cbnz x8, .LBB0_1`.
    fn jumps_to(&self) -> Option<&'a str> {
        let is_jump = self.mnemonic().starts_with(['j', 'b', 'c', 't']);
        let last = self.text.split_whitespace().next_back();
        last.filter(|word| is_jump && word.starts_with('.'))
    }

    /// Its effect.
    pub fn effect(&self) -> Effect {
        let mnemonic = self.mnemonic();
        let operands = operands(self.text);
        let is_memory = |operand: &str| operand.contains('(');
        let touches = ["lea", "nop", "prefetch"]
            .iter()
            .all(|name| !mnemonic.starts_with(name));
        let memory = operands.iter().find(|o| touches && is_memory(o));
        let writes_last = operands.last().is_some_and(|o| is_memory(o));
        let (reads, writes) = match memory {
            None => (false, false),
            Some(_) if !writes_last => (true, false),
            // Jumps and calls read where to go, comparisons read both sides.
            Some(_)
                if ["j", "call", "cmp", "test", "vucomi", "ucomi"]
                    .iter()
                    .any(|n| mnemonic.starts_with(n)) =>
            {
                (true, false)
            }
            Some(_) if moves(mnemonic) => (false, true),
            Some(_) => (true, true),
        };
        let on_stack = memory.is_some_and(|operand| self.is_stack(operand));
        let lanes = lanes(mnemonic, &operands);
        Effect {
            is_vector: lanes.is_some(),
            loads: reads && !on_stack,
            stores: writes && !on_stack,
            spills: on_stack,
            flops: flops(mnemonic, lanes.unwrap_or(1)),
        }
    }

    fn is_stack(&self, operand: &str) -> bool {
        let inside = operand.split_once('(').map_or("", |(_, inside)| inside);
        let base = inside.split([',', ')']).next().unwrap_or_default();
        base == "%rsp" || (self.frame_pointer && base == "%rbp")
    }
}

/// The operands: separated by commas outside of brackets; masks (`{%k1}`) belong to theirs.
fn operands(text: &str) -> Vec<&str> {
    let Some((_, rest)) = text.split_once(char::is_whitespace) else {
        return Vec::new();
    };
    let mut depth = 0i32;
    let split = rest.split(|c: char| {
        depth += i32::from(c == '(') - i32::from(c == ')');
        c == ',' && depth == 0
    });
    split.map(str::trim).collect()
}

/// Whether an instruction writes its last operand without reading it.
fn moves(mnemonic: &str) -> bool {
    const NAMES: [&str; 7] = [
        "mov", "set", "extract", "pextr", "cvtps2ph", "scatter", "compress",
    ];
    let name = mnemonic.strip_prefix('v').unwrap_or(mnemonic);
    NAMES.iter().any(|moving| name.starts_with(moving)) || name.starts_with("pmov")
}

/// Number of lanes of 4 bytes (8 in double precision). `None` for an instruction on one value.
fn lanes(mnemonic: &str, operands: &[&str]) -> Option<u32> {
    let name = mnemonic.strip_prefix('v').unwrap_or(mnemonic);
    let single = ["ss", "sd", "sh"].iter().any(|end| name.ends_with(end));
    if (single && !name.starts_with("broadcast")) || ["movd", "movq"].contains(&name) {
        return None;
    }
    let bytes = |operand: &&str| match () {
        () if operand.contains("%zmm") => Some(64),
        () if operand.contains("%ymm") => Some(32),
        () if operand.contains("%xmm") => Some(16),
        () => None,
    };
    let widest: u32 = operands.iter().filter_map(bytes).max()?;
    Some(widest / if name.ends_with("pd") { 8 } else { 4 })
}

/// Arithmetic of an instruction on this many lanes. ARM instructions are counted as four lanes.
fn flops(mnemonic: &str, lanes: u32) -> u32 {
    const ONE: [&str; 8] = ["add", "sub", "mul", "div", "max", "min", "sqrt", "rcp"];
    const TWO: [&str; 4] = ["fmadd", "fmsub", "fnmadd", "fnmsub"];
    const ARM_ONE: [&str; 6] = ["fmul", "fadd", "fsub", "fdiv", "fmax", "fmin"];
    const ARM_TWO: [&str; 2] = ["fmla", "fmls"];
    let name = mnemonic.strip_prefix('v').unwrap_or(mnemonic);
    let begins = |names: &[&str]| names.iter().any(|n| name.starts_with(n));
    let is_float = ["ps", "pd", "ph", "ss", "sd", "sh"]
        .iter()
        .any(|end| name.ends_with(end));
    match () {
        () if is_float && begins(&TWO) => 2 * lanes,
        () if is_float && begins(&ONE) => lanes,
        // Four products of bytes, or two of 16 bits, are added to each lane.
        () if name.starts_with("pdpb") => 8 * lanes,
        () if name.starts_with("pdpw") => 4 * lanes,
        () if begins(&ARM_TWO) => 8,
        () if begins(&ARM_ONE) => 4,
        () => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn effect(text: &str) -> Effect {
        Instruction {
            text,
            frame_pointer: false,
        }
        .effect()
    }

    #[test]
    fn what_instructions_do() {
        let vector = Effect {
            is_vector: true,
            ..Effect::default()
        };
        let load = Effect {
            loads: true,
            ..vector
        };
        for (text, expected) in [
            (
                "vfmadd231ps\t(%rax,%rbx,4), %zmm1, %zmm2",
                Effect { flops: 32, ..load },
            ),
            ("vbroadcastss\t-6144(%rdi,%rbx), %zmm4", load),
            ("vmovups\t(%rax), %ymm3 {%k1} {z}", load),
            (
                "vmovups\t%zmm14, 64(%r8,%r11,4) {%k1}",
                Effect {
                    stores: true,
                    ..vector
                },
            ),
            (
                "vmovups\t-64(%rsp), %zmm14",
                Effect {
                    spills: true,
                    ..vector
                },
            ),
            ("vaddpd\t%ymm1, %ymm2, %ymm3", Effect { flops: 4, ..vector }),
            (
                "vaddss\t(%rdx), %xmm0, %xmm0",
                Effect {
                    loads: true,
                    flops: 1,
                    ..Effect::default()
                },
            ),
            (
                "addq\t$1, (%rax)",
                Effect {
                    loads: true,
                    stores: true,
                    ..Effect::default()
                },
            ),
            (
                "cmpq\t%rcx, 8(%rax)",
                Effect {
                    loads: true,
                    ..Effect::default()
                },
            ),
            ("leaq\t(%rax,%rbx), %rcx", Effect::default()),
            ("addq\t$64, %rcx", Effect::default()),
            ("vmovq\t%rax, %xmm0", Effect::default()),
            ("incq\t%r10", Effect::default()),
            ("retq", Effect::default()),
        ] {
            assert_eq!(effect(text), expected, "{text}");
        }
    }

    #[test]
    fn the_frame_pointer_is_the_stack_in_functions_that_set_it() {
        let kernel = |set: &str| {
            format!(
                "f:\n\t{set}\n.LBB0_1:\n\tvaddps\t-8(%rbp), %zmm1, %zmm1\n\tjne\t.LBB0_1\n\tretq\n"
            )
        };
        let spills = |text: &str| hottest(text).unwrap().block[0].effect().spills;
        assert!(spills(&kernel("movq\t%rsp, %rbp")));
        assert!(!spills(&kernel("movq\t%rdi, %rbp")));
        let other = kernel("movq\t%rdi, %rbp");
        assert!(!spills(&format!("g:\n\tmovq\t%rsp, %rbp\n\tretq\n{other}")));
    }

    #[test]
    fn a_deeper_loop_is_hotter_and_the_innermost_is_taken() {
        let text = "f:\n.LBB0_1:\n\tvaddps\t%zmm1, %zmm2, %zmm1\n\tvaddps\t%zmm1, %zmm2, %zmm1\n.LBB0_2:\n\
            \tvmulps\t%zmm1, %zmm2, %zmm1\n\tjae\t.LBB0_4\n.LBB0_3:\n\tmovq\t(%rax), %rbx\n.LBB0_4:\n\tdecq\t%rcx\n\
            \tjne\t.LBB0_2\n\tdecq\t%rdx\n\tjne\t.LBB0_1\n\tretq\n";
        let found = hottest(text).unwrap();
        assert_eq!(found.block.len(), 2);
        let texts: Vec<&str> = found.inner_loop.unwrap().iter().map(|i| i.text).collect();
        assert_eq!(
            texts,
            [
                "vmulps\t%zmm1, %zmm2, %zmm1",
                "jae\t.LBB0_4",
                "movq\t(%rax), %rbx",
                "decq\t%rcx",
                "jne\t.LBB0_2"
            ]
        );
    }

    #[test]
    fn copies_have_a_hottest_loop_too_and_nothing_has_none() {
        let copy = "f:\n\tmovq\t(%rdi), %rax\n.LBB0_1:\n\tvmovups\t(%rax), %zmm0\n\tvmovups\t%zmm0, (%rbx)\n\
            \tjne\t.LBB0_1\n\tretq\n";
        assert_eq!(hottest(copy).unwrap().inner_loop.unwrap().len(), 3);
        assert_eq!(hottest("f:\n\tretq\n"), None);
        assert_eq!(hottest(""), None);
    }
}
