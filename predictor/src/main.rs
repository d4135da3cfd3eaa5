//! `oppredict`: see `oppredict --help`.

fn main() -> std::process::ExitCode {
    oppredict::cli::main()
}
