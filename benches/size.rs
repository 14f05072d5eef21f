//! The size of the component.
//!
//! ```text
//! cargo bench -p tenure-tests --bench size
//! ```

use std::process::ExitCode;

use tenure::component::ELECTION_COMPONENT;

/// In bytes: 180 KB.
const BOUND: usize = 180_000;

fn main() -> ExitCode {
    let size = ELECTION_COMPONENT.len();
    let met = size <= BOUND;
    println!("component: {size} bytes, bound {BOUND}: {}", if met { "met" } else { "MISSED" });
    if met { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
