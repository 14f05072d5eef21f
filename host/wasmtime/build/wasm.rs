//! Builds packages of this workspace as WebAssembly components, from a build script.
//!
//! Shared by the build scripts of `host/wasmtime` and `tests`. Each calls a nested cargo, whose
//! target directory is `wasm` inside the outer one, because cargo locks its own. All profiles,
//! features and lints share it, so each component is built once.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

const TARGET: &str = "wasm32-wasip2";
const PROFILE: &str = "wasm";

/// Builds the library of a package with these features. Returns a copy of its `.wasm` file, which
/// later builds of this package with other features do not overwrite.
///
/// All builds go to one target directory, so a dependency that packages share, with equal features,
/// is compiled once.
///
/// Exits the build script with the compiler's error if the compiler fails.
pub fn build(workspace: &Path, package: &str, features: &[&str]) -> Result<PathBuf, String> {
    ensure_target()?;
    let out = out_dir()?;
    let target_dir = ancestor(&out, 4)?.join("wasm");
    run_cargo(workspace, package, features, &target_dir)?;
    let library = format!("{}.wasm", package.replace('-', "_"));
    let built = target_dir.join(TARGET).join(PROFILE).join(library);
    let name = [&[package], features].concat().join("-");
    let copy = out.join(format!("{name}.built.wasm"));
    fs::copy(&built, &copy).map_err(|error| format!("{}: {error}", built.display()))?;
    Ok(copy)
}

/// Builds one package. If cargo built several at a time, it would merge the features of their
/// dependencies. The election component must not get other features, because it is built without
/// the standard library.
fn run_cargo(
    workspace: &Path,
    package: &str,
    features: &[&str],
    target_dir: &Path,
) -> Result<(), String> {
    let mut cargo = Command::new(variable("CARGO")?);
    cargo.arg("rustc").arg("--manifest-path").arg(workspace.join("Cargo.toml"));
    cargo.args(["--package", package, "--features", &features.join(",")]);
    // Otherwise cargo would also build the `rlib` of a package that has one, and silently skip the
    // link-time optimisation.
    cargo.args(["--lib", "--crate-type", "cdylib"]);
    cargo.args(["--target", TARGET, "--profile", PROFILE]);
    cargo.arg("--target-dir").arg(target_dir);
    if workspace.join("Cargo.lock").exists() {
        cargo.arg("--locked");
    }
    clear_inherited(&mut cargo);
    // Cargo adds these flags to those in `.cargo/config.toml`; a variable would replace those.
    cargo.arg("--config").arg(format!("target.{TARGET}.rustflags={:?}", remap_flags()));
    cargo.current_dir(workspace);
    let output = run(&mut cargo)?;
    if !output.status.success() {
        // Cargo shows a build script's output only when its exit code reports a failure.
        eprintln!("{}", String::from_utf8_lossy(&output.stderr));
        eprintln!("building {package} for {TARGET} failed");
        std::process::exit(1);
    }
    Ok(())
}

/// Returns the path of a prebuilt component in the environment variable `name`, if it is set.
pub fn from_env(name: &str) -> Result<Option<PathBuf>, String> {
    println!("cargo::rerun-if-env-changed={name}");
    let Some(value) = env::var_os(name) else {
        return Ok(None);
    };
    let path = PathBuf::from(value);
    if !path.is_absolute() {
        return Err(format!("{name}={} must be an absolute path", path.display()));
    }
    let bytes = fs::read(&path).map_err(|e| format!("{name}={}: {e}", path.display()))?;
    // The preamble of a component: magic, version 0x0d, layer 1. A core module has layer 0.
    if !bytes.starts_with(b"\0asm\x0d\0\x01\0") {
        return Err(format!("{name}={} is not a WebAssembly component", path.display()));
    }
    println!("cargo::rerun-if-changed={}", path.display());
    Ok(Some(path))
}

/// Copies `from` to `components/NAME` next to the programs of this build.
///
/// The copy is only a convenience: a build succeeds without it.
#[allow(dead_code, reason = "only one of the build scripts copies")]
pub fn copy_to_target(from: &Path, name: &str) {
    let Ok(out) = out_dir() else { return };
    let Ok(profile) = ancestor(&out, 3) else { return };
    let directory = profile.join("components");
    let to = directory.join(name);
    let Ok(bytes) = fs::read(from) else { return };
    if fs::read(&to).is_ok_and(|old| old == bytes) {
        return;
    }
    // Renamed into place, because another program may be reading the old one.
    let part = directory.join(format!("{name}.part"));
    let copied = fs::create_dir_all(&directory)
        .and_then(|()| fs::write(&part, bytes))
        .and_then(|()| fs::rename(&part, &to));
    if let Err(error) = copied {
        println!("cargo::warning={} could not be written: {error}", to.display());
    }
}

