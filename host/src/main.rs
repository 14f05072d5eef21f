//! The program `tenure`.

fn main() -> std::process::ExitCode {
    tenure::cli::main()
}
