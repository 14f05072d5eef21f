//! The header that carries the term.

use http::header::HeaderName;
use std::fmt;
use std::str::FromStr;
use tenure_webhook::RESERVED;

/// The name of the header that the requests of a handler carry their term in: `tenure-term`,
/// unless it is given another one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TermHeader(HeaderName);

impl TermHeader {
    pub(crate) fn name(&self) -> &HeaderName {
        &self.0
    }
}

/// Whether a server may take the header `name` for `stamp`: what is no letter or digit is often
/// made one and the same character, `_` for example, before anybody reads it.
pub(super) fn reads_as(stamp: &HeaderName, name: &HeaderName) -> bool {
    let plain = |byte: u8| if byte.is_ascii_alphanumeric() { byte } else { b'-' };
    let plain = |name: &HeaderName| name.as_str().bytes().map(plain).collect::<Vec<_>>();
    plain(name) == plain(stamp)
}

impl Default for TermHeader {
    fn default() -> Self {
        Self(HeaderName::from_static("tenure-term"))
    }
}

impl FromStr for TermHeader {
    type Err = InvalidTermHeader;

    /// Reads a name, in any case.
    ///
    /// # Errors
    ///
    /// When it is not the name of a header, or one that means something else in HTTP.
    fn from_str(text: &str) -> Result<Self, InvalidTermHeader> {
        let name = HeaderName::from_str(text).map_err(|_| InvalidTermHeader::NoName)?;
        if RESERVED.contains(&name.as_str()) {
            Err(InvalidTermHeader::Taken)
        } else {
            Ok(Self(name))
        }
    }
}

/// Why a text cannot be the name of the header that carries the term.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InvalidTermHeader {
    /// It is empty, too long, or has characters that names of headers do not have.
    NoName,
    /// HTTP gives it another meaning.
    Taken,
}

impl fmt::Display for InvalidTermHeader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoName => "this is not the name of an HTTP header: letters, digits and hyphens",
            Self::Taken => "this header has a meaning of its own in HTTP",
        })
    }
}

impl std::error::Error for InvalidTermHeader {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_in_any_case() {
        assert_eq!("Tenure-Term".parse(), Ok(TermHeader::default()));
        assert_eq!("X-Fence".parse::<TermHeader>().unwrap().name(), "x-fence");
    }

    #[test]
    fn what_is_no_name_or_means_something_else_is_refused() {
        for text in ["", " ", "a b", "a:b", "tenure-term\r\n", "ü", "(x)"] {
            assert_eq!(text.parse::<TermHeader>(), Err(InvalidTermHeader::NoName), "{text:?}");
        }
        for text in ["Host", "content-length", "TE", "Keep-Alive", "transfer-encoding"] {
            assert_eq!(text.parse::<TermHeader>(), Err(InvalidTermHeader::Taken), "{text:?}");
        }
    }
}
