//! The program `tenure`, built beside the tests that run it.

fn main() -> std::process::ExitCode {
    tenure_cli::main()
}
