//! Tokens together with other credentials: a header, a version, the keys of the account.

use tenure_azure::encoding;
use tenure_azure::shared_key::decoded_query;
use tenure_store::{Account, AccountError, EMULATOR_ACCOUNT, KeyName, OperationKind, Request};

use super::super::script::{Scene, signed};
use super::super::send::{Direct, Transport, Wire};
use super::{answer, container, ok_or_code, outcome, sas, terms};

#[test]
fn a_header_decides_over_a_token() {
    let good = sas(container("leases"), "rw");
    let key = "date=0 auth=wrong-key";
    let refused = answer(&format!("put; acquire id=A {key}"), &good);
    assert_eq!(ok_or_code(&refused), "AuthenticationFailed");
    // Shared Key signs the decoded query too, and the service returns the signed text.
    let query = decoded_query(&good);
    let (_, signature) = query.iter().find(|(name, _)| name == "sig").unwrap();
    assert!(!String::from_utf8_lossy(&refused.body).contains(signature));
    let bad = good.replace("sp=rw", "sp=r");
    assert_eq!(outcome("put; acquire id=A date=0 auth=right", &bad), "ok");
}

#[test]
fn a_request_that_names_no_version_is_answered_by_that_of_its_token() {
    let good = sas(container("leases"), "rw");
    // The version is checked in every response.
    assert_eq!(outcome("put; acquire id=A version=nothing", &good), "ok");
    let found = outcome("put; acquire id=A version=1999-01-01", &good);
    assert_eq!(found, "400 Some(\"InvalidHeaderValue\")");
}

#[test]
fn a_token_made_by_an_sdk_is_let_in() {
    // Made by Microsoft's SDK for Python, azure-storage-blob 12.31.1.
    let token = "se=2030-01-02T03%3A00%3A00Z&sp=rcwd&sv=2026-10-06&sr=b\
                 &sig=PndrBc0Uw%2BugpxwxCcQN918yG%2BMmixwDgVAVmJQ7Lrg%3D";
    assert_eq!(outcome("put at=leader; acquire id=A at=leader", token), "ok");
    assert_eq!(outcome("put; acquire id=A", token), "AuthenticationFailed");
    // Observed in the service (azure-sdk-for-js #9353): it reads a `+` as a space.
    let raw = token.replace("%2B", "+");
    assert_eq!(outcome("put at=leader; acquire id=A at=leader", &raw), "AuthenticationFailed");
}

#[test]
fn a_token_lives_as_long_as_its_key() {
    let mut wire = Direct::new();
    Scene::new(&mut wire, "leases").run("put");
    let (old, new, other) = (tenure_store::EMULATOR_KEY, "AAEC", "AwQF");
    let make = |key| {
        let account = Account::new(EMULATOR_ACCOUNT, &[key]).unwrap();
        account.sas(KeyName::Key1, &terms(container("leases"), "r")).unwrap()
    };
    // Sends a request with a token and a signed request, by each key.
    let accepted = |wire: &mut Direct| {
        [old, new, other].map(|key| {
            let target = format!("/{EMULATOR_ACCOUNT}/leases/blob");
            let head =
                |target: &str| Request::new("HEAD", target).with("x-ms-version", "2021-12-02");
            let by_token = wire.send(&head(&format!("{target}?{}", make(key).query())));
            let date = encoding::format_http_date(wire.now().wall);
            let head = head(&target).with("x-ms-date", &date);
            let by_key = wire.send(&signed(head, key, EMULATOR_ACCOUNT, "SharedKey"));
            assert_eq!(
                ok_or_code(&by_token),
                ok_or_code(&by_key),
                "a token is worth what its key is"
            );
            ok_or_code(&by_key) == "ok"
        })
    };
    let replace = |wire: &mut Direct, name, key| {
        wire.service.replace_key(EMULATOR_ACCOUNT, name, key).unwrap();
    };
    assert_eq!(accepted(&mut wire), [true, false, false]);
    replace(&mut wire, KeyName::Key2, other);
    assert_eq!(accepted(&mut wire), [true, false, true], "a second key does not touch the first");
    replace(&mut wire, KeyName::Key1, new);
    assert_eq!(accepted(&mut wire), [false, true, true]);
    replace(&mut wire, KeyName::Key2, old);
    assert_eq!(accepted(&mut wire), [true, true, false]);
    let unknown = wire.service.replace_key("nobody", KeyName::Key1, new);
    assert_eq!(unknown, Err(AccountError::Unknown));
    assert_eq!(accepted(&mut wire), [true, true, false]);
}

#[test]
fn so_it_is_over_a_connection() {
    let mut wire = Wire::new();
    let token = sas(container("leases"), "rcw");
    let mut scene = Scene::new(&mut wire, "leases");
    let step = |verb: &str| format!("{verb} sas={token}");
    let script = ["put", "acquire id=A", "head", "renew id=A"].map(step).join("; ");
    assert_eq!(scene.run(&script).header("x-ms-lease-id").map(str::len), Some(36));
    assert_eq!(ok_or_code(&scene.run(&step("delete id=A"))), "AuthorizationPermissionMismatch");
    let new = "AAEC";
    wire.store.with(|service| service.replace_key(EMULATOR_ACCOUNT, KeyName::Key1, new)).unwrap();
    assert!(wire.store.connection_string().contains("AccountKey=AAEC;"));
    let target = format!("/{EMULATOR_ACCOUNT}/leases/blob?{token}");
    let head = Request::new("HEAD", &target).with("x-ms-version", "2021-12-02");
    assert_eq!(ok_or_code(&wire.send(&head)), "AuthenticationFailed");
    let refused =
        wire.store.with(|service| service.log().count_with_status(OperationKind::HeadBlob, 403));
    assert_eq!(refused, 1);
}
