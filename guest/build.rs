//! Linker arguments of the component.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    // Without this option, the linker reserves five bytes for every address: 21 KB in all. It
    // rejects the option if names or line numbers are kept for a debugger. So only the profile
    // `wasm` has it, which optimises for size.
    let [target, level] = ["CARGO_CFG_TARGET_FAMILY", "OPT_LEVEL"].map(std::env::var);
    if target.is_ok_and(|target| target == "wasm") && level.is_ok_and(|level| level == "z") {
        println!("cargo::rustc-link-arg-cdylib=--compress-relocations");
    }
}
