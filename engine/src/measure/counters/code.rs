//! `code`: instructions in the innermost loop of the emitted code, counted in LLVM's assembly. Nothing is run for it.
//!
//! The kernel's schedule is compiled once more, as its assembly is not kept. The loop is the one around the hottest block
//! ([`super::assembly`]); of a kernel without loops it is that block.

use super::assembly::{Effect, assembly, hottest};
use super::{Counter, CounterError, Program, Simulated, Simulator};

/// The kind.
#[derive(Clone, Copy)]
pub(super) struct Code;

const NAME: &str = "code";

/// A counter's name, its unit, and its count for an instruction.
type Event = (&'static str, &'static str, fn(Effect) -> u32);

/// Counters: of one pass through the loop.
const EVENTS: [Event; 6] = [
    ("loop-flops", "flop", |e| e.flops),
    ("loop-vector", "instructions", |e| u32::from(e.is_vector)),
    ("loop-scalar", "instructions", |e| u32::from(!e.is_vector)),
    ("loop-loads", "instructions", |e| u32::from(e.loads)),
    ("loop-stores", "instructions", |e| u32::from(e.stores)),
    ("loop-spills", "instructions", |e| u32::from(e.spills)),
];

fn problem(reason: impl Into<String>, next: &str) -> CounterError {
    CounterError::new(NAME, reason, next)
}

impl Simulator for Code {
    fn name(&self) -> &'static str {
        NAME
    }

    fn title(&self) -> &'static str {
        "instructions in the innermost loop of the emitted code"
    }

    fn counters(&self) -> Vec<Counter> {
        let counter = |(name, unit, _): &Event| Counter::new(*name, *unit);
        EVENTS.iter().map(counter).collect()
    }

    fn available(&self) -> Result<String, CounterError> {
        match cfg!(target_arch = "x86_64") {
            true => Ok("LLVM's assembly".to_owned()),
            false => Err(problem(
                format!("it reads x86's assembly, not {}'s", std::env::consts::ARCH),
                "count on x86-64, or leave code out",
            )),
        }
    }

    fn count(&self, program: &Program<'_>) -> Result<Simulated, CounterError> {
        self.available()?;
        let assembly = assembly(program).map_err(|e| problem(e, "report this operator"))?;
        let effects = inner_loop(&assembly).ok_or_else(|| {
            problem(
                "the kernel reads, writes and calculates nothing",
                "leave code out",
            )
        })?;
        let values = EVENTS.iter().map(|event| Ok(total(&effects, event)));
        Ok(Simulated {
            values: values.collect(),
            cpu: None,
        })
    }
}

/// The effects of the innermost loop's instructions.
fn inner_loop(assembly: &str) -> Option<Vec<Effect>> {
    let found = hottest(assembly)?;
    let all = found.inner_loop.unwrap_or(found.block);
    Some(all.iter().map(|instruction| instruction.effect()).collect())
}

/// The sum of a counter over instructions.
fn total(effects: &[Effect], (.., of): &Event) -> f64 {
    effects.iter().map(|effect| f64::from(of(*effect))).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_innermost_loop_is_counted() {
        let text = "f:\n\tvmovups\t(%rsi), %zmm9\n.LBB0_1:\n\tvmovups\t(%rax), %zmm0\n\tvbroadcastss\t(%rcx), %zmm3\n\
            \tvfmadd231ps\t%zmm0, %zmm3, %zmm1\n\tvfmadd231ps\t4(%rcx){1to16}, %zmm0, %zmm2\n\
            \tvmovups\t%zmm2, 64(%rsp)\n\tvmovups\t%zmm2, (%rdx)\n\taddq\t$64, %rax\n\tcmpq\t%rax, %rbx\n\
            \tjne\t.LBB0_1\n\tretq\n";
        let effects = inner_loop(text).unwrap();
        let counts: Vec<(&str, f64)> = EVENTS
            .iter()
            .map(|event| (event.0, total(&effects, event)))
            .collect();
        assert_eq!(
            counts,
            [
                ("loop-flops", 64.0),
                ("loop-vector", 6.0),
                ("loop-scalar", 3.0),
                ("loop-loads", 3.0),
                ("loop-stores", 1.0),
                ("loop-spills", 1.0),
            ]
        );
        assert_eq!(inner_loop("f:\n\tretq\n"), None);
    }
}
