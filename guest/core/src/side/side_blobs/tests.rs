use super::*;
use crate::step::pace::Chance;
use chrono::DateTime;
use tenure_azure::blob::Metadata;
use tenure_azure::credential::{AuthSource, Credential};
use tenure_azure::endpoint::Endpoint;
use tenure_azure::identity::{IMDS, Identity};

fn settings() -> Settings {
    let variables = [
        ("TENURE_ELECTION", "leases/jobs"),
        ("TENURE_NAME", "ada"),
        ("TENURE_EVERY", "1h"),
        ("AZURE_STORAGE_CONNECTION_STRING", "UseDevelopmentStorage=true"),
    ];
    let found = |name: &str| {
        let known = variables.iter().find(|(known, _)| *known == name);
        known.map(|(_, value)| (*value).to_string())
    };
    Settings::read(found).unwrap()
}

fn read() -> Operation {
    Operation::ReadContent { if_none_match: Some(ETag("\"1\"".into())) }
}

fn write() -> Operation {
    let metadata = Metadata::default();
    Operation::WriteContent { condition: WriteCondition::IfAbsent, content: "a".into(), metadata }
}

fn delete() -> Operation {
    Operation::Delete { lease: None, if_match: Some(ETag("\"1\"".into())) }
}

fn list() -> Operation {
    Operation::List { prefix: "jobs.a".into(), marker: None }
}

fn answer(
    operation: &Operation,
    status: u16,
    headers: &[(&str, &str)],
    body: &str,
) -> Result<SideAnswer, ProblemClass> {
    let headers = headers.iter().map(|(name, value)| ((*name).into(), (*value).into()));
    let answer = Answer::from_parts(operation, status, &headers.collect::<Vec<_>>());
    side_answer(operation, &answer, body.into(), &settings()).map_err(|problem| problem.class)
}

fn code(code: &str) -> [(&str, &str); 1] {
    [("x-ms-error-code", code)]
}

#[test]
fn answers_map_to_side_answers() {
    let tag = || ETag("\"2\"".into());
    let read_of =
        |length| [("etag", "\"2\""), ("x-ms-lease-state", "available"), ("content-length", length)];
    let content = SideAnswer::Content("plan".into(), tag());
    assert_eq!(answer(&read(), 200, &read_of("4"), "plan"), Ok(content));
    assert_eq!(answer(&read(), 304, &code("ConditionNotMet"), ""), Ok(SideAnswer::Unchanged));
    assert_eq!(answer(&read(), 404, &code("BlobNotFound"), ""), Ok(SideAnswer::Missing));
    assert_eq!(answer(&write(), 201, &[("etag", "\"2\"")], ""), Ok(SideAnswer::Written(tag())));
    for (status, why) in [(409, "BlobAlreadyExists"), (412, "ConditionNotMet")] {
        assert_eq!(answer(&write(), status, &code(why), ""), Ok(SideAnswer::Declined), "{why}");
    }
    for operation in [write(), delete()] {
        assert_eq!(answer(&operation, 412, &code("LeaseIdMissing"), ""), Ok(SideAnswer::Leased));
    }
    assert_eq!(answer(&write(), 404, &code("ContainerNotFound"), ""), Ok(SideAnswer::Missing));
    assert_eq!(answer(&delete(), 202, &[], ""), Ok(SideAnswer::Deleted));
    assert_eq!(answer(&delete(), 404, &code("BlobNotFound"), ""), Ok(SideAnswer::Missing));
    assert_eq!(answer(&delete(), 412, &code("ConditionNotMet"), ""), Ok(SideAnswer::Declined));
}

