//! Shared access signatures: a signed query that is sent unchanged (REST: *Create an account / a
//! service / a user delegation SAS*).

use chrono::{DateTime, Timelike, Utc};

use super::percent;
use super::problem::Problem;
use super::rfc3339;
use super::secret::Secret;
use super::shared_key::is_signature;
use tenure_base::prelude::*;

/// Parameters that belong to a request and not to a signature.
const REQUEST_PARAMETERS: [&str; 4] = ["comp", "restype", "timeout", "snapshot"];

const COPY_IT: &str = "copy the SAS again, from its sv= to its sig=, as the portal or \
                       `az storage container generate-sas` shows it";

/// A shared access signature. It is a secret: `Debug` prints nothing of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sas(Secret);

impl Sas {
    /// Parses a token, with or without the question mark in front.
    ///
    /// # Errors
    /// All problems that prevent the token from reading an election's blob.
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

    /// Returns true if it may be used over TLS only.
    pub fn is_https_only(&self) -> bool {
        self.get("spr") == Some("https")
    }

    /// Returns a note for the operator about its period of validity.
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

    /// Returns the start and the end of its validity, if stated.
    pub fn validity_bounds(&self) -> (Option<DateTime<Utc>>, Option<DateTime<Utc>>) {
        let bound = |name| self.get(name).and_then(parse_time);
        (bound("st"), bound("se"))
    }

    /// Returns true if it is for a single blob.
    pub fn is_for_one_blob(&self) -> bool {
        self.get("sr") == Some("b")
    }

    /// Returns true if it may allow the creation of containers: only an account SAS with resource
    /// type `c` can.
    pub fn can_create_containers(&self) -> bool {
        let has_any =
            |name, letters: &[char]| self.get(name).is_some_and(|set| set.contains(letters));
        has_any("srt", &['c']) && has_any("sp", &['c', 'w'])
    }

    /// Returns true if it permits the operations of a letter of `sp`. With a stored access policy
    /// (`si`) only the service knows, and this is true.
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
            // The service reads a `+` as a blank: it shows that the SAS was decoded in transit.
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
        let decoded_once = percent::decode_text(signature);
        if !signature.is_empty() && !is_signature(&decoded_once) {
            let problem = match is_signature(&percent::decode_text(&decoded_once)) {
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
                "make a SAS with sp=rcw for a candidate, or with sp=r for looking only",
            );
        }
        problems
    }
}

/// Parses the ISO 8601 forms that a SAS may have.
fn parse_time(text: &str) -> Option<DateTime<Utc>> {
    let text = String::from_utf8(percent::decode(text)).ok()?;
    // A day, or a time without seconds, counts as its beginning.
    let full_time = match text.len() {
        10 => format!("{text}T00:00:00Z"),
        17 => text.replace('Z', ":00Z"),
        _ => text,
    };
    rfc3339::parse(&full_time)
}

