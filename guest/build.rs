//! What the component is linked with, and where the doctor is part of it.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    // What only the doctor asks is in his component, and natively for the tests: the election
    // component would grow by it.
    println!("cargo::rustc-check-cfg=cfg(doctor)");
    let family = std::env::var("CARGO_CFG_TARGET_FAMILY").unwrap_or_default();
    if family != "wasm" || std::env::var_os("CARGO_FEATURE_DOCTOR").is_some() {
        println!("cargo::rustc-cfg=doctor");
    }
    // In the profile `wasm`, which is the one for size. The linker leaves five bytes for every address
    // else, 21 KB in all; it refuses to do without them where names or lines are kept for a debugger.
    let [target, level] = ["CARGO_CFG_TARGET_FAMILY", "OPT_LEVEL"].map(std::env::var);
    if target.is_ok_and(|target| target == "wasm") && level.is_ok_and(|level| level == "z") {
        println!("cargo::rustc-link-arg-cdylib=--compress-relocations");
    }
}
