//! What the component is linked with.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    // In the profile `wasm`, which is the one for size. The linker leaves five bytes for every address
    // else, 21 KB in all; it refuses to do without them where names or lines are kept for a debugger.
    let [target, level] = ["CARGO_CFG_TARGET_FAMILY", "OPT_LEVEL"].map(std::env::var);
    if target.is_ok_and(|target| target == "wasm") && level.is_ok_and(|level| level == "z") {
        println!("cargo::rustc-link-arg-cdylib=--compress-relocations");
    }
}
