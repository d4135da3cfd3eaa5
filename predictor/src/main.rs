//! `oppredict`: see `oppredict --help`.

/// Gives memory back less eagerly than the system's, which costs a million rows of a file several seconds.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Lets glibc keep what XGBoost frees. Each tree takes again what the one before gave back, and fresh pages are a
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
