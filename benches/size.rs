//! The size of what is shipped: the election component, which is the socket too, and `tenure.wasm`.
//!
//! ```text
//! cargo bench -p tenure-tests --bench size
//! ```

use std::process::ExitCode;

use tenure::component::ELECTION_COMPONENT;
use tenure::compose::UNIVERSAL_COMPONENT;

/// In bytes.
const BOUNDS: [(&str, &[u8], usize); 2] = [
    ("component", ELECTION_COMPONENT, 280_000),
    ("with the built-in handler", UNIVERSAL_COMPONENT, 320_000),
];

fn main() -> ExitCode {
    let mut all = true;
    for (what, component, bound) in BOUNDS {
        let size = component.len();
        let met = size <= bound;
        println!("{what}: {size} bytes, bound {bound}: {}", if met { "met" } else { "MISSED" });
        all &= met;
    }
    if all { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
