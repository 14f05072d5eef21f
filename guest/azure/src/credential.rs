//! Credentials, among them the shared access signature, and the authorisation of requests.

use chrono::{DateTime, Timelike, Utc};

use super::encoding;
use super::identity::Identity;
use super::secret::Secret;
use super::shared_key::{Key, is_signature};
use tenure_base::prelude::*;

/// A credential for an account, or for a part of it. `Debug` prints nothing secret.
#[derive(Clone, Debug)]
#[allow(clippy::large_enum_variant, reason = "a call has only one credential")]
pub enum Credential {
    /// A key of the account: every request is signed.
    SharedKey(Key),
    /// A shared access signature: it is added to the query of every request.
    Sas(Sas),
    /// A token of Microsoft Entra ID that another program requested.
    Token(Secret),
    /// An identity, for which tokens are requested.
    Identity(Identity),
}

/// The source of a request's authorisation: the credential itself, or a token that was requested
/// with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AuthSource {
    /// The credential of the settings.
    Credential,
    /// A requested token.
    Token(Secret),
}

/// The authorisation of one request.
#[derive(Clone, Copy, Debug)]
pub enum Authorization<'a> {
    /// Signed with a key of the account.
    SharedKey(&'a Key),
    /// A signature in the query.
    Sas(&'a Sas),
    /// A bearer token.
    Bearer(&'a Secret),
    /// No authorisation: a token must be requested first.
    Nothing,
}

impl Credential {
    /// Returns the authorisation of a request. Only for an identity it depends on `source`.
    pub fn authorization<'a>(&'a self, source: &'a AuthSource) -> Authorization<'a> {
        match (self, source) {
            (Self::SharedKey(key), _) => Authorization::SharedKey(key),
            (Self::Sas(sas), _) => Authorization::Sas(sas),
            (Self::Token(token), _) | (Self::Identity(_), AuthSource::Token(token)) => {
                Authorization::Bearer(token)
            }
            (Self::Identity(_), _) => Authorization::Nothing,
        }
    }

    /// Returns true if the credential would be readable in transit without TLS.
    pub(super) fn needs_tls(&self) -> bool {
        !matches!(self, Self::SharedKey(..))
    }
}

/// A problem with a setting. It contains no part of a setting's value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The problem: one sentence.
    pub problem: String,
    /// The advice: one sentence.
    pub advice: String,
}

/// Parameters that belong to a request and not to a SAS.
const REQUEST_PARAMETERS: [&str; 4] = ["comp", "restype", "timeout", "snapshot"];

const COPY_IT: &str = "copy the SAS again, from its sv= to its sig=, as the portal or \
                       `az storage container generate-sas` shows it";

/// A shared access signature: a signed query that is sent unchanged (REST: *Create an account / a
/// service / a user delegation SAS*). It is a secret: `Debug` prints nothing of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sas(Secret);

impl Sas {
    /// Parses a SAS, with or without the question mark in front.
    ///
    /// # Errors
    /// Returns all problems of a SAS that cannot be used to read an election's blob.
    pub fn parse(text: &str) -> Result<Self, Vec<Problem>> {
        let text = text.trim();
        let sas = Self(Secret::from(text.strip_prefix('?').unwrap_or(text)));
        let problems = sas.validate();
        if problems.is_empty() { Ok(sas) } else { Err(problems) }
    }

    /// Returns the text for the query of a request.
    pub fn query(&self) -> &str {
        self.0.reveal()
    }

    /// Returns true if the SAS may be used over TLS only.
    pub fn is_https_only(&self) -> bool {
        self.get("spr") == Some("https")
    }

    /// Returns a note for the operator about the start or the end of the validity of the SAS.
    pub fn validity_note(&self, now: DateTime<Utc>) -> Option<String> {
        match self.validity_bounds() {
            (_, Some(expiry)) if expiry <= now => Some(format!(
                "the SAS has expired, at {}: every request will be refused",
                format_time(expiry)
            )),
            (Some(start), _) if start > now => {
                Some(format!("the SAS is not valid before {}", format_time(start)))
            }
            (_, Some(expiry)) => Some(format!("the SAS expires at {}", format_time(expiry))),
            (_, None) => None,
        }
    }

    /// Returns the start and the end of the validity of the SAS, if stated.
    pub fn validity_bounds(&self) -> (Option<DateTime<Utc>>, Option<DateTime<Utc>>) {
        let bound = |name| self.get(name).and_then(parse_time);
        (bound("st"), bound("se"))
    }

    /// Returns true if the SAS is for a single blob.
    pub fn is_for_one_blob(&self) -> bool {
        self.get("sr") == Some("b")
    }

    /// Returns true if the SAS may allow the creation of containers: only an account SAS with
    /// resource type `c` can.
    pub fn can_create_containers(&self) -> bool {
        let has_any =
            |name, letters: &[char]| self.get(name).is_some_and(|set| set.contains(letters));
        has_any("srt", &['c']) && has_any("sp", &['c', 'w'])
    }

    /// Returns true if the permissions of the SAS (`sp`) include `letter`. Also returns true if it
    /// has a stored access policy (`si`), whose permissions only the service knows.
    pub fn permits(&self, letter: u8) -> bool {
        let letters = self.get("sp").unwrap_or_default();
        self.get("si").is_some() || letters.as_bytes().contains(&letter)
    }

    fn get(&self, name: &str) -> Option<&str> {
        self.query()
            .split('&')
            .filter_map(|pair| pair.split_once('='))
            .find_map(|(known, value)| known.eq_ignore_ascii_case(name).then_some(value))
    }

    fn validate(&self) -> Vec<Problem> {
        let mut problems = Vec::new();
        let mut complain = |problem: String, advice: &str| {
            problems.push(Problem { problem, advice: advice.into() });
        };
        if self.query().is_empty() {
            complain("the SAS is empty".into(), COPY_IT);
            return problems;
        }
        if !self
            .query()
            .bytes()
            // A `+`, which the service reads as a blank, shows that the SAS was decoded in transit.
            .all(|byte| byte.is_ascii_graphic() && !b"\"#+<>\\^`{|}".contains(&byte))
        {
            complain("the SAS has characters that cannot be in one".into(), COPY_IT);
            return problems;
        }
        for name in ["sv", "sig"] {
            if self.get(name).is_none_or(str::is_empty) {
                complain(format!("the SAS has no {name}"), COPY_IT);
            }
        }
        let signature = self.get("sig").unwrap_or_default();
        let decoded_once = encoding::percent_decode_text(signature);
        if !signature.is_empty() && !is_signature(&decoded_once) {
            let problem = match is_signature(&encoding::percent_decode_text(&decoded_once)) {
                true => "the signature of the SAS (sig) is percent-encoded twice",
                false => {
                    "the signature of the SAS (sig) is cut short or changed: it is not Base64 of 32 bytes"
                }
            };
            complain(problem.into(), COPY_IT);
        }
        for name in REQUEST_PARAMETERS {
            if self.get(name).is_some() {
                let problem =
                    format!("the SAS has the parameter {name}, which does not belong in one");
                complain(problem, "leave it out: requests set it themselves");
            }
        }
        let parameter = |name| self.get(name).unwrap_or_default();
        match (self.get("ss"), self.get("sr")) {
            (Some(services), _) => {
                if !services.as_bytes().contains(&b'b') {
                    let problem = "the account SAS is not for the Blob service (ss has no b)";
                    complain(problem.into(), "make one that is");
                }
                if !parameter("srt").as_bytes().contains(&b'o') {
                    let problem = "the account SAS is not for objects (srt has no o)";
                    complain(
                        problem.into(),
                        "make one for objects, and for containers (c) if the container must be created",
                    );
                }
            }
            (None, Some("b" | "c" | "d")) => {}
            (None, Some(_)) => complain(
                "the SAS is for neither a blob nor a container (sr)".into(),
                "make one for the container of the election",
            ),
            (None, None) => complain("the SAS has neither sr nor ss".into(), COPY_IT),
        }
        if !self.permits(b'r') {
            complain(
                "the SAS does not permit reading (r)".into(),
                "make a SAS with sp=rcw for a candidate, or with sp=r to observe only",
            );
        }
        problems
    }
}

/// Parses the ISO 8601 forms that a SAS may have.
fn parse_time(text: &str) -> Option<DateTime<Utc>> {
    let text = String::from_utf8(encoding::percent_decode(text)).ok()?;
    // A date without a time means the start of that day; one without seconds, of that minute.
    let full_time = match text.len() {
        10 => format!("{text}T00:00:00Z"),
        17 => text.replace('Z', ":00Z"),
        _ => text,
    };
    encoding::parse_rfc3339(&full_time)
}

/// Formats a time without fractions of a second, which a SAS never has.
fn format_time(time: DateTime<Utc>) -> String {
    encoding::format_rfc3339(time.with_nanosecond(0).unwrap_or(time))
}

#[cfg(test)]
mod sas_tests;
