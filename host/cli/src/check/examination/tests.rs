//! Whole examinations against a service of values.

mod service;

use chrono::{DateTime, TimeDelta, Utc};
use proptest::prelude::*;

use super::*;
use crate::check::findings::Verdict;
use service::{ELECTION, MOST_QUESTIONS, Service, refused, settings, with_failover, with_key};
use tenure_azure::operation::Operation;
use tenure_azure::{LeaseId, http_date};
use tenure_core::FailureKind;

fn of<'f>(findings: &'f [Finding], check: &str) -> &'f Finding {
    let found = findings.iter().find(|finding| finding.check == check);
    found.unwrap_or_else(|| panic!("no {check}: {findings:#?}"))
}

fn checks(findings: &[Finding]) -> Vec<&str> {
    findings.iter().map(|finding| finding.check).collect()
}

#[test]
fn on_a_service_as_it_has_to_be_all_is_well_and_nothing_is_left() {
    let mut service = Service::new();
    let findings = service.examine(&with_key(), |_, _| None);
    assert_eq!(
        checks(&findings),
        [
            "credential",
            "election",
            "create blob",
            "acquire lease",
            "exclusion",
            "write record",
            "conditions",
            "renew lease",
            "change lease",
            "release lease",
            "conditional break",
            "break lease",
            "delete blob",
            "clock",
            "round trips",
            "account",
            "versioning",
        ]
    );
    assert!(findings.iter().all(|f| f.verdict == Verdict::Good), "{findings:#?}");
    assert_eq!(service.blob, None);
    service.judge_what_was_asked();
    assert!(!format!("{findings:?}").contains("c2VjcmV0"));
}

/// Returns true for requests of this check on the examination's own blob.
fn is(question: &Question, check: &str) -> bool {
    question.operation.name() == check && question.blob.to_string() != ELECTION
}

#[test]
fn each_permission_that_lacks_is_named_and_what_was_made_is_removed() {
    for (check, letters, goes_on) in [
        ("create blob", "c or w", false),
        ("acquire lease", "a SAS with w,", false),
        ("write record", "a SAS with w,", true),
        ("renew lease", "containers/blobs/write", true),
        ("change lease", "a SAS with w,", true),
        ("release lease", "a SAS with w,", true),
        ("break lease", "w or d", true),
    ] {
        let mut service = Service::new();
        let findings = service.examine(&with_key(), |question, _| {
            is(question, check).then(|| refused(403, "AuthorizationPermissionMismatch"))?
        });
        let finding = of(&findings, check);
        assert_eq!(finding.verdict, Verdict::Failed, "{findings:#?}");
        assert!(finding.detail.contains(letters), "{finding:?}");
        assert_eq!(!checks(&findings).contains(&"not tried"), goes_on, "{findings:#?}");
        assert_eq!(service.blob, None, "{check}: {findings:#?}");
        service.judge_what_was_asked();
    }
}

#[test]
fn who_may_not_look_learns_which_permission_lacks_and_what_else_is_permitted() {
    let mut service = Service::new();
    let findings = service.examine(&with_key(), |question, _| {
        matches!(question.operation, Operation::Read { .. })
            .then(|| refused(403, "AuthorizationPermissionMismatch"))?
    });
    assert_eq!(of(&findings, "read blob").verdict, Verdict::Failed);
    assert!(of(&findings, "read blob").detail.contains("containers/blobs/read"));
    assert_eq!(of(&findings, "release lease").verdict, Verdict::Good);
    assert_eq!(service.blob, None);
}

/// A SAS for one blob cannot read the one beside it.
#[test]
fn a_credential_that_may_not_read_orders_gets_a_warning() {
    let mut service = Service::new();
    let findings = service.examine(&with_key(), |question, _| {
        matches!(question.operation, Operation::ReadSideBlob(_))
            .then(|| refused(403, "AuthorizationPermissionMismatch"))?
    });
    let finding = of(&findings, "read orders");
    assert_eq!(finding.verdict, Verdict::Warning, "{findings:#?}");
    assert!(finding.detail.contains("takes no orders"), "{finding:?}");
}

