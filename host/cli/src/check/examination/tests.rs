//! Complete examinations of a simulated service.

mod scratch;
mod service;

use chrono::{DateTime, TimeDelta, Utc};
use proptest::prelude::*;

use super::*;
use crate::check::findings::Verdict;
use service::{
    ELECTION, MAX_QUESTIONS, Service, refusal, settings, with_failover, with_identity, with_key,
};
use tenure_azure::operation::Operation;
use tenure_azure::{LeaseId, encoding};
use tenure_core::FailureKind;

fn finding_for<'f>(findings: &'f [Finding], check: &str) -> &'f Finding {
    let found = findings.iter().find(|finding| finding.check == check);
    found.unwrap_or_else(|| panic!("no {check}: {findings:#?}"))
}

fn checks(findings: &[Finding]) -> Vec<&str> {
    findings.iter().map(|finding| finding.check).collect()
}

#[test]
fn correct_service_passes_and_nothing_remains() {
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
    service.check_questions();
    assert!(!format!("{findings:?}").contains("c2VjcmV0"));
}

/// Returns true for requests of this check to the scratch blob.
fn is_check(question: &Question, check: &str) -> bool {
    question.operation.name() == check && question.blob.to_string() != ELECTION
}

#[test]
fn missing_permission_is_named_and_the_blob_is_removed() {
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
            is_check(question, check).then(|| refusal(403, "AuthorizationPermissionMismatch"))?
        });
        let finding = finding_for(&findings, check);
        assert_eq!(finding.verdict, Verdict::Failed, "{findings:#?}");
        assert!(finding.detail.contains(letters), "{finding:?}");
        assert_eq!(!checks(&findings).contains(&"not tried"), goes_on, "{findings:#?}");
        assert_eq!(service.blob, None, "{check}: {findings:#?}");
        service.check_questions();
    }
}

#[test]
fn without_read_permission_other_permissions_are_still_checked() {
    let mut service = Service::new();
    let findings = service.examine(&with_key(), |question, _| {
        matches!(question.operation, Operation::Read { .. })
            .then(|| refusal(403, "AuthorizationPermissionMismatch"))?
    });
    assert_eq!(finding_for(&findings, "read blob").verdict, Verdict::Failed);
    assert!(finding_for(&findings, "read blob").detail.contains("containers/blobs/read"));
    assert_eq!(finding_for(&findings, "release lease").verdict, Verdict::Good);
    assert_eq!(service.blob, None);
}

/// A SAS for one blob does not permit reading the orders next to it.
#[test]
fn a_credential_that_may_not_read_orders_gets_a_warning() {
    let mut service = Service::new();
    let findings = service.examine(&with_key(), |question, _| {
        matches!(question.operation, Operation::ReadSideBlob(_))
            .then(|| refusal(403, "AuthorizationPermissionMismatch"))?
    });
    let finding = finding_for(&findings, "read orders");
    assert_eq!(finding.verdict, Verdict::Warning, "{findings:#?}");
    assert!(finding.detail.contains("takes no orders"), "{finding:?}");
}

#[test]
fn unauthenticated_caller_sends_no_more_requests() {
    for code in
        ["AuthenticationFailed", "AuthorizationFailure", "KeyBasedAuthenticationNotPermitted"]
    {
        let mut service = Service::new();
        let findings = service.examine(&with_key(), |_, _| refusal(403, code));
        assert_eq!(finding_for(&findings, "read blob").verdict, Verdict::Failed);
        assert!(finding_for(&findings, "read blob").detail.contains(code), "{findings:#?}");
        assert!(finding_for(&findings, "not tried").detail.contains("everything else"));
        assert_eq!(service.questions.len(), 1);
    }
}

#[test]
fn unanswered_request_ends_the_check_and_the_blob_is_removed() {
    for (check, remains) in [
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
            (is_check(question, check) && made).then_some(Err(FailureKind::Timeout))
        });
        let unanswered =
            service.questions.iter().filter(|question| is_check(question, check)).count();
        // The first break has a condition.
        let check_name = if check == "break lease" { "conditional break" } else { check };
        let finding = finding_for(&findings, check_name);
        assert!(finding.verdict >= Verdict::Warning, "{check}: {finding:?}");
        assert!(finding.detail.contains("did not answer in time"), "{check}: {finding:?}");
        assert_eq!(finding.detail.contains("by hand"), remains, "{check}: {finding:?}");
        assert!((2..=4).contains(&unanswered), "{check}: {unanswered}");
        assert_eq!(service.blob.is_some(), remains, "{check}: {findings:#?}");
    }
}