/// Returns the root of the workspace of a package, if it has the source of the components.
pub fn workspace(package: &Path) -> Option<PathBuf> {
    let mut parents = package.ancestors().skip(1);
    parents.find(|folder| folder.join("guest/Cargo.toml").exists()).map(Path::to_path_buf)
}

/// Returns the folder of the package of this build script.
pub fn package() -> Result<PathBuf, String> {
    variable("CARGO_MANIFEST_DIR").map(PathBuf::from)
}

/// Makes cargo run the build script again when one of these inputs changes.
pub fn watch(workspace: &Path, inputs: &[&str]) {
    for input in inputs {
        println!("cargo::rerun-if-changed={}", workspace.join(input).display());
    }
}

fn ensure_target() -> Result<(), String> {
    if is_target_installed()? {
        return Ok(());
    }
    let mut add = Command::new("rustup");
    add.args(["target", "add", TARGET]);
    let mut command = format!("rustup target add {TARGET}");
    // Uses the toolchain of this build, not the default of the machine.
    if let Ok(toolchain) = env::var("RUSTUP_TOOLCHAIN") {
        add.args(["--toolchain", &toolchain]);
        command = format!("{command} --toolchain {toolchain}");
    }
    let added = run(&mut add).is_ok_and(|output| output.status.success());
    if added && is_target_installed()? {
        return Ok(());
    }
    Err(format!("the target {TARGET} is not installed, and could not be added; run: {command}"))
}

fn is_target_installed() -> Result<bool, String> {
    let output = run(Command::new(variable("RUSTC")?).args(["--print", "sysroot"]))?;
    let sysroot = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    Ok(Path::new(&sysroot).join("lib/rustlib").join(TARGET).join("lib").exists())
}

/// Removes the outer cargo's settings for the host's build: flags, wrappers (such as clippy's), the
/// target directory, the job server. Settings of package sources stay.
fn clear_inherited(command: &mut Command) {
    // `CARGO_REGISTR` begins the names of both `CARGO_REGISTRY_*` and `CARGO_REGISTRIES_*`.
    const KEPT_PREFIXES: [&str; 5] =
        ["CARGO_HOME", "CARGO_NET_", "CARGO_HTTP_", "CARGO_REGISTR", "CARGO_SOURCE_"];
    const REMOVED_PREFIXES: [&str; 8] = [
        "CARGO",
        "RUSTFLAGS",
        "RUSTC_",
        "RUSTDOC",
        "MAKEFLAGS",
        "MFLAGS",
        "LLVM_PROFILE_FILE",
        "__CARGO",
    ];
    for (name, _) in env::vars_os() {
        let Some(text) = name.to_str() else { continue };
        let has_prefix = |prefixes: &[&str]| prefixes.iter().any(|prefix| text.starts_with(prefix));
        if has_prefix(&REMOVED_PREFIXES) && !has_prefix(&KEPT_PREFIXES) {
            command.env_remove(&name);
        }
    }
}

/// Returns compiler flags that keep this machine's paths and the name of its registry directory out
/// of the component.
fn remap_flags() -> Vec<String> {
    let home = env::var("CARGO_HOME").ok().or_else(|| {
        let user = env::var("HOME").ok()?;
        Some(format!("{user}/.cargo"))
    });
    let sources = home.and_then(|home| fs::read_dir(Path::new(&home).join("registry/src")).ok());
    let registries = sources.into_iter().flatten().flatten();
    let mut flags: Vec<_> = registries
        .map(|registry| format!("--remap-path-prefix={}=registry", registry.path().display()))
        .collect();
    // Sorted, because directories have no order, and cargo builds again if the flags change.
    flags.sort();
    flags
}

fn run(command: &mut Command) -> Result<Output, String> {
    let program = command.get_program().to_string_lossy().into_owned();
    command.output().map_err(|error| format!("{program} could not be started: {error}"))
}

/// Returns the output folder of this build script.
pub fn out_dir() -> Result<PathBuf, String> {
    variable("OUT_DIR").map(PathBuf::from)
}

/// Returns the ancestor `levels` above the output folder,
/// `<target>/<profile>/build/<package>-<hash>/out`.
fn ancestor(out: &Path, levels: usize) -> Result<&Path, String> {
    out.ancestors().nth(levels).ok_or_else(|| format!("{} is not in a build", out.display()))
}

pub fn variable(name: &str) -> Result<String, String> {
    env::var(name).map_err(|_| format!("cargo did not set {name}"))
}
