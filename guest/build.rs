//! Linker arguments of the component.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    // Only in the profile `wasm`, which optimises for size. Otherwise the linker leaves five bytes
    // for every address, 21 KB in all. It rejects the option if names or lines are kept for a
    // debugger.
    let [target, level] = ["CARGO_CFG_TARGET_FAMILY", "OPT_LEVEL"].map(std::env::var);
    if target.is_ok_and(|target| target == "wasm") && level.is_ok_and(|level| level == "z") {
        println!("cargo::rustc-link-arg-cdylib=--compress-relocations");
    }
}
