use super::*;
use crate::blob::SideBlob;
use crate::operation::WriteCondition;
use proptest::prelude::*;

const A: &str = "aaaaaaaa-bbbb-4ccc-8ddd-eeeeeeeeeeee";

fn id() -> LeaseId {
    LeaseId::parse(A).unwrap()
}

fn read_blob() -> Operation {
    Operation::Read { lease: None }
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

fn read_content() -> Operation {
    Operation::ReadContent { if_none_match: Some(ETag("x".into())) }
}

fn write_content() -> Operation {
    let metadata = Metadata::default();
    Operation::WriteContent { condition: WriteCondition::IfAbsent, content: "a".into(), metadata }
}

fn every_operation() -> Vec<Operation> {
    vec![
        read_blob(),
        Operation::CreateContainer,
        Operation::CreateBlob,
        acquire(),
        renew(),
        Operation::Change { lease: id(), proposed: id() },
        Operation::Release { lease: id() },
        Operation::Break { period: None, if_match: None },
        write(),
        Operation::ReadSideBlob(SideBlob::Orders),
        Operation::WriteSideBlob {
            blob: SideBlob::Orders,
            replaces: None,
            metadata: Metadata::default(),
        },
        read_content(),
        write_content(),
        Operation::List { prefix: "a".into(), marker: None },
    ]
}

fn read(operation: &Operation, status: u16, headers: &[(&str, &str)]) -> Answer {
    let headers: Vec<_> =
        headers.iter().map(|(name, value)| (name.to_string(), value.as_bytes().to_vec())).collect();
    Answer::from_parts(operation, status, &headers)
}

fn class(operation: &Operation, status: u16, code: &str) -> Class {
    read(operation, status, &[("x-ms-error-code", code)]).class
}

/// The rows of protocol.md §3, for acquire and for renew, and the special rows of the create.
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
            assert_eq!(class(&operation, status, code), expected, "{operation:?} {status} {code}");
        }
    }
    assert_eq!(class(&Operation::CreateBlob, 412, "LeaseIdMissing"), Class::LeaseMismatch);
    assert_eq!(class(&Operation::CreateBlob, 409, "BlobAlreadyExists"), Class::Conflict);
    assert_eq!(class(&Operation::CreateBlob, 404, ""), Class::MissingContainer);
    assert_eq!(class(&Operation::CreateContainer, 404, "ResourceNotFound"), Class::Refused);
    assert_eq!(class(&Operation::CreateContainer, 409, "ContainerAlreadyExists"), Class::Conflict);
}

