//! What the service answered, read into the few cases that a decision needs (`protocol.md`,
//! Holding: status first, code second).
//!
//! Anything can come back: an answer of the service, of Azurite (bare 400 and 500), or the page of
//! a proxy. Reading never fails; what makes no sense is [`Class::Nonsense`].

use chrono::{DateTime, Utc};

use super::http_date;
use super::lease_id::LeaseId;
use super::metadata::Metadata;
use super::operation::{ETag, Operation};
use crate::prelude::*;
use tenure_base::text::cut;

/// One answer, as far as it matters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// The HTTP status.
    pub status: u16,
    /// `x-ms-error-code`, when it looks like one.
    pub code: Option<String>,
    /// What the answer comes to.
    pub class: Class,
    /// The service's clock when it answered, in whole seconds. Only believed beside an
    /// `x-ms-request-id`: a proxy's page must not set our clock.
    pub date: Option<DateTime<Utc>>,
    /// `Last-Modified`: when the blob was written last, by the service's clock, in whole seconds.
    pub modified: Option<DateTime<Utc>>,
    /// The blob's ETag.
    pub etag: Option<ETag>,
    /// `x-ms-lease-id`: who holds the lease now. Only when it is ours is a lease operation a
    /// success (Azurite renews for anybody).
    pub lease: Option<LeaseId>,
    /// `x-ms-lease-time`: seconds until a broken lease ends, approximately.
    pub lease_time: Option<u32>,
    /// What was seen; only of a look, at the blob or its notice, that is done.
    pub properties: Option<Properties>,
    /// Why a request was refused, in the service's words, when its answer says more than a code.
    pub detail: Option<String>,
}

/// What a look shows of the blob.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Properties {
    /// The lease's state.
    pub lease: LeaseState,
    /// The length of the content in bytes; 0 too when the answer does not say it.
    pub content_length: u64,
    /// `x-ms-meta-*`: names in lower case without the prefix, values as they came.
    pub metadata: Metadata,
}

/// `x-ms-lease-state` (REST: *Lease Blob*).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeaseState {
    /// Nobody holds a lease: acquire.
    Available,
    /// Somebody holds it.
    Leased,
    /// Its period ended without renewal: acquire.
    Expired,
    /// Broken, and the break period still runs: wait.
    Breaking,
    /// Broken for good: acquire.
    Broken,
}

/// What an answer comes to. Every status belongs to exactly one class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// The expected status with everything it must carry.
    Done,
    /// 404: the blob does not exist, as far as one can tell.
    MissingBlob,
    /// 404: the container does not exist.
    MissingContainer,
    /// 409: the lease's (or the container's) state forbids it; the code tells why.
    Conflict,
    /// 412 `ConditionNotMet`: the blob was written since it was seen.
    ConditionNotMet,
    /// 412 for any other reason: the lease is not what the request said.
    LeaseMismatch,
    /// 400, 401, 403 and every other 4xx: configuration, key, permission or clock.
    Refused,
    /// 408, 429 and 5xx: unknown whether it was applied; ask again.
    Unavailable,
    /// A success without what it must carry, another success, 1xx, 3xx: unknown whether it was
    /// applied.
    Nonsense,
}

