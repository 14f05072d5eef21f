//! The token by which operators steer a candidate: from a file or a variable, never from an argument.

use super::complaint::{Complaint, shown};
use super::exposed;
use std::path::{Path, PathBuf};
use tenure::server::ControlToken;
use tenure::settings::names;

/// A file that holds it; also the variable of `--control-token-file`.
const TOKEN_FILE: &str = "TENURE_CONTROL_TOKEN_FILE";

const ADVICE: &str = "use a long random text of letters and digits, 16 characters or more";

/// The token; none when none is set.
///
/// # Errors
///
/// The file cannot be read, or what is set is no token. It is not shown.
pub(super) fn read(flag: Option<&Path>) -> Result<Option<ControlToken>, Complaint> {
    let (source, token) = match (file(flag), variable(names::CONTROL_TOKEN)) {
        (Some((source, file)), _) => {
            let source = format!("{source} {}", shown(&file.to_string_lossy()));
            let token = std::fs::read_to_string(&file).map_err(|error| {
                let problem = format!("the file cannot be read: {error}");
                Complaint::new(&source, problem, "name a readable file that holds the token")
            })?;
            (source, token)
        }
        (None, Some(token)) => (names::CONTROL_TOKEN.to_owned(), token),
        (None, None) => return Ok(None),
    };
    let problem = |problem| Complaint::new(source, format!("the token {problem}"), ADVICE);
    ControlToken::new(&token).map(Some).map_err(problem)
}

/// What to tell of the file, when others may read it.
pub(super) fn exposed(flag: Option<&Path>) -> Option<String> {
    exposed::warning(&file(flag)?.1)
}

/// The file that holds it, and what names that.
fn file(flag: Option<&Path>) -> Option<(&'static str, PathBuf)> {
    match flag {
        Some(file) => Some(("--control-token-file", file.to_owned())),
        None => variable(TOKEN_FILE).map(|file| (TOKEN_FILE, file.into())),
    }
}

fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.trim().is_empty())
}