#[test]
fn done_requires_the_expected_status_and_headers() {
    let full = [("x-ms-lease-id", A), ("ETag", "\"0x1\""), ("x-ms-lease-state", "leased")];
    // Operation, status, indices of the three headers that it requires.
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
            let expected = if needed.contains(&left_out) { Class::Nonsense } else { Class::Done };
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
fn a_read_shows_lease_length_and_metadata() {
    let answer = read(
        &read_blob(),
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
fn a_version_that_no_header_can_carry_is_none() {
    for (etag, is_one) in [("\"0x8\"", true), ("", false), ("\"é\"", false), ("\"a\nb\"", false)] {
        let answer = read(&read_blob(), 200, &[("etag", etag), ("x-ms-lease-state", "available")]);
        assert_eq!(answer.etag.is_some(), is_one, "{etag:?}");
    }
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
        let answer = read(&read_blob(), 200, &[("etag", "x"), ("x-ms-lease-state", text)]);
        assert_eq!(answer.properties.map(|properties| properties.lease), state, "{text}");
        assert_eq!(answer.class == Class::Done, state.is_some());
    }
}

#[test]
fn a_length_that_is_none_is_not_taken_for_an_empty_blob() {
    let with = |length| {
        read(
            &read_blob(),
            200,
            &[("etag", "x"), ("x-ms-lease-state", "leased"), ("content-length", length)],
        )
        .class
    };
    assert_eq!(
        [with("0"), with("-1"), with("many")],
        [Class::Done, Class::Nonsense, Class::Nonsense]
    );
    let unsaid = read(&read_blob(), 200, &[("etag", "x"), ("x-ms-lease-state", "leased")]);
    assert_eq!(unsaid.properties.map(|properties| properties.content_length), Some(0));
}

#[test]
fn only_the_service_sets_the_clock() {
    let date = ("Date", "Fri, 02 Jan 2026 03:04:05 GMT");
    let id = ("x-ms-request-id", "1");
    let seconds =
        |headers: &[(&str, &str)]| read(&renew(), 403, headers).date.map(|date| date.timestamp());
    assert_eq!(seconds(&[date, id]), Some(1_767_323_045));
    assert_eq!(seconds(&[date]), None);
    assert_eq!(seconds(&[id]), None);
    assert_eq!(seconds(&[id, ("date", "yesterday")]), None);
}

#[test]
fn when_a_blob_was_written_is_read_or_left() {
    let seconds = |date| {
        let answer =
            read(&Operation::ReadSideBlob(SideBlob::Orders), 200, &[("Last-Modified", date)]);
        answer.last_modified.map(|date| date.timestamp())
    };
    assert_eq!(seconds("Fri, 02 Jan 2026 03:04:05 GMT"), Some(1_767_323_045));
    assert_eq!(seconds("2026-01-02T03:04:05Z"), None);
    assert_eq!(read(&Operation::ReadSideBlob(SideBlob::Orders), 200, &[]).last_modified, None);
}

#[test]
fn lease_time_and_code_are_read_or_left() {
    let answer =
        read(&Operation::Break { period: None, if_match: None }, 202, &[("x-ms-lease-time", "15")]);
    assert_eq!((answer.class, answer.lease_time), (Class::Done, Some(15)));
    let answer =
        read(&renew(), 500, &[("x-ms-lease-time", "-1"), ("x-ms-error-code", "<b>no code</b>")]);
    assert_eq!((answer.class, answer.lease_time, answer.code), (Class::Unavailable, None, None));
}

#[test]
fn refusal_detail_quotes_the_service() {
    let error = |detail: &str| {
        format!(
            "\u{feff}<?xml version=\"1.0\" encoding=\"utf-8\"?><Error><Code>AuthenticationFailed</Code>\
             <Message>Server failed.\nTime:2026</Message>\
             <AuthenticationErrorDetail>{detail}</AuthenticationErrorDetail></Error>"
        )
    };
    let detail = |status, body: &str| read(&renew(), status, &[]).with_body(body.as_bytes()).detail;
    let old = "Request date header too old: 'Fri, 02 Jan 2026 03:04:05 GMT'";
    assert_eq!(detail(403, &error(old)).as_deref(), Some(old));
    assert_eq!(detail(403, &error(" Audience\nis wrong ")).as_deref(), Some("Audience is wrong"));
    let expired = "Signature not valid in the specified time frame: Start [a] - Expiry [b]";
    let now = error(&format!("{expired} - Current [Fri, 02 Jan 2026 03:04:05 GMT]"));
    assert_eq!(detail(403, &now).as_deref(), Some(expired));
    // The text quotes the lease id.
    let signed =
        error("The MAC differs. Server used following string to sign: 'PUT x-ms-lease-id:a'");
    assert_eq!(detail(403, &signed), None);
    let by_sas = error("Signature did not match. String to sign used was rcw");
    assert_eq!(detail(403, &by_sas), None);
    assert_eq!(detail(403, "<html>"), None);
    assert_eq!(detail(200, &error(old)), None);
    let challenge = "Bearer authorization_uri=https://login.microsoftonline.com/t/oauth2/authorize \
                     resource_id=https://storage.azure.com";
    let answer = read(&renew(), 401, &[("WWW-Authenticate", challenge)]);
    assert_eq!(answer.detail.as_deref(), Some(challenge));
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
            let answer = Answer::from_parts(&operation, status, &headers);
            prop_assert_eq!(answer.status, status);
            prop_assert!(answer.class != Class::Done || (200..=202).contains(&status));
        }
    }
}
