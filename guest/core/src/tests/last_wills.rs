//! protocol.md §7.3.

use super::*;
use tenure_azure::operation::ETag;
use tenure_azure::request::Method;

const NO_STRING: (&str, &str) = (variable::CONNECTION_STRING, "");

fn header(will: &LastWill, name: &str) -> Option<String> {
    let mut headers = will.request.headers.iter();
    headers.find(|(known, _)| known == name).map(|(_, value)| value.clone())
}

fn acquired(candidate: &Candidate) -> String {
    let acquire = |request: &SentRequest| match request.operation {
        Operation::Acquire { lease, .. } => Some(lease.to_string()),
        _ => None,
    };
    candidate.requests.iter().find_map(acquire).unwrap()
}

#[test]
fn only_leader_leaves_last_will_at_election_and_renewal() {
    let mut candidate = Candidate::new(&[]);
    candidate.step(None, |o, at| blob_answer(o, at, "leased", &incumbent(9)));
    assert_eq!(candidate.will, None, "it follows");
    candidate.now += seconds(4);
    let began = candidate.now;
    candidate.lead();
    let lease = acquired(&candidate);
    let will = candidate.will.clone().unwrap();
    assert_eq!(will.request.method, Method::Put);
    assert!(will.request.path_and_query.contains("comp=lease"), "{will:?}");
    assert_eq!(header(&will, "x-ms-lease-action").as_deref(), Some("release"));
    assert_eq!(header(&will, "x-ms-lease-id"), Some(lease.clone()));
    assert!(header(&will, "authorization").unwrap().starts_with("SharedKey "));
    let sent = candidate.requests.iter().find(|a| a.operation.name() == "acquire lease");
    assert_eq!(began + will.valid_for, sent.unwrap().sent + seconds(15), "the lease has run out");

    candidate.now += seconds(1);
    let report = candidate.step(None, available);
    assert!(matches!(report.role, Role::Leading(_)) && candidate.will.is_none(), "{report:?}");
    candidate.now += seconds(3);
    let began = candidate.now;
    assert!(candidate.step(None, available).renewed);
    let will = candidate.will.clone().unwrap();
    assert_eq!(header(&will, "x-ms-lease-id"), Some(lease));
    assert_eq!(began + will.valid_for, candidate.requests[0].sent + seconds(15));

    candidate.now += seconds(4);
    candidate.step(None, |o, at| error_answer(o, at, 503, "ServerBusy"));
    assert_eq!(candidate.will, None, "the one before holds");
    candidate.step(Some(Event::Leave(None)), available);
    assert_eq!(candidate.will, None);
}

#[test]
fn a_lease_without_a_term_leaves_none() {
    let mut candidate = Candidate::new(&[]);
    candidate.step(None, |o, at| match o {
        Operation::WriteMetadata { .. } => error_answer(o, at, 503, "ServerBusy"),
        _ => available(o, at),
    });
    assert!(candidate.verbs().contains(&"acquire lease"), "{:?}", candidate.verbs());
    assert_eq!(candidate.will, None);
}

#[test]
fn last_will_expires_with_its_credential() {
    // Seven seconds after the candidate's first step.
    let end = instant(seconds(107)).format("%Y-%m-%dT%H:%M:%SZ").to_string();
    let sas = format!(
        "sv=2022-11-02&sr=c&sp=rcw&se={end}&sig=c2lnc2lnc2lnc2lnc2lnc2lnc2lnc2lnc2lnc2lnc2k="
    );
    let account = (variable::ACCOUNT, "tenure");
    let mut candidate = Candidate::new(&[NO_STRING, account, (variable::SAS_TOKEN, &sas)]);
    let began = candidate.now;
    candidate.lead();
    let will = candidate.will.clone().unwrap();
    let until = began + will.valid_for;
    // The service's time comes from dates in whole seconds.
    assert!((seconds(107)..seconds(109)).contains(&until), "{until:?}");
    assert!(
        will.request.path_and_query.contains("sig=c2lnc2lnc2lnc2lnc2lnc2lnc2lnc2lnc2lnc2lnc2k=")
    );
    assert!(!format!("{will:?}").contains("c2ln"), "{will:?}");

    let mut candidate = Candidate::new(&[NO_STRING, account]);
    let token = br#"{"access_token":"c2VjcmV0","expires_in":8}"#;
    candidate.identity = Box::new(|_| Ok((200, token.to_vec())));
    candidate.lead();
    let will = candidate.will.clone().unwrap();
    assert_eq!(header(&will, "authorization").as_deref(), Some("Bearer c2VjcmV0"));
    assert_eq!(will.valid_for, seconds(8));
    assert!(!format!("{will:?}").contains("c2VjcmV0"), "{will:?}");
}

#[test]
fn expired_last_will_is_none() {
    let end = instant(seconds(90)).format("%Y-%m-%dT%H:%M:%SZ").to_string();
    let sas = format!(
        "sv=2022-11-02&sr=c&sp=rcw&se={end}&sig=c2lnc2lnc2lnc2lnc2lnc2lnc2lnc2lnc2lnc2lnc2k="
    );
    let account = (variable::ACCOUNT, "tenure");
    let mut candidate = Candidate::new(&[NO_STRING, account, (variable::SAS_TOKEN, &sas)]);
    candidate.lead();
    assert_eq!(candidate.will, None);
}

fn settings_of(more: &[(&str, &str)]) -> Settings {
    Candidate::new(more).settings
}

fn deletion(settings: &Settings, session: &Session) -> Option<LastWill> {
    let tag = ETag("\"0x8D\"".into());
    LastWill::deletion(settings, session, tag, instant(seconds(100)), seconds(5))
}

#[test]
fn a_sign_of_life_is_deleted_by_a_request_for_that_one() {
    let will = deletion(&settings_of(&[]), &Session::default()).unwrap();
    assert_eq!(will.request.method, Method::Delete);
    assert_eq!(header(&will, "if-match").as_deref(), Some("\"0x8D\""));
    assert!(header(&will, "authorization").unwrap().starts_with("SharedKey "));
    assert_eq!(will.valid_for, seconds(15 * 60), "then the signature is too old");
}

#[test]
fn sign_deletion_expires_with_its_credential() {
    let account = (variable::ACCOUNT, "tenure");
    let sas = |end| {
        let end = instant(seconds(end)).format("%Y-%m-%dT%H:%M:%SZ").to_string();
        let sas = format!(
            "sv=2022-11-02&sr=c&sp=rcwdl&se={end}&sig=c2lnc2lnc2lnc2lnc2lnc2lnc2lnc2lnc2lnc2lnc2k="
        );
        let settings = settings_of(&[NO_STRING, account, (variable::SAS_TOKEN, &sas)]);
        deletion(&settings, &Session::default()).map(|will| will.valid_for)
    };
    assert_eq!(sas(107), Some(seconds(7)));
    assert_eq!(sas(100_000), Some(seconds(15 * 60)));
    assert_eq!(sas(90), None, "it has expired");
    let without = settings_of(&[NO_STRING, account]);
    assert_eq!(deletion(&without, &Session::default()), None, "there is no token yet");
}
