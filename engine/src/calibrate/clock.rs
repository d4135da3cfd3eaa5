//! Measures the clock of a busy core: it times a chain of dependent additions, which take one cycle each.
//!
//! On bare metal the kernel reports the current clock. In a virtual machine it reports the rate of the time-stamp counter
//! instead, which can differ from the clock of every core.

use std::time::{Duration, Instant};

/// Additions in one run, about a tenth of a millisecond at 4 GHz.
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
const ADDITIONS: u32 = 1 << 19;
/// Time spent on counting: long enough for a core to have left its idle clock.
const SPENT: Duration = Duration::from_millis(200);

/// The clock in GHz, from the fastest of many runs. `None` on a processor whose additions may take more than a cycle.
pub fn clock_ghz() -> Option<f64> {
    let begin = Instant::now();
    let mut best = None;
    while begin.elapsed() < SPENT {
        let start = Instant::now();
        let additions = chain()?;
        let ns = start.elapsed().as_nanos().max(1) as f64;
        best = Some(f64::max(best.unwrap_or(0.0), additions / ns));
    }
    best
}

/// Runs a chain of register additions; returns how many.
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
fn chain() -> Option<f64> {
    let (mut sum, addend) = (1u64, 3u64);
    for _ in 0..ADDITIONS / 8 {
        // In assembly, because a compiler would make one multiplication of the whole.
        #[cfg(target_arch = "x86_64")]
        // SAFETY: arithmetic on two registers that are its own; neither memory nor the stack is touched.
        unsafe {
            std::arch::asm!(
                "add {sum}, {addend}", "add {sum}, {addend}", "add {sum}, {addend}", "add {sum}, {addend}",
                "add {sum}, {addend}", "add {sum}, {addend}", "add {sum}, {addend}", "add {sum}, {addend}",
                sum = inout(reg) sum, addend = in(reg) addend, options(nomem, nostack),
            );
        }
        #[cfg(target_arch = "aarch64")]
        // SAFETY: as above.
        unsafe {
            std::arch::asm!(
                "add {sum}, {sum}, {addend}", "add {sum}, {sum}, {addend}",
                "add {sum}, {sum}, {addend}", "add {sum}, {sum}, {addend}",
                "add {sum}, {sum}, {addend}", "add {sum}, {sum}, {addend}",
                "add {sum}, {sum}, {addend}", "add {sum}, {sum}, {addend}",
                sum = inout(reg) sum, addend = in(reg) addend, options(nomem, nostack),
            );
        }
    }
    std::hint::black_box(sum);
    Some(f64::from(ADDITIONS))
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
fn chain() -> Option<f64> {
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
    fn a_clock_is_that_of_a_processor() {
        // Even an unoptimised loop around eight additions does not take a hundred times their cycles.
        let ghz = clock_ghz().unwrap();
        assert!((0.01..10.0).contains(&ghz), "{ghz} GHz");
    }
}
