//! The embedded store's behaviour besides leases.

use tenure_store::{LeaseState, OperationKind, Request, Response};

use super::script::{Scene, id};
use super::send::{Direct, Transport};

/// Runs a script on one blob; returns status and code of the last response.
fn outcome(script: &str) -> (u16, Option<String>) {
    let answer = answer(script);
    (answer.status, answer.code().map(str::to_owned))
}

fn answer(script: &str) -> Response {
    Scene::new(&mut Direct::new(), "leases").run(script)
}

fn refused(status: u16, code: &str) -> (u16, Option<String>) {
    (status, Some(code.to_owned()))
}

#[test]
fn the_name_of_a_deleted_container_is_taken_for_a_while() {
    assert_eq!(
        outcome("rmcontainer; wait 29.9; mkcontainer"),
        refused(409, "ContainerBeingDeleted")
    );
    assert_eq!(outcome("put; rmcontainer; head"), refused(404, "ContainerNotFound"));
    assert_eq!(outcome("rmcontainer; rmcontainer"), refused(404, "ContainerNotFound"));
    assert_eq!(outcome("rmcontainer; wait 30; mkcontainer"), (201, None));
    assert_eq!(
        outcome("put; rmcontainer; wait 30; mkcontainer; head"),
        refused(404, "BlobNotFound")
    );
}

#[test]
fn a_container_has_properties() {
    let answer = answer("headcontainer");
    assert_eq!((answer.status, answer.header("x-ms-lease-state")), (200, Some("available")));
    assert!(answer.header("etag").is_some());
    assert_eq!(outcome("headcontainer box=nowhere"), refused(404, "ContainerNotFound"));
}

#[test]
fn metadata_is_replaced_whole() {
    let term = |script| answer(script).header("x-ms-meta-term").map(str::to_owned);
    assert_eq!(term("put meta=7; head"), Some("7".to_owned()));
    assert_eq!(term("put meta=7; meta meta=8; get"), Some("8".to_owned()));
    assert_eq!(term("put meta=7; meta; head"), None);
    assert_eq!(term("put meta=7; put; head"), None);
}

#[test]
fn requests_without_effect_leave_the_fingerprint() {
    let after = |script, seed| {
        let mut wire = Direct::new();
        Scene::new(&mut wire, "leases").run(script);
        wire.service.reset(seed);
        assert_eq!(wire.service.log().total(), 0);
        let fingerprint = wire.service.fingerprint();
        let answer = Scene::new(&mut wire, "others").run("put");
        (fingerprint, answer.header("etag").map(str::to_owned))
    };
    let (fingerprint, etag) = after("put; acquire id=A", 1);
    assert_eq!(after("put; acquire id=A; head; renew id=B", 1), (fingerprint, etag.clone()));
    assert_ne!(after("put; acquire id=A", 2).1, etag, "another seed, other ETags");
    assert_ne!(after("put", 1).0, fingerprint, "another lease");
    assert_ne!(
        after("put; acquire id=A; wait 1; renew id=A", 1).0,
        fingerprint,
        "until another time"
    );
    assert_ne!(after("put; acquire id=A; meta id=A meta=1", 1).0, fingerprint, "other metadata");
}

#[test]
fn every_write_has_its_own_etag() {
    let mut wire = Direct::new();
    let mut scene = Scene::new(&mut wire, "leases");
    let mut etags = Vec::new();
    for script in ["put", "meta meta=1", "meta meta=1", "put", "delete; put"] {
        etags.push(scene.run(script).header("etag").map(str::to_owned));
    }
    assert!(etags.iter().all(Option::is_some));
    etags.sort();
    etags.dedup();
    assert_eq!(etags.len(), 5);
}

#[test]
fn content_and_properties_come_back() {
    let read = answer("put body=hello type=text/plain; get");
    assert_eq!((read.status, &read.body[..]), (200, &b"hello"[..]));
    assert_eq!(read.header("content-type"), Some("text/plain"));
    assert_eq!(read.header("x-ms-blob-type"), Some("BlockBlob"));
    let head = answer("put body=hello; head");
    assert_eq!((head.header("content-length"), head.body.len()), (Some("5"), 0));
    assert_eq!(head.header("content-type"), Some("application/octet-stream"));
}

#[test]
fn a_read_of_the_known_version_is_not_modified() {
    let read = answer("put; get none=right");
    assert_eq!((read.status, read.code(), read.body.len()), (304, Some("ConditionNotMet"), 0));
    assert_eq!(outcome("put; get match=wrong"), refused(412, "ConditionNotMet"));
    assert_eq!(outcome("put match=wrong"), refused(412, "ConditionNotMet"));
}

#[test]
fn the_time_until_a_break_is_over_is_rounded_up() {
    assert_eq!(
        answer("put; acquire id=A for=60; wait 0.5; break").header("x-ms-lease-time"),
        Some("60")
    );
    assert_eq!(
        answer("put; acquire id=A for=60; wait 59.5; break").header("x-ms-lease-time"),
        Some("1")
    );
}

#[test]
fn one_seed_gives_one_run() {
    let run = || {
        let answer = answer("put; acquire; !acquire; put id=A");
        (answer.headers, answer.body)
    };
    assert_eq!(run(), run());
}

#[test]
fn the_log_has_every_handled_request() {
    let mut wire = Direct::new();
    Scene::new(&mut wire, "leases")
        .run("put; acquire id=A; !acquire id=B; renew id=A; wait 3; head auth=wrong-key");
    let log = wire.service.log();
    assert_eq!(
        (
            log.total(),
            log.count(OperationKind::Acquire),
            log.count_with_status(OperationKind::Acquire, 409)
        ),
        (6, 2, 1)
    );
    let last = log.entries().next_back().unwrap();
    assert_eq!(
        (last.operation, last.method.as_str(), last.status),
        (OperationKind::HeadBlob, "HEAD", 403)
    );
    assert_eq!(last.code, Some("AuthenticationFailed"));
    assert_eq!((last.container.as_str(), last.blob.as_str()), ("leases", "blob"));
    assert_eq!(last.at, wire.now().elapsed);
}

#[test]
fn the_log_truncates_long_methods() {
    let mut wire = Direct::new();
    let long = "A".repeat(10_000);
    assert_eq!(wire.send(&Request::new(&long, &format!("/{long}/b"))).status, 401);
    let last = wire.service.log().entries().next_back().unwrap();
    assert_eq!((last.method.as_str(), last.account.as_str()), (&long[..16], ""));
}

#[test]
fn the_service_exposes_the_lease() {
    let mut wire = Direct::new();
    Scene::new(&mut wire, "leases").run("put; acquire id=A");
    let elapsed = wire.now().elapsed;
    let lease_of = |elapsed, blob| wire.service.lease(elapsed, "devstoreaccount1", "leases", blob);
    assert_eq!(lease_of(elapsed, "blob"), Some((LeaseState::Leased, Some(id("A")))));
    assert_eq!(
        lease_of(elapsed + std::time::Duration::from_secs(15), "blob").map(|(state, _)| state),
        Some(LeaseState::Expired)
    );
    assert_eq!(lease_of(elapsed, "other"), None);
}