impl Answer {
    /// Reads the answer to an operation. Header names count in any case; of repeated headers the
    /// first one; values that are no UTF-8 are not there.
    pub fn read(operation: &Operation, status: u16, headers: &[(String, Vec<u8>)]) -> Answer {
        let headers = Headers(headers);
        let code = headers.get("x-ms-error-code").filter(|code| is_code(code)).map(String::from);
        let etag =
            headers.get("etag").filter(|etag| !etag.is_empty()).map(|etag| ETag(etag.into()));
        let lease = headers.get("x-ms-lease-id").and_then(LeaseId::parse);
        let properties = match operation {
            Operation::Look { .. } | Operation::LookAside(_) if status == 200 && etag.is_some() => {
                headers.properties()
            }
            _ => None,
        };
        let complete = match operation {
            Operation::Look { .. } | Operation::LookAside(_) => properties.is_some(),
            Operation::Acquire { .. } | Operation::Renew { .. } | Operation::Change { .. } => {
                lease.is_some()
            }
            Operation::CreateBlob
            | Operation::WriteMetadata { .. }
            | Operation::WriteAside { .. } => etag.is_some(),
            Operation::CreateContainer | Operation::Release { .. } | Operation::Break { .. } => {
                true
            }
            #[cfg(doctor)]
            Operation::Delete { .. } | Operation::LookAtAccount => true,
        };
        Answer {
            status,
            class: classify(operation, status, code.as_deref(), complete),
            date: headers
                .get("x-ms-request-id")
                .and(headers.get("date"))
                .and_then(http_date::parse),
            modified: headers.get("last-modified").and_then(http_date::parse),
            lease_time: headers.get("x-ms-lease-time").and_then(|seconds| seconds.parse().ok()),
            code,
            etag,
            lease,
            properties,
            detail: headers.expected_identity().filter(|_| status == 401),
        }
    }

    /// Reads the body too: that of an error says why, where there is one (REST: *Status and error
    /// codes*).
    #[must_use]
    pub fn with_body(mut self, body: &[u8]) -> Answer {
        if self.status >= 400 {
            self.detail = error_detail(body).or(self.detail);
        }
        self
    }
}

/// Of what the service says no more is shown.
const MOST_SHOWN: usize = 300;

/// What an error says beside its code, in one line.
///
/// Not what it says of a signature: it quotes all that was signed, lease ids too.
fn error_detail(body: &[u8]) -> Option<String> {
    let text = core::str::from_utf8(body).ok()?;
    let (_, rest) = cut(text, "<AuthenticationErrorDetail>")?;
    let (detail, _) = cut(rest, "</AuthenticationErrorDetail>")?;
    if cut(detail, "string to sign").is_some() {
        return None;
    }
    let line: String = detail.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    let line: String = line.trim().chars().take(MOST_SHOWN).collect();
    (!line.is_empty()).then_some(line)
}

fn classify(operation: &Operation, status: u16, code: Option<&str>, complete: bool) -> Class {
    if status == expected_status(operation) && complete {
        return Class::Done;
    }
    match status {
        404 => match operation {
            // Not even the account is there; nothing that an election could create.
            Operation::CreateContainer => Class::Refused,
            #[cfg(doctor)]
            Operation::LookAtAccount => Class::MissingContainer,
            // Put Blob needs only the container.
            Operation::CreateBlob | Operation::WriteAside { .. } => Class::MissingContainer,
            _ if code == Some("ContainerNotFound") => Class::MissingContainer,
            _ => Class::MissingBlob,
        },
        409 => Class::Conflict,
        412 if code == Some("ConditionNotMet") => Class::ConditionNotMet,
        412 => Class::LeaseMismatch,
        408 | 429 | 500..=599 => Class::Unavailable,
        400..=499 => Class::Refused,
        _ => Class::Nonsense,
    }
}

fn expected_status(operation: &Operation) -> u16 {
    match operation {
        Operation::CreateContainer
        | Operation::CreateBlob
        | Operation::Acquire { .. }
        | Operation::WriteAside { .. } => 201,
        Operation::Break { .. } => 202,
        #[cfg(doctor)]
        Operation::Delete { .. } => 202,
        #[cfg(doctor)]
        Operation::LookAtAccount => 200,
        Operation::Look { .. }
        | Operation::LookAside(_)
        | Operation::Renew { .. }
        | Operation::Change { .. }
        | Operation::Release { .. }
        | Operation::WriteMetadata { .. } => 200,
    }
}

/// Codes are words; anything longer or stranger stays out of logs.
fn is_code(code: &str) -> bool {
    (1..=80).contains(&code.len()) && code.bytes().all(|byte| byte.is_ascii_alphanumeric())
}

