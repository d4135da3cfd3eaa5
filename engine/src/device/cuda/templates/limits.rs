//! Limits of a GPU that templates depend on.

use serde_json::Value;

use crate::nvidia::driver;

/// Maximum number of threads of a block, on every GPU that TVM's CUDA code runs on.
pub(super) const MAX_THREADS: i64 = 1024;
/// Shared memory of a block that needs no attribute of the kernel, in bytes.
pub(super) const STATIC_SHARED_BYTES: i64 = 48 * 1024;
/// Shared memory of a block that every GPU with tensor cores since compute capability 8.0 gives on request, in bytes.
pub(super) const DYNAMIC_SHARED_BYTES: i64 = 99 * 1024;
/// Threads that execute together.
pub(super) const WARP: i64 = 32;

/// The limits that default knobs are chosen for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    /// Multiprocessors of the GPU.
    pub multiprocessors: i64,
    /// Whether it multiplies matrices of half precision in hardware.
    pub has_tensor_cores: bool,
    /// Whether it copies into shared memory while it computes, and whether its tensor cores know bfloat16: both came with
    /// compute capability 8.0.
    pub has_async_copies: bool,
}

impl Limits {
    /// The limits of this machine's GPU where the target's dictionary is for it, else those of [`Limits::of`].
    pub fn of_machine(dictionary: &Value) -> Limits {
        let limits = Limits::of(dictionary);
        match driver::driver() {
            Ok(driver) if dictionary["arch"].as_str() == Some(&driver.gpus[0].arch()) => Limits {
                multiprocessors: driver.gpus[0].multiprocessors.into(),
                ..limits
            },
            _ => limits,
        }
    }

    /// The limits of the large GPU of the generation that a target's dictionary names.
    pub fn of(dictionary: &Value) -> Limits {
        let arch = dictionary["arch"].as_str().unwrap_or_default();
        let digits = arch.trim_start_matches("sm_");
        let digits = digits.trim_end_matches(|c: char| !c.is_ascii_digit());
        let capability: u32 = digits.parse().unwrap_or(80);
        Limits {
            // The large GPU of the generation: A100, H100; a smaller one has fewer, for which the same tiles are fine.
            multiprocessors: match capability {
                ..80 => 80,
                80..90 => 108,
                _ => 132,
            },
            has_tensor_cores: capability >= 70,
            has_async_copies: capability >= 80,
        }
    }

    /// Checks that `stages` tiles of a product can be in memory at once.
    ///
    /// # Errors
    /// Fails if they cannot.
    pub fn check_stages(&self, stages: i64) -> Result<(), String> {
        match self.has_async_copies || stages <= SYNCHRONOUS_STAGES {
            true => Ok(()),
            false => Err(format!(
                "{stages} stages take asynchronous copies, of compute capability 8.0 and later"
            )),
        }
    }
}

/// Maximum number of stages of a product without asynchronous copies.
pub(super) const SYNCHRONOUS_STAGES: i64 = 2;

/// Checks that a block may have `threads` threads.
///
/// # Errors
/// Fails if it may not.
pub(super) fn check_threads(threads: i64) -> Result<(), String> {
    if (1..=MAX_THREADS).contains(&threads) {
        return Ok(());
    }
    Err(format!(
        "{threads} threads of a block; 1 to {MAX_THREADS} are possible"
    ))
}