#[test]
fn one_lost_response_is_no_finding() {
    for lost in 0..30 {
        let (mut service, mut shadow) = (Service::new(), Service::new());
        let mut count = 0;
        let findings = service.examine(&with_key(), |question, _| {
            count += 1;
            let response = shadow.respond(question);
            // The request is carried out, but its response is lost.
            Some(if count == lost { Err(FailureKind::Reset) } else { response })
        });
        assert!(findings.iter().all(|f| f.verdict == Verdict::Good), "{lost}: {findings:#?}");
        assert_eq!(shadow.blob, None, "{lost}");
    }
}

/// The simulated clock moves only by requests and pauses.
#[test]
fn retry_after_an_unavailable_answer_waits_as_long_as_asked() {
    const REQUEST: Duration = Duration::from_millis(20);
    for (status, retry_after, pause) in [
        (503, None, BACK_OFF),
        (429, Some("0"), BACK_OFF),
        (429, Some("3"), Duration::from_secs(3)),
        (503, Some("3600"), MAX_BACK_OFF),
        (503, Some("Fri, 31 Dec 2027 23:59:59 GMT"), BACK_OFF),
    ] {
        let mut sent_at = Vec::new();
        let findings = Service::new().examine(&with_key(), |_, time| {
            sent_at.push(time);
            let header = retry_after.map(|text: &str| ("retry-after", text.to_owned()));
            (sent_at.len() == 1).then(|| Ok((status, header.into_iter().collect())))
        });
        let between = (sent_at[1] - sent_at[0]).to_std().unwrap();
        assert_eq!(between, REQUEST + pause, "{status} {retry_after:?}");
        assert!(findings.iter().all(|f| f.verdict == Verdict::Good), "{findings:#?}");
    }
}

#[test]
fn second_token_request_waits() {
    let mut service = Service::new();
    let findings = service.examine(&with_identity(), |_, _| None);
    assert_eq!(finding_for(&findings, "token").verdict, Verdict::Failed);
    assert_eq!(service.fetched_at, [Duration::ZERO, BACK_OFF]);
}

