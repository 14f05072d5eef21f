//! Access control for calls that start a turn.

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

use tenure_base::prelude::*;
use tenure_core::{Complaint, SettingId};

/// The variables.
pub mod variable {
    /// The bearer token that a call for a turn has to present.
    pub const TOKEN: &str = "TENURE_TICK_TOKEN";
    /// `true`: any caller may start a turn.
    pub const OPEN: &str = "TENURE_TICK_OPEN";
}

/// The callers that may start a turn.
pub enum Access {
    /// Callers that present this token.
    Token(String),
    /// Any caller: the operator has allowed it.
    Open,
    /// No caller, until one of the two variables is set.
    Closed(Complaint),
}

/// The result of the access check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admission {
    /// The caller may start a turn.
    Granted,
    /// The caller presents no token, or a wrong one.
    Denied,
    /// No caller may start a turn.
    Closed,
}

impl Access {
    /// Reads both variables. A variable that is set but empty counts as not set.
    pub fn from_variables(variable: impl Fn(&str) -> Option<String>) -> Self {
        let get = |name| variable(name).filter(|value| !value.trim().is_empty());
        let complaint = |setting: &'static str, problem: &str, advice: &str| {
            Self::Closed(Complaint {
                setting: SettingId::new(setting),
                problem: problem.into(),
                advice: advice.into(),
            })
        };
        let open = get(variable::OPEN);
        match (get(variable::TOKEN), open.as_deref().map(str::trim)) {
            (Some(_), Some("true")) => complaint(
                variable::OPEN,
                "is true although a token is set",
                "leave out one of the two",
            ),
            (_, Some(other)) if !matches!(other, "true" | "false") => complaint(
                variable::OPEN,
                "is neither true nor false",
                "leave it out, or choose one",
            ),
            (Some(token), _) => Self::Token(token.trim().into()),
            (None, Some("true")) => Self::Open,
            (None, _) => complaint(
                variable::TOKEN,
                "no token is set, so no caller may start a turn over HTTP",
                "set it to a long random text, and have the caller send it as a bearer token; or \
                 set TENURE_TICK_OPEN=true where only trusted callers can reach this",
            ),
        }
    }

    /// Checks the `authorization` header of a call.
    #[must_use]
    pub fn check(&self, authorization: Option<&[u8]>) -> Admission {
        let is_granted = match self {
            Self::Open => true,
            Self::Closed(_) => return Admission::Closed,
            Self::Token(token) => authorization
                .and_then(bearer)
                .is_some_and(|presented| is_same_token(token.as_bytes(), presented.trim_ascii())),
        };
        if is_granted { Admission::Granted } else { Admission::Denied }
    }
}

/// Returns the token of a header; its scheme may be in any case (RFC 9110, 11.1).
fn bearer(header: &[u8]) -> Option<&[u8]> {
    const SCHEME: &[u8] = b"bearer ";
    let (scheme, token) = header.split_at_checked(SCHEME.len())?;
    scheme.eq_ignore_ascii_case(SCHEME).then_some(token)
}

/// Compares two tokens in a time that depends only on their lengths, by comparing their MACs with
/// the library.
fn is_same_token(token: &[u8], presented: &[u8]) -> bool {
    let mac = |bytes: &[u8]| {
        let mut signature = <Hmac<Sha256> as KeyInit>::new_from_slice(b"tenure").ok()?;
        signature.update(bytes);
        Some(signature)
    };
    match (mac(token), mac(presented)) {
        (Some(token), Some(presented)) => presented.verify(&token.finalize().into_bytes()).is_ok(),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn access(token: &str, open: &str) -> Access {
        Access::from_variables(|name| {
            Some(if name == variable::TOKEN { token } else { open }.to_string())
        })
    }

    #[test]
    fn only_the_token_is_admitted() {
        let access = access(" s3cret ", "");
        let check = |header: &str| access.check(Some(header.as_bytes()));
        assert_eq!(check("Bearer s3cret"), Admission::Granted);
        assert_eq!(check("bearer  s3cret"), Admission::Granted);
        for wrong in
            ["", "Bearer", "Bearer ", "Bearer s3cre", "Bearer s3cret2", "s3cret", "Basic s3cret"]
        {
            assert_eq!(check(wrong), Admission::Denied, "{wrong}");
        }
        assert_eq!(access.check(None), Admission::Denied);
    }

    #[test]
    fn without_a_token_access_is_closed_unless_open_is_set() {
        assert_eq!(access("", "").check(Some(b"Bearer ")), Admission::Closed);
        assert_eq!(access(" ", "false").check(None), Admission::Closed);
        assert_eq!(access("", "yes").check(None), Admission::Closed);
        assert_eq!(access("a", "true").check(Some(b"Bearer a")), Admission::Closed);
        assert_eq!(access("", "true").check(None), Admission::Granted);
        assert_eq!(access("a", "false").check(Some(b"Bearer a")), Admission::Granted);
    }
}
