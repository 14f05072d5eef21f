//! The program `tenure`, built together with the tests that run it.

fn main() -> std::process::ExitCode {
    tenure_cli::main()
}