#[test]
fn who_is_not_known_is_asked_nothing_more() {
    for code in
        ["AuthenticationFailed", "AuthorizationFailure", "KeyBasedAuthenticationNotPermitted"]
    {
        let mut service = Service::new();
        let findings = service.examine(&with_key(), |_, _| refused(403, code));
        assert_eq!(of(&findings, "read blob").verdict, Verdict::Failed);
        assert!(of(&findings, "read blob").detail.contains(code), "{findings:#?}");
        assert!(of(&findings, "not tried").detail.contains("everything else"));
        assert_eq!(service.asked.len(), 1);
    }
}

#[test]
fn a_request_that_is_never_answered_ends_it_and_what_was_made_is_removed() {
    for (check, left) in [
        ("create blob", false),
        ("read blob", false),
        ("acquire lease", false),
        ("write record", false),
        ("renew lease", false),
        ("change lease", false),
        ("release lease", false),
        ("break lease", false),
        ("delete blob", true),
    ] {
        let mut service = Service::new();
        let mut made = false;
        let findings = service.examine(&with_key(), |question, _| {
            made |= matches!(question.operation, Operation::CreateBlob);
            (is(question, check) && made).then_some(Err(FailureKind::Timeout))
        });
        let unanswered = service.asked.iter().filter(|question| is(question, check)).count();
        // The first break has a condition.
        let told = if check == "break lease" { "conditional break" } else { check };
        let finding = of(&findings, told);
        assert!(finding.verdict >= Verdict::Warning, "{check}: {finding:?}");
        assert!(finding.detail.contains("did not answer in time"), "{check}: {finding:?}");
        assert_eq!(finding.detail.contains("by hand"), left, "{check}: {finding:?}");
        assert!((2..=4).contains(&unanswered), "{check}: {unanswered}");
        assert_eq!(service.blob.is_some(), left, "{check}: {findings:#?}");
    }
}

#[test]
fn one_lost_answer_is_no_finding() {
    for lost in 0..30 {
        let (mut service, mut shadow) = (Service::new(), Service::new());
        let mut count = 0;
        let findings = service.examine(&with_key(), |question, _| {
            count += 1;
            let told = shadow.say(question);
            // Done, and not heard of.
            Some(if count == lost { Err(FailureKind::Reset) } else { told })
        });
        assert!(findings.iter().all(|f| f.verdict == Verdict::Good), "{lost}: {findings:#?}");
        assert_eq!(shadow.blob, None, "{lost}");
    }
}

#[test]
fn a_service_that_does_not_keep_leases_apart_is_found_out() {
    let mut service = Service::new();
    let twice = service.examine(&with_key(), |question, _| match &question.operation {
        Operation::Acquire { lease, .. } => {
            Some(Ok((201, vec![("x-ms-lease-id", lease.to_string())])))
        }
        _ => None,
    });
    assert_eq!(of(&twice, "exclusion").verdict, Verdict::Failed);

    let stale = Service::new().examine(&with_key(), |question, _| match &question.operation {
        Operation::WriteMetadata { .. } => Some(Ok((200, vec![("etag", "\"7\"".into())]))),
        _ => None,
    });
    assert_eq!(of(&stale, "conditions").verdict, Verdict::Failed);

    let another = LeaseId::parse("aaaaaaaa-bbbb-4ccc-8ddd-eeeeeeeeeeee").unwrap();
    let theirs = Service::new().examine(&with_key(), |question, _| match &question.operation {
        Operation::Renew { .. } => Some(Ok((200, vec![("x-ms-lease-id", another.to_string())]))),
        _ => None,
    });
    assert!(of(&theirs, "renew lease").detail.contains("a different lease"));
    assert_eq!(of(&theirs, "renew lease").verdict, Verdict::Failed);
}