#[test]
fn a_page_of_a_list_is_whole_or_none() {
    let page = |status, headers: &[(&str, &str)], body: &str| {
        let headers = headers.iter().map(|(name, value)| ((*name).into(), (*value).into()));
        let answer = Answer::from_parts(&list(), status, &headers.collect::<Vec<_>>());
        let answer = answer.with_page(body.as_bytes());
        super::page(&list(), &answer, &settings()).map_err(|problem| problem.class)
    };
    let empty = Page { blobs: Vec::new(), next: None };
    let xml = "<EnumerationResults><Blobs/><NextMarker/></EnumerationResults>";
    assert_eq!(page(200, &[], xml), Ok(Some(empty)));
    assert_eq!(page(404, &code("ContainerNotFound"), ""), Ok(None));
    assert_eq!(page(200, &[], "<EnumerationResults><Blobs>"), Err(ProblemClass::Nonsense));
    let refused = page(403, &code("AuthorizationPermissionMismatch"), "");
    assert_eq!(refused, Err(ProblemClass::Refused));
}

#[test]
fn uncertain_writes_differ_from_rejected_writes() {
    for operation in [read(), write(), delete()] {
        for (status, why, class) in [
            (403, "AuthorizationPermissionMismatch", ProblemClass::Refused),
            (400, "InvalidHeaderValue", ProblemClass::Refused),
            (503, "ServerBusy", ProblemClass::Unavailable),
            (500, "OperationTimedOut", ProblemClass::Unavailable),
            (409, "ContainerBeingDeleted", ProblemClass::Unavailable),
            (302, "", ProblemClass::Nonsense),
        ] {
            assert_eq!(
                answer(&operation, status, &code(why), ""),
                Err(class),
                "{operation:?} {why}"
            );
        }
    }
}

#[test]
fn a_part_of_an_answer_is_none() {
    let headers = [("etag", "\"2\""), ("x-ms-lease-state", "available"), ("content-length", "4")];
    assert_eq!(answer(&read(), 200, &headers, "pla"), Err(ProblemClass::Nonsense));
    // Only the content of a blob has a body.
    assert_eq!(answer(&write(), 201, &[], ""), Err(ProblemClass::Nonsense));
}

#[test]
fn a_blob_beside_has_a_name_that_blobs_can_have() {
    let plan = side_blob_settings(settings(), "plan").unwrap();
    assert_eq!(plan.election.to_string(), "leases/jobs.plan");
    assert_eq!(side_blob_prefix(&settings().election), "jobs.");
    let problem = side_blob_settings(settings(), "a/..").unwrap_err();
    assert_eq!(problem.class, ProblemClass::Configuration);
    assert!(
        problem.detail.starts_with("no blob can be named leases/jobs.a/..: "),
        "{}",
        problem.detail
    );
}

/// A constant random number.
struct Same;

impl Chance for Same {
    fn bits(&mut self) -> u64 {
        7
    }
}

#[test]
fn a_session_keeps_the_token_and_the_clock() {
    let zero = Duration::ZERO;
    let identity = Identity::Imds { endpoint: Endpoint::parse(IMDS).unwrap(), client: None };
    let credential = Credential::Identity(identity);
    let token = Ok((200, br#"{"access_token":"ey","expires_in":3600}"#.to_vec()));
    let mut session = Session::default();
    let wall = DateTime::from_timestamp(10_000, 0).unwrap();
    session.credential.on_token_reply(&credential, token, (zero, zero), wall, &mut Same).unwrap();
    session.set_clock_skew(TimeDelta::seconds(-1000));
    let session = Session::from_bytes(Some(&session.to_bytes()));
    let pass = session.credential.auth_source(&credential, zero);
    assert!(matches!(pass, Some(AuthSource::Token(_))), "{pass:?}");
    assert_eq!((wall + session.clock_skew()).timestamp(), 9_000);
}

#[test]
fn bytes_that_are_no_session_are_as_good_as_none() {
    let written = Session::default().to_bytes();
    let mut other = written.clone();
    other[0] += 1;
    let long = [written.as_slice(), &[0]].concat();
    for bytes in [None, Some(&[][..]), Some(&other), Some(&long), Some(&written[..1])] {
        assert_eq!(Session::from_bytes(bytes).clock_skew(), TimeDelta::zero());
    }
}
