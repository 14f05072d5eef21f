//! The program `tenure`.

fn main() -> std::process::ExitCode {
    tenure_cli::main()
}
