//! `oppredict`: see `oppredict --help`.

/// Gives memory back less eagerly than the system's, which costs a million rows of a file several seconds.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> std::process::ExitCode {
    oppredict::cli::main()
}