/// Formats a time without fractions of a second, which a SAS never has.
fn format_time(time: DateTime<Utc>) -> String {
    rfc3339::format(time.with_nanosecond(0).unwrap_or(time))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn nothing_panics(
            text in "[ -~é]{0,60}|([?&]?(sp|sv|sr|ss|srt|st|se|spr|sig|si)=[a-z0-9:%T-]{0,20}&?){0,8}",
            now in -1_000_000_000_000_i64..1_000_000_000_000,
        ) {
            match Sas::parse(&text) {
                Ok(sas) => {
                    let _ = sas.validity_note(DateTime::from_timestamp(now, 0).unwrap_or_default());
                    prop_assert!(!sas.query().is_empty());
                }
                Err(problems) => prop_assert!(!problems.is_empty()),
            }
        }
    }

    const GOOD: &str = "sp=rcw&st=2026-01-01T00:00:00Z&se=2027-01-01T00:00:00Z&spr=https&sv=2022-11-02&sr=c&sig=c2lnc2lnc2lnc2lnc2lnc2lnc2lnc2lnc2lnc2lnc2k%3D";

    const SIGNATURE: &str = "c2lnc2lnc2lnc2lnc2lnc2lnc2lnc2lnc2lnc2lnc2k=";

    fn problems(text: &str) -> Vec<String> {
        Sas::parse(text).unwrap_err().into_iter().map(|problem| problem.problem).collect()
    }

    #[test]
    fn every_kind_is_taken() {
        for good in [
            GOOD,
            &format!(" ?{GOOD}\n"),
            &format!(
                "sv=2022-11-02&ss=bfqt&srt=sco&sp=rwdlacupiytfx&se=2027-01-01&sig={SIGNATURE}"
            ),
            &format!("sv=2022-11-02&sr=b&si=policy&sig={SIGNATURE}"),
            &format!(
                "skoid=1&sktid=2&skt=3&ske=4&sks=b&skv=2022-11-02&sp=rw&sv=2022-11-02&sr=b&sig={SIGNATURE}"
            ),
            &format!("sv=2022-11-02&sr=b&sp=r&sig={SIGNATURE}"),
        ] {
            assert!(Sas::parse(good).is_ok(), "{good}: {:?}", problems(good));
        }
        assert_eq!(Sas::parse(&format!("?{GOOD}")).unwrap().query(), GOOD);
        assert!(Sas::parse(GOOD).unwrap().is_https_only());
    }

    #[test]
    fn unusable_sas_is_rejected() {
        for (text, expected) in [
            ("", vec!["is empty"]),
            ("?", vec!["is empty"]),
            ("sv=1&sr=c&sp=rw&sig=a b", vec!["characters that cannot be in one"]),
            ("sv=1&sr=c&sp=rw&sig=a+b", vec!["characters that cannot be in one"]),
            ("sig=<sig>", vec!["no sv", "neither sr nor ss", "does not permit reading (r)"]),
            ("sv=1&sr=c&sp=wl&sig=<sig>", vec!["does not permit reading (r)"]),
            ("sv=1&sr=s&sp=rw&sig=", vec!["no sig", "neither a blob nor a container"]),
            ("sv=1&ss=q&srt=sc&sp=rw&sig=<sig>", vec!["ss has no b", "srt has no o"]),
            ("sv=1&sr=c&sp=rw&sig=<sig>&comp=lease", vec!["parameter comp"]),
            ("sv=1&sr=c&sp=rw&sig=c2ln", vec!["is not Base64 of 32 bytes"]),
            ("sv=1&sr=c&sp=rw&sig=<sig>Q", vec!["is not Base64 of 32 bytes"]),
            ("sv=1&sr=c&sp=rw&sig=<twice>", vec!["is percent-encoded twice"]),
        ] {
            let twice = SIGNATURE.replace('=', "%253D");
            let problems = problems(&text.replace("<sig>", SIGNATURE).replace("<twice>", &twice));
            assert_eq!(problems.len(), expected.len(), "{text}: {problems:?}");
            for (problem, part) in problems.iter().zip(expected) {
                assert!(problem.contains(part), "{text}: {problem}");
            }
        }
    }

    #[test]
    fn validity_note_shows_start_and_expiry() {
        let now = DateTime::from_timestamp(1_767_225_600, 0).unwrap(); // 2026-01-01T00:00:00Z
        for (times, expected) in [
            ("se=2025-12-31T00%3A00%3A00Z", "has expired, at 2025-12-31T00:00:00Z"),
            ("se=2026-01-01", "has expired, at 2026-01-01T00:00:00Z"),
            ("se=2026-01-01T00:01Z", "expires at 2026-01-01T00:01:00Z"),
            ("st=2026-02-01T00:00:00Z&se=2026-03-01", "not valid before 2026-02-01T00:00:00Z"),
        ] {
            let sas = Sas::parse(&format!("sp=rw&{times}&sv=1&sr=c&sig={SIGNATURE}")).unwrap();
            let note = sas.validity_note(now).unwrap();
            assert!(note.contains(expected), "{times}: {note}");
        }
        let by_policy = Sas::parse(&format!("si=policy&sv=1&sr=c&sig={SIGNATURE}")).unwrap();
        assert_eq!(by_policy.validity_note(now), None);
    }

    #[test]
    fn nothing_of_it_is_printed() {
        let secret = "c2VjcmV0";
        assert_eq!(format!("{:?}", Sas::parse(GOOD).unwrap()), "Sas(Secret(..))");
        for text in [
            format!("sv={secret}"),
            format!("{secret} {secret}"),
            format!("{secret}={secret}&sr={secret}"),
        ] {
            let printed = format!("{:?}", Sas::parse(&text).unwrap_err());
            assert!(!printed.contains(secret), "{printed}");
        }
    }
}
