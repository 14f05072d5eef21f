//! `tenure compose`: combines an election and a handler into one component.

use crate::output::{CommandResult, fail, print};
use clap::Args;
use std::fmt::{Display, Write as _};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use tenure_wasmtime::compose::{self, ComposeError, Composed};

const COMPOSE_HELP: &str = "\
The composed component runs one whole turn for each call: as a command (wasi:cli/run), as an HTTP server (POST \
/tick, GET /leader, GET /healthz) or by Spin's cron trigger. It is configured by the variables TENURE_ELECTION, \
AZURE_STORAGE_CONNECTION_STRING, TENURE_EVERY or TENURE_CRON and the others; over HTTP, TENURE_TICK_TOKEN too. The \
handler sees none of them.

Nothing renews the lease during a turn there. It lasts 60 s unless TENURE_LEASE says otherwise. A turn that takes \
longer than the lease less the margin (48 s) has the outcome `overran`. A handler that traps ends the whole instance: \
its slot stays claimed, and the lease is not released, but expires.

Exit codes: 0 it is written; 2 it is not.";

#[derive(Args)]
#[command(after_long_help = COMPOSE_HELP)]
pub(super) struct ComposeArguments {
    /// The handler: a component that exports tenure:election/leader-handler. Without it, the component posts each turn
    /// to TENURE_HANDLER_URL, as tenure.wasm does
    #[arg(value_name = "HANDLER.wasm")]
    pub handler: Option<PathBuf>,
    /// Where to write the composed component
    #[arg(short, long, value_name = "APP.wasm")]
    pub output: PathBuf,
    /// Adds Spin's variables to the environment: tenure_every becomes TENURE_EVERY. Only Spin runs the component then
    #[arg(long)]
    pub spin_variables: bool,
    /// Replaces an existing file
    #[arg(long)]
    pub force: bool,
}

pub(super) fn compose(arguments: &ComposeArguments) -> CommandResult {
    let ComposeArguments { handler, output, spin_variables, force } = arguments;
    let source = handler.as_deref().unwrap_or(Path::new("tenure.wasm"));
    let unusable = |error: &dyn Display| fail(format_args!("{}: {error}", source.display()));
    let composed = match handler {
        Some(handler) => {
            let bytes = std::fs::read(handler).map_err(|error| unusable(&error))?;
            compose::compose(&bytes)
        }
        None => Composed::webhook(),
    };
    let composed = composed.and_then(|composed| {
        if *spin_variables { composed.with_spin_variables() } else { Ok(composed) }
    });
    let composed = composed.map_err(|error: ComposeError| unusable(&error))?;
    write(output, &composed.bytes, *force).map_err(|error| match error.kind() {
        io::ErrorKind::AlreadyExists => {
            fail(format_args!("{} exists already; --force replaces it", output.display()))
        }
        _ => fail(format_args!("{}: {error}", output.display())),
    })?;
    print(&summary(output, &composed));
    Ok(ExitCode::SUCCESS)
}

/// Writes the file atomically: to a temporary file first, which is then renamed.
fn write(output: &Path, bytes: &[u8], force: bool) -> io::Result<()> {
    let directory = output.parent().filter(|parent| !parent.as_os_str().is_empty());
    let mut part = tempfile::NamedTempFile::new_in(directory.unwrap_or(Path::new(".")))?;
    part.write_all(bytes)?;
    make_readable(part.as_file())?;
    match force {
        true => part.persist(output)?,
        false => part.persist_noclobber(output)?,
    };
    Ok(())
}

/// Sets the usual permissions, because temporary files are private to their owner.
#[cfg(unix)]
fn make_readable(file: &std::fs::File) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt as _;
    file.set_permissions(std::fs::Permissions::from_mode(0o644))
}

#[cfg(not(unix))]
fn make_readable(_: &std::fs::File) -> io::Result<()> {
    Ok(())
}

fn summary(output: &Path, composed: &Composed) -> String {
    let mut text = String::new();
    let mut row = |name: &str, value: &str| {
        let _ = writeln!(text, "{name:<9} {value}");
    };
    let size = bytesize::ByteSize(composed.bytes.len() as u64).display().si().to_string();
    row("composed", &format!("{} ({size})", output.display()));
    row("exports", &composed.exports.join(", "));
    let Some(imports) = &composed.handler_imports else {
        row("handler", "none; each turn is posted to TENURE_HANDLER_URL");
        return text;
    };
    let imports = match imports.as_slice() {
        [] => "nothing".to_owned(),
        names => names.join(", "),
    };
    row("handler", &format!("imports {imports}; the platform decides what it is granted"));
    if composed.filtered {
        row(
            "filter",
            "it sees the environment without AZURE_*, IDENTITY_*, MSI_* and TENURE_*, but with \
             TENURE_HANDLER_*",
        );
    }
    row(
        "note",
        "a handler that traps ends the whole instance: its slot stays claimed, and the lease is not released, but \
         expires",
    );
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn existing_file_is_kept_without_force() {
        let directory = tempfile::tempdir().unwrap();
        let output = directory.path().join("app.wasm");
        write(&output, b"one", false).unwrap();
        let refused = write(&output, b"two", false).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(std::fs::read(&output).unwrap(), b"one");
        write(&output, b"two", true).unwrap();
        assert_eq!(std::fs::read(&output).unwrap(), b"two");
        assert_eq!(directory.path().read_dir().unwrap().count(), 1, "nothing is left behind");
    }
}