struct Headers<'a>(&'a [(String, Vec<u8>)]);

impl<'a> Headers<'a> {
    fn get(&self, wanted: &str) -> Option<&'a str> {
        let (_, value) = self.0.iter().find(|(name, _)| name.eq_ignore_ascii_case(wanted))?;
        core::str::from_utf8(value).ok().map(str::trim)
    }

    /// Whose tokens the service wants: `Bearer authorization_uri=... resource_id=...`.
    fn expected_identity(&self) -> Option<String> {
        let challenge = self.get("www-authenticate")?;
        let plain = |c: char| c.is_ascii_graphic() || c == ' ';
        (challenge.starts_with("Bearer ")
            && challenge.len() <= MOST_SHOWN
            && challenge.chars().all(plain))
        .then(|| format!("it wants: {challenge}"))
    }

    fn properties(&self) -> Option<Properties> {
        let lease = lease_state(self.get("x-ms-lease-state")?)?;
        let content_length = match self.get("content-length") {
            Some(length) => length.parse().ok()?,
            None => 0,
        };
        Some(Properties { lease, content_length, metadata: self.metadata() })
    }

    fn metadata(&self) -> Metadata {
        const PREFIX: &str = "x-ms-meta-";
        let mut metadata = Metadata::default();
        for (name, value) in self.0 {
            let Some((prefix, name)) = name.split_at_checked(PREFIX.len()) else { continue };
            if !prefix.eq_ignore_ascii_case(PREFIX) {
                continue;
            }
            let name = name.to_ascii_lowercase();
            if metadata.get(&name).is_none() {
                metadata.insert(name, String::from_utf8_lossy(value).into_owned());
            }
        }
        metadata
    }
}

