//! Runs the tests that need more than Rust and a C compiler. Modules of the other test programs
//! register them with `needs!`.

#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::panic)]
#![allow(
    dead_code,
    unused_imports,
    reason = "the other tests of these modules are not compiled here"
)]

use std::process::ExitCode;

#[path = "../end_to_end/main.rs"]
mod end_to_end;
#[path = "../project/main.rs"]
mod project;

use end_to_end::PROGRAM;

fn main() -> ExitCode {
    tenure_tests::trials::run()
}
