//! The size of what is shipped: the election component, which is the socket too, and `tenure.wasm`,
//! which is the same with the webhook inside.
//!
//! ```text
//! cargo bench -p tenure-tests --bench size
//! ```

use std::process::ExitCode;

use tenure::component::ELECTION_COMPONENT;
use tenure::compose::UNIVERSAL_COMPONENT;

fn main() -> ExitCode {
    let [socket, universal] = [ELECTION_COMPONENT, UNIVERSAL_COMPONENT].map(<[u8]>::len);
    let bounds = [
        ("election.wasm", socket, 400_000),
        ("tenure.wasm", universal, 400_000),
        ("what the webhook adds", universal.saturating_sub(socket), 20_000),
    ];
    let mut all = true;
    for (what, size, bound) in bounds {
        let met = size <= bound;
        println!("{what}: {size} bytes, bound {bound}: {}", if met { "met" } else { "MISSED" });
        all &= met;
    }
    if all { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
