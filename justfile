# What a developer does daily. `just` lists it.

_default:
    @just --list --unsorted

# Formatting and lints, without tests
check:
    cargo fmt --all --check
    cargo clippy --workspace --all-targets --locked -- -D warnings

# The test suite, or the part of it whose names contain NAME
test NAME="":
    cargo test --workspace --locked {{ NAME }}

# Elections in virtual time: SEEDS schedules of the pure core
simulate SEEDS="10000":
    cargo run --package tenure-simulation --release --locked --bin simulate -- --seeds {{ SEEDS }}

# The demo, in this terminal (or `just demo --page`, in a browser)
demo *OPTIONS:
    cargo run --release --locked -- demo {{ OPTIONS }}

# The crates' documentation, and the book where mdbook is installed
docs:
    RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps --locked
    if command -v mdbook >/dev/null; then mdbook build; fi