/// The token expires during the pause before a retry.
#[test]
fn blob_that_cannot_be_deleted_without_a_token_is_reported() {
    for check in ["create blob", "acquire lease", "break lease", "delete blob"] {
        let mut service = Service { tokens: 1, ..Service::new() };
        let mut made = false;
        let findings = service.examine(&with_identity(), |question, _| {
            made |= matches!(question.operation, Operation::CreateBlob);
            let is_unavailable = made && is_check(question, check);
            is_unavailable.then(|| Ok((503, vec![("retry-after", "5".to_owned())])))
        });
        let finding = finding_for(&findings, "delete blob");
        assert_eq!(finding.verdict, Verdict::Warning, "{check}: {findings:#?}");
        assert!(finding.detail.contains("The blob jobs/report.check-"), "{check}: {finding:?}");
        assert!(
            finding.detail.ends_with("may still exist: delete it by hand"),
            "{check}: {finding:?}"
        );
        let untried = finding_for(&findings, "not tried");
        assert_eq!(untried.detail, "everything else: there is no token", "{check}");
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
    assert_eq!(finding_for(&twice, "exclusion").verdict, Verdict::Failed);

    let stale = Service::new().examine(&with_key(), |question, _| match &question.operation {
        Operation::WriteMetadata { .. } => Some(Ok((200, vec![("etag", "\"7\"".into())]))),
        _ => None,
    });
    assert_eq!(finding_for(&stale, "conditions").verdict, Verdict::Failed);

    let other_lease = LeaseId::parse("aaaaaaaa-bbbb-4ccc-8ddd-eeeeeeeeeeee").unwrap();
    let theirs = Service::new().examine(&with_key(), |question, _| match &question.operation {
        Operation::Renew { .. } => {
            Some(Ok((200, vec![("x-ms-lease-id", other_lease.to_string())])))
        }
        _ => None,
    });
    assert!(finding_for(&theirs, "renew lease").detail.contains("a different lease"));
    assert_eq!(finding_for(&theirs, "renew lease").verdict, Verdict::Failed);
}

/// The service must refuse a conditional break if the blob was overwritten.
#[test]
fn a_service_whose_breaks_have_no_condition_is_found_out_and_no_place_for_failover() {
    let breaks = |question: &Question, which: &str| match &question.operation {
        Operation::Break { if_match: Some(etag), .. } => (etag.0 == "\"1\"") == (which == "stale"),
        _ => false,
    };
    let after =
        |question: &Question| matches!(question.operation, Operation::Read { lease: Some(_) });
    for (settings, verdict) in [(with_failover(), Verdict::Failed), (with_key(), Verdict::Warning)]
    {
        // The service ignores the condition.
        let mut service = Service::new();
        let mut shadow = Service::new();
        let ignored = service.examine(&settings, |question, _| {
            let mut question = question.clone();
            if let Operation::Break { if_match, .. } = &mut question.operation {
                *if_match = None;
            }
            Some(shadow.respond(&question))
        });
        let finding = finding_for(&ignored, "conditional break");
        assert_eq!(finding.verdict, verdict);
        assert!(
            finding.detail.contains("broken although the blob had changed since"),
            "{finding:?}"
        );
        assert_eq!(shadow.blob, None, "{ignored:#?}");

        // The service checks the condition, but ends the lease all the same.
        let mut service = Service::new();
        let gone = service.examine(&settings, |question, _| {
            after(question).then(|| refusal(412, "LeaseNotPresentWithBlobOperation"))?
        });
        let finding = finding_for(&gone, "conditional break");
        assert_eq!(finding.verdict, verdict);
        assert!(finding.detail.contains("still ended the lease"), "{finding:?}");
        assert_eq!(service.blob, None, "{gone:#?}");

        // The service refuses every condition.
        let mut service = Service::new();
        let never = service.examine(&settings, |question, _| {
            breaks(question, "newest").then(|| refusal(412, "ConditionNotMet"))?
        });
        let finding = finding_for(&never, "conditional break");
        assert_eq!(finding.verdict, verdict);
        assert!(
            finding.detail.contains("could not be broken although the blob had not changed"),
            "{finding:?}"
        );
        assert_eq!(service.blob, None, "{never:#?}");
    }
}

#[test]
fn clock_skew_is_reported_and_service_time_is_used() {
    let mut service = Service { ahead: TimeDelta::minutes(20), ..Service::new() };
    let settings = with_key();
    let findings = service.examine(&settings, |question, service_time| {
        let sent = question.request(&settings, service_time - TimeDelta::minutes(20));
        let (_, date) = sent.headers.iter().find(|(name, _)| name == "x-ms-date").unwrap();
        let age = service_time - encoding::parse_http_date(date).unwrap();
        (age > TimeDelta::minutes(15)).then(|| refusal(403, "AuthenticationFailed"))?
    });
    assert_eq!(finding_for(&findings, "clock").verdict, Verdict::Failed);
    assert!(finding_for(&findings, "clock").detail.contains("20m behind"), "{findings:#?}");
    assert_eq!(finding_for(&findings, "delete blob").verdict, Verdict::Good);
}

#[test]
fn caller_without_delete_permission_leaves_only_one_blob() {
    let mut service = Service::new();
    let no_delete = |question: &Question, _: DateTime<Utc>| {
        matches!(question.operation, Operation::Delete { .. })
            .then(|| refusal(403, "AuthorizationPermissionMismatch"))?
    };
    for _ in 0..2 {
        let findings = service.examine(&with_key(), no_delete);
        assert!(findings.iter().all(|f| f.verdict == Verdict::Good), "{findings:#?}");
        assert!(finding_for(&findings, "delete blob").detail.contains("jobs/report.check stays"));
        service.questions.clear();
    }
    assert_eq!(service.blob.as_ref().unwrap().0, "jobs/report.check");
    assert_eq!(service.lease, None);
}

/// The permanent blob of an earlier run is not new, so its ETag is known only from the lease.
#[test]
fn conditions_are_checked_without_permission_to_read_or_delete() {
    let mut service = Service::new();
    let no_read_or_delete = |question: &Question, _: DateTime<Utc>| {
        matches!(question.operation, Operation::Read { .. } | Operation::Delete { .. })
            .then(|| refusal(403, "AuthorizationPermissionMismatch"))?
    };
    for _ in 0..2 {
        let findings = service.examine(&with_key(), no_read_or_delete);
        assert_eq!(finding_for(&findings, "conditions").verdict, Verdict::Good, "{findings:#?}");
        service.questions.clear();
    }
    let mut shadow = service;
    let findings = Service::new().examine(&with_key(), |question, time| {
        let response = no_read_or_delete(question, time);
        let mut response = response.unwrap_or_else(|| shadow.respond(question));
        if let (Operation::Acquire { .. }, Ok((_, headers))) = (&question.operation, &mut response)
        {
            headers.retain(|(name, _)| *name != "etag");
        }
        Some(response)
    });
    let finding = finding_for(&findings, "conditions");
    assert_eq!(finding.verdict, Verdict::Unknown, "{findings:#?}");
}

#[test]
fn foreign_blob_is_left_alone() {
    for header in [("x-ms-meta-owner", "somebody"), ("content-length", "5")] {
        let mut service = Service::new();
        let findings = service.examine(&with_key(), |question, _| match &question.operation {
            Operation::Delete { .. } => refusal(403, "AuthorizationPermissionMismatch"),
            Operation::CreateBlob => refusal(409, "BlobAlreadyExists"),
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
            finding_for(&findings, "permissions").detail.contains("not made by Tenure"),
            "{findings:#?}"
        );
        let touched = service
            .questions
            .iter()
            .filter(|q| is_check(q, "acquire lease") || is_check(q, "write record"));
        assert_eq!(touched.count(), 0);
        let deleted = service.questions.iter().filter(|q| is_check(q, "delete blob")).count();
        assert_eq!(deleted, 1, "only asked whether it could");
    }
}

#[test]
fn missing_container_is_created_or_reported() {
    let mut service = Service::default();
    let findings = service.examine(&with_key(), |_, _| None);
    assert_eq!(finding_for(&findings, "create container").verdict, Verdict::Good);
    assert_eq!(finding_for(&findings, "delete blob").verdict, Verdict::Good);

    let findings = Service::default().examine(&with_key(), |question, _| {
        matches!(question.operation, Operation::CreateContainer)
            .then(|| refusal(403, "AuthorizationResourceTypeMismatch"))?
    });
    let finding = finding_for(&findings, "create container");
    assert_eq!(finding.verdict, Verdict::Failed);
    assert!(finding.detail.contains("the container jobs is missing"), "{finding:?}");
}

#[test]
fn sas_for_one_blob_is_not_tried_on_another() {
    let one = "BlobEndpoint=https://acc.blob.core.windows.net;\
               SharedAccessSignature=sv=2022-11-02&sr=b&sp=rw&se=2099-01-01&sig=c2lnc2lnc2lnc2lnc2lnc2lnc2lnc2lnc2lnc2lnc2k=";
    let mut service = Service::new();
    let findings = service.examine(&settings(one), |_, _| None);
    assert_eq!(finding_for(&findings, "permissions").verdict, Verdict::Unknown);
    assert!(service.questions.iter().all(|question| question.blob.to_string() == ELECTION));
    service.check_questions();
}

#[test]
fn blob_that_is_no_election_is_reported() {
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
    assert_eq!(finding_for(&findings, "election").verdict, Verdict::Failed);
    assert!(finding_for(&findings, "election").detail.contains("7 bytes"));
    assert_eq!(finding_for(&findings, "delete blob").verdict, Verdict::Good, "the rest is tried");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn any_response_ends_the_check_and_the_election_is_only_read(
        answers in proptest::collection::vec((0..14_usize, any::<bool>()), MAX_QUESTIONS)
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
        service.check_questions();
    }
}
