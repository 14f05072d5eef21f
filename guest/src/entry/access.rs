//! Who may call for a turn.

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

use tenure_base::prelude::*;
use tenure_core::{Complaint, SettingId};

/// The variables.
pub mod variable {
    /// The bearer token that a call for a turn has to show.
    pub const TOKEN: &str = "TENURE_TICK_TOKEN";
    /// `true`: anybody may call for a turn.
    pub const OPEN: &str = "TENURE_TICK_OPEN";
}

/// Who may call for a turn.
pub enum Access {
    /// Whoever shows this token.
    Token(String),
    /// Anybody: the operator said so.
    Open,
    /// Nobody, before one of the two is set.
    Closed(Complaint),
}

/// Whether a caller may.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admission {
    /// It may.
    Granted,
    /// It shows no token, or a wrong one.
    Denied,
    /// Nobody may.
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
                "no token is set, so nobody may call for a turn over HTTP",
                "set it to a long random text, and have the caller send it as a bearer token; or \
                 set TENURE_TICK_OPEN=true where nobody else can reach this",
            ),
        }
    }

    /// Judges the `authorization` header of a call.
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

/// The token of a header; the word before it is written in any case (RFC 9110, 11.1).
fn bearer(header: &[u8]) -> Option<&[u8]> {
    const SCHEME: &[u8] = b"bearer ";
    let (scheme, token) = header.split_at_checked(SCHEME.len())?;
    scheme.eq_ignore_ascii_case(SCHEME).then_some(token)
}

/// Compares in a time that depends on nothing but lengths: what is compared are signatures, and the
/// library does that.
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
        Access::from_variables(|name| Some(if name == variable::TOKEN { token } else { open }.to_string()))
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
