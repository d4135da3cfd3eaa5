//! `oppredict`: see `oppredict --help`.

/// Returns memory to the system less often than the default allocator, which would cost several seconds for a file of a
/// million rows.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Lets glibc keep what XGBoost frees. Each tree reuses the memory of the one before. Fresh pages would take a
/// twentieth of the time of training. Rust's own memory is the other allocator's.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
fn keep_memory() {
    // glibc's largest value for blocks that it keeps, bytes.
    const KEPT: libc::c_int = 32 << 20;
    const UNTRIMMED: libc::c_int = 1 << 30;
    // SAFETY: both set a number of the allocator; a refusal leaves it as it was.
    unsafe {
        libc::mallopt(libc::M_MMAP_THRESHOLD, KEPT);
        libc::mallopt(libc::M_TRIM_THRESHOLD, UNTRIMMED);
    }
}

fn main() -> std::process::ExitCode {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    keep_memory();
    oppredict::cli::main()
}