fn lease_state(text: &str) -> Option<LeaseState> {
    let states = [
        ("available", LeaseState::Available),
        ("leased", LeaseState::Leased),
        ("expired", LeaseState::Expired),
        ("breaking", LeaseState::Breaking),
        ("broken", LeaseState::Broken),
    ];
    states.into_iter().find(|(name, _)| text.eq_ignore_ascii_case(name)).map(|(_, state)| state)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::azure::name::Aside;
    use proptest::prelude::*;

    const A: &str = "aaaaaaaa-bbbb-4ccc-8ddd-eeeeeeeeeeee";

    fn id() -> LeaseId {
        LeaseId::parse(A).unwrap()
    }

    fn look() -> Operation {
        Operation::Look { lease: None }
    }

    fn acquire() -> Operation {
        Operation::Acquire { lease: id(), seconds: 15, if_match: None }
    }

    fn renew() -> Operation {
        Operation::Renew { lease: id() }
    }

    fn write() -> Operation {
        Operation::WriteMetadata {
            lease: id(),
            if_match: ETag("x".into()),
            metadata: Metadata::default(),
        }
    }

    fn every_operation() -> Vec<Operation> {
        vec![
            look(),
            Operation::CreateContainer,
            Operation::CreateBlob,
            acquire(),
            renew(),
            Operation::Change { lease: id(), to: id() },
            Operation::Release { lease: id() },
            Operation::Break { period: None },
            write(),
            Operation::LookAside(Aside::Notice),
            Operation::WriteAside {
                aside: Aside::Notice,
                over: None,
                metadata: Metadata::default(),
            },
        ]
    }

    fn read(operation: &Operation, status: u16, headers: &[(&str, &str)]) -> Answer {
        let headers: Vec<_> = headers
            .iter()
            .map(|(name, value)| (name.to_string(), value.as_bytes().to_vec()))
            .collect();
        Answer::read(operation, status, &headers)
    }

    fn class(operation: &Operation, status: u16, code: &str) -> Class {
        read(operation, status, &[("x-ms-error-code", code)]).class
    }

    /// The rows of azure-lease-facts.md §3, for acquire and for renew, and the special rows of the
    /// create.
    #[test]
    fn every_row_of_the_facts() {
        let renew_or_acquire = [
            (409, "LeaseAlreadyPresent", Class::Conflict),
            (409, "LeaseIsBreakingAndCannotBeAcquired", Class::Conflict),
            (409, "LeaseIsBrokenAndCannotBeRenewed", Class::Conflict),
            (409, "LeaseIdMismatchWithLeaseOperation", Class::Conflict),
            (409, "LeaseNotPresentWithLeaseOperation", Class::Conflict),
            (409, "ContainerBeingDeleted", Class::Conflict),
            (409, "SomethingNew", Class::Conflict),
            (409, "", Class::Conflict),
            (404, "BlobNotFound", Class::MissingBlob),
            (404, "", Class::MissingBlob),
            (404, "SomethingNew", Class::MissingBlob),
            (404, "ContainerNotFound", Class::MissingContainer),
            (412, "ConditionNotMet", Class::ConditionNotMet),
            (412, "LeaseIdMissing", Class::LeaseMismatch),
            (412, "LeaseLost", Class::LeaseMismatch),
            (412, "LeaseIdMismatchWithBlobOperation", Class::LeaseMismatch),
            (412, "LeaseNotPresentWithBlobOperation", Class::LeaseMismatch),
            (412, "", Class::LeaseMismatch),
            (400, "InvalidHeaderValue", Class::Refused),
            (400, "", Class::Refused),
            (401, "NoAuthenticationInformation", Class::Refused),
            (403, "AuthenticationFailed", Class::Refused),
            (403, "AuthorizationFailure", Class::Refused),
            (403, "", Class::Refused),
            (405, "", Class::Refused),
            (499, "", Class::Refused),
            (408, "", Class::Unavailable),
            (429, "", Class::Unavailable),
            (500, "OperationTimedOut", Class::Unavailable),
            (500, "InternalError", Class::Unavailable),
            (500, "", Class::Unavailable),
            (503, "ServerBusy", Class::Unavailable),
            (599, "", Class::Unavailable),
            (0, "", Class::Nonsense),
            (100, "", Class::Nonsense),
            (204, "", Class::Nonsense),
            (302, "", Class::Nonsense),
            (304, "", Class::Nonsense),
            (600, "", Class::Nonsense),
            (65_535, "", Class::Nonsense),
        ];
        for (status, code, expected) in renew_or_acquire {
            for operation in [acquire(), renew()] {
                assert_eq!(
                    class(&operation, status, code),
                    expected,
                    "{operation:?} {status} {code}"
                );
            }
        }
        assert_eq!(class(&Operation::CreateBlob, 412, "LeaseIdMissing"), Class::LeaseMismatch);
        assert_eq!(class(&Operation::CreateBlob, 409, "BlobAlreadyExists"), Class::Conflict);
        assert_eq!(class(&Operation::CreateBlob, 404, ""), Class::MissingContainer);
        assert_eq!(class(&Operation::CreateContainer, 404, "ResourceNotFound"), Class::Refused);
        assert_eq!(
            class(&Operation::CreateContainer, 409, "ContainerAlreadyExists"),
            Class::Conflict
        );
    }

    #[test]
    fn done_is_one_status_with_what_it_must_carry() {
        let full = [("x-ms-lease-id", A), ("ETag", "\"0x1\""), ("x-ms-lease-state", "leased")];
        // Operation, status, which of the three headers it cannot do without.
        let expected: [(u16, &[usize]); 11] = [
            (200, &[1, 2]),
            (201, &[]),
            (201, &[1]),
            (201, &[0]),
            (200, &[0]),
            (200, &[0]),
            (200, &[]),
            (202, &[]),
            (200, &[1]),
            (200, &[1, 2]),
            (201, &[1]),
        ];
        for (operation, (status, needed)) in every_operation().iter().zip(expected) {
            for other in 200..300 {
                let expected = if other == status { Class::Done } else { Class::Nonsense };
                assert_eq!(read(operation, other, &full).class, expected, "{operation:?} {other}");
            }
            for left_out in 0..full.len() {
                let headers: Vec<_> = (0..full.len())
                    .filter(|index| *index != left_out)
                    .map(|index| full[index])
                    .collect();
                let expected =
                    if needed.contains(&left_out) { Class::Nonsense } else { Class::Done };
                assert_eq!(
                    read(operation, status, &headers).class,
                    expected,
                    "{operation:?} without {left_out}"
                );
            }
        }
    }

    #[test]
    fn a_lease_id_that_is_none_is_no_success() {
        let answer = read(&renew(), 200, &[("x-ms-lease-id", "not-a-guid")]);
        assert_eq!((answer.class, answer.lease), (Class::Nonsense, None));
        let answer = read(&renew(), 200, &[("X-MS-LEASE-ID", &A.to_uppercase())]);
        assert_eq!((answer.class, answer.lease), (Class::Done, Some(id())));
    }

    #[test]
    fn a_look_shows_lease_length_and_metadata() {
        let answer = read(
            &look(),
            200,
            &[
                ("ETAG", "\"0x1\""),
                ("X-Ms-Lease-State", "Breaking"),
                ("Content-Length", "12"),
                ("X-MS-Meta-Term", "7"),
                ("x-ms-meta-term", "8"),
                ("x-ms-meta-", ""),
                ("x-ms-metadata", "no"),
            ],
        );
        let metadata = Metadata::from_iter([("term", "7"), ("", "")]);
        assert_eq!(
            answer.properties,
            Some(Properties { lease: LeaseState::Breaking, content_length: 12, metadata })
        );
        assert_eq!(answer.etag, Some(ETag("\"0x1\"".into())));
        assert_eq!(answer.class, Class::Done);
    }

    #[test]
    fn each_lease_state_is_known_and_no_other() {
        let states = [
            ("available", Some(LeaseState::Available)),
            ("leased", Some(LeaseState::Leased)),
            ("expired", Some(LeaseState::Expired)),
            ("breaking", Some(LeaseState::Breaking)),
            ("broken", Some(LeaseState::Broken)),
            ("locked", None),
            ("", None),
        ];
        for (text, state) in states {
            let answer = read(&look(), 200, &[("etag", "x"), ("x-ms-lease-state", text)]);
            assert_eq!(answer.properties.map(|seen| seen.lease), state, "{text}");
            assert_eq!(answer.class == Class::Done, state.is_some());
        }
    }

    #[test]
    fn a_length_that_is_none_is_not_taken_for_an_empty_blob() {
        let with = |length| {
            read(
                &look(),
                200,
                &[("etag", "x"), ("x-ms-lease-state", "leased"), ("content-length", length)],
            )
            .class
        };
        assert_eq!(
            [with("0"), with("-1"), with("many")],
            [Class::Done, Class::Nonsense, Class::Nonsense]
        );
        let unsaid = read(&look(), 200, &[("etag", "x"), ("x-ms-lease-state", "leased")]);
        assert_eq!(unsaid.properties.map(|seen| seen.content_length), Some(0));
    }

    #[test]
    fn only_the_service_sets_the_clock() {
        let date = ("Date", "Fri, 02 Jan 2026 03:04:05 GMT");
        let id = ("x-ms-request-id", "1");
        let seconds = |headers: &[(&str, &str)]| {
            read(&renew(), 403, headers).date.map(|date| date.timestamp())
        };
        assert_eq!(seconds(&[date, id]), Some(1_767_323_045));
        assert_eq!(seconds(&[date]), None);
        assert_eq!(seconds(&[id]), None);
        assert_eq!(seconds(&[id, ("date", "yesterday")]), None);
    }

    #[test]
    fn when_a_blob_was_written_is_read_or_left() {
        let seconds = |date| {
            let answer =
                read(&Operation::LookAside(Aside::Notice), 200, &[("Last-Modified", date)]);
            answer.modified.map(|date| date.timestamp())
        };
        assert_eq!(seconds("Fri, 02 Jan 2026 03:04:05 GMT"), Some(1_767_323_045));
        assert_eq!(seconds("2026-01-02T03:04:05Z"), None);
        assert_eq!(read(&Operation::LookAside(Aside::Notice), 200, &[]).modified, None);
    }

    #[test]
    fn lease_time_and_code_are_read_or_left() {
        let answer = read(&Operation::Break { period: None }, 202, &[("x-ms-lease-time", "15")]);
        assert_eq!((answer.class, answer.lease_time), (Class::Done, Some(15)));
        let answer = read(
            &renew(),
            500,
            &[("x-ms-lease-time", "-1"), ("x-ms-error-code", "<b>no code</b>")],
        );
        assert_eq!(
            (answer.class, answer.lease_time, answer.code),
            (Class::Unavailable, None, None)
        );
    }

    #[test]
    fn why_it_was_refused_is_told_in_the_words_of_the_service() {
        let error = |detail: &str| {
            format!(
                "\u{feff}<?xml version=\"1.0\" encoding=\"utf-8\"?><Error><Code>AuthenticationFailed</Code>\
                 <Message>Server failed.\nTime:2026</Message>\
                 <AuthenticationErrorDetail>{detail}</AuthenticationErrorDetail></Error>"
            )
        };
        let detail =
            |status, body: &str| read(&renew(), status, &[]).with_body(body.as_bytes()).detail;
        let old = "Request date header too old: 'Fri, 02 Jan 2026 03:04:05 GMT'";
        assert_eq!(detail(403, &error(old)).as_deref(), Some(old));
        assert_eq!(
            detail(403, &error(" Audience\nis wrong ")).as_deref(),
            Some("Audience is wrong")
        );
        // It quotes the lease id.
        let signed =
            error("The MAC differs. Server used following string to sign: 'PUT x-ms-lease-id:a'");
        assert_eq!(detail(403, &signed), None);
        assert_eq!(detail(403, "<html>"), None);
        assert_eq!(detail(200, &error(old)), None);
        let challenge = "Bearer authorization_uri=https://login.microsoftonline.com/t/oauth2/authorize \
                         resource_id=https://storage.azure.com";
        let answer = read(&renew(), 401, &[("WWW-Authenticate", challenge)]);
        assert_eq!(answer.detail.unwrap(), format!("it wants: {challenge}"));
    }

    proptest! {
        #[test]
        fn no_body_panics_or_breaks_a_line(
            body in "(<AuthenticationErrorDetail>|</AuthenticationErrorDetail>|[ -~é\r\n\u{1}]{0,20}){0,6}",
            bytes: Vec<u8>,
        ) {
            for body in [body.into_bytes(), bytes] {
                let answer = read(&renew(), 403, &[]).with_body(&body);
                prop_assert!(answer.detail.is_none_or(|detail| !detail.contains(char::is_control)));
            }
        }

        #[test]
        fn nothing_panics(
            status: u16,
            values in proptest::collection::vec((0usize..11, any::<Vec<u8>>()), 0..12),
            others in any::<Vec<(String, Vec<u8>)>>(),
        ) {
            const NAMES: [&str; 11] = [
                "x-ms-error-code", "ETag", "x-ms-lease-id", "x-ms-lease-state", "Content-Length", "x-ms-lease-time", "Date",
                "x-ms-request-id", "x-ms-meta-term", "X-MS-META-", "Last-Modified",
            ];
            let mut headers: Vec<_> = values.into_iter().map(|(name, value)| (NAMES[name].to_string(), value)).collect();
            headers.extend(others);
            for operation in every_operation() {
                let answer = Answer::read(&operation, status, &headers);
                prop_assert_eq!(answer.status, status);
                prop_assert!(answer.class != Class::Done || (200..=202).contains(&status));
            }
        }
    }
}