/// Who breaks a lease by what it has seen has to be refused when that was written over.
#[test]
fn a_service_whose_breaks_have_no_condition_is_found_out_and_no_place_for_failover() {
    let breaks = |question: &Question, which: &str| match &question.operation {
        Operation::Break { if_match: Some(seen), .. } => (seen.0 == "\"1\"") == (which == "stale"),
        _ => false,
    };
    let after =
        |question: &Question| matches!(question.operation, Operation::Read { lease: Some(_) });
    for (settings, verdict) in [(with_failover(), Verdict::Failed), (with_key(), Verdict::Warning)]
    {
        // The condition is not seen.
        let mut service = Service::new();
        let mut shadow = Service::new();
        let ignored = service.examine(&settings, |question, _| {
            let mut question = question.clone();
            if let Operation::Break { if_match, .. } = &mut question.operation {
                *if_match = None;
            }
            Some(shadow.say(&question))
        });
        let finding = of(&ignored, "conditional break");
        assert_eq!(finding.verdict, verdict);
        assert!(
            finding.detail.contains("broken although the blob had changed since"),
            "{finding:?}"
        );
        assert_eq!(shadow.blob, None, "{ignored:#?}");

        // It is seen, and the lease is gone.
        let mut service = Service::new();
        let gone = service.examine(&settings, |question, _| {
            after(question).then(|| refused(412, "LeaseNotPresentWithBlobOperation"))?
        });
        let finding = of(&gone, "conditional break");
        assert_eq!(finding.verdict, verdict);
        assert!(finding.detail.contains("still ended the lease"), "{finding:?}");
        assert_eq!(service.blob, None, "{gone:#?}");

        // Nothing fits.
        let mut service = Service::new();
        let never = service.examine(&settings, |question, _| {
            breaks(question, "newest").then(|| refused(412, "ConditionNotMet"))?
        });
        let finding = of(&never, "conditional break");
        assert_eq!(finding.verdict, verdict);
        assert!(
            finding.detail.contains("could not be broken although the blob had not changed"),
            "{finding:?}"
        );
        assert_eq!(service.blob, None, "{never:#?}");
    }
}

#[test]
fn a_clock_that_is_far_off_is_told_and_the_rest_is_tried_by_the_services() {
    let mut service = Service { ahead: TimeDelta::minutes(20), ..Service::new() };
    let settings = with_key();
    let findings = service.examine(&settings, |question, there| {
        let sent = question.request(&settings, there - TimeDelta::minutes(20));
        let (_, date) = sent.headers.iter().find(|(name, _)| name == "x-ms-date").unwrap();
        let age = there - http_date::parse(date).unwrap();
        (age > TimeDelta::minutes(15)).then(|| refused(403, "AuthenticationFailed"))?
    });
    assert_eq!(of(&findings, "clock").verdict, Verdict::Failed);
    assert!(of(&findings, "clock").detail.contains("20m behind"), "{findings:#?}");
    assert_eq!(of(&findings, "delete blob").verdict, Verdict::Good);
}

#[test]
fn who_may_not_delete_leaves_one_blob_however_often_he_comes() {
    let mut service = Service::new();
    let no_delete = |question: &Question, _: DateTime<Utc>| {
        matches!(question.operation, Operation::Delete { .. })
            .then(|| refused(403, "AuthorizationPermissionMismatch"))?
    };
    for _ in 0..2 {
        let findings = service.examine(&with_key(), no_delete);
        assert!(findings.iter().all(|f| f.verdict == Verdict::Good), "{findings:#?}");
        assert!(of(&findings, "delete blob").detail.contains("jobs/report.check stays"));
        service.asked.clear();
    }
    assert_eq!(service.blob.as_ref().unwrap().0, "jobs/report.check");
    assert_eq!(service.lease, None);
}

#[test]
fn a_blob_of_somebody_else_is_left_alone() {
    for header in [("x-ms-meta-owner", "somebody"), ("content-length", "5")] {
        let mut service = Service::new();
        let findings = service.examine(&with_key(), |question, _| match &question.operation {
            Operation::Delete { .. } => refused(403, "AuthorizationPermissionMismatch"),
            Operation::CreateBlob => refused(409, "BlobAlreadyExists"),
            Operation::Read { .. } if question.blob.to_string() != ELECTION => Some(Ok((
                200,
                vec![
                    ("etag", "\"1\"".into()),
                    ("x-ms-lease-state", "available".into()),
                    (header.0, header.1.into()),
                ],
            ))),
            _ => None,
        });
        assert!(
            of(&findings, "permissions").detail.contains("not made by Tenure"),
            "{findings:#?}"
        );
        let touched =
            service.asked.iter().filter(|q| is(q, "acquire lease") || is(q, "write record"));
        assert_eq!(touched.count(), 0);
        let deleted = service.asked.iter().filter(|q| is(q, "delete blob")).count();
        assert_eq!(deleted, 1, "only asked whether it could");
    }
}

#[test]
fn a_missing_container_is_made_or_told() {
    let mut service = Service::default();
    let findings = service.examine(&with_key(), |_, _| None);
    assert_eq!(of(&findings, "create container").verdict, Verdict::Good);
    assert_eq!(of(&findings, "delete blob").verdict, Verdict::Good);

    let findings = Service::default().examine(&with_key(), |question, _| {
        matches!(question.operation, Operation::CreateContainer)
            .then(|| refused(403, "AuthorizationResourceTypeMismatch"))?
    });
    let finding = of(&findings, "create container");
    assert_eq!(finding.verdict, Verdict::Failed);
    assert!(finding.detail.contains("the container jobs is missing"), "{finding:?}");
}

#[test]
fn a_sas_for_the_one_blob_is_not_tried_beside_it() {
    let one = "BlobEndpoint=https://acc.blob.core.windows.net;\
               SharedAccessSignature=sv=2022-11-02&sr=b&sp=rw&se=2099-01-01&sig=c2lnc2lnc2lnc2lnc2lnc2lnc2lnc2lnc2lnc2lnc2k=";
    let mut service = Service::new();
    let findings = service.examine(&settings(one), |_, _| None);
    assert_eq!(of(&findings, "permissions").verdict, Verdict::Unknown);
    assert!(service.asked.iter().all(|question| question.blob.to_string() == ELECTION));
    service.judge_what_was_asked();
}

#[test]
fn a_blob_that_is_no_election_is_told() {
    let findings = Service::new().examine(&with_key(), |question, _| {
        let election = question.blob.to_string() == ELECTION;
        (election && matches!(question.operation, Operation::Read { .. })).then(|| {
            Ok((
                200,
                vec![
                    ("etag", "\"1\"".into()),
                    ("x-ms-lease-state", "available".into()),
                    ("content-length", "7".into()),
                ],
            ))
        })
    });
    assert_eq!(of(&findings, "election").verdict, Verdict::Failed);
    assert!(of(&findings, "election").detail.contains("7 bytes"));
    assert_eq!(of(&findings, "delete blob").verdict, Verdict::Good, "the rest is tried");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn whatever_is_answered_it_ends_and_the_election_is_only_looked_at(
        answers in proptest::collection::vec((0..14_usize, any::<bool>()), MOST_QUESTIONS)
    ) {
        let mut service = Service::new();
        let mut count = 0;
        service.examine(&with_key(), |_, _| {
            let (which, honest) = answers[count % answers.len()];
            count += 1;
            let status = [200, 201, 202, 204, 301, 400, 401, 403, 404, 409, 412, 429, 503];
            match status.get(which) {
                _ if honest => None,
                None => Some(Err(FailureKind::Reset)),
                Some(status) => Some(Ok((*status, vec![("etag", "\"1\"".into())]))),
            }
        });
        service.judge_what_was_asked();
    }
}
