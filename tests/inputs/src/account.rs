//! Connection strings, addresses and SAS.

use tenure_azure::account::Account;
use tenure_azure::credential::{AuthSource, Sas};
use tenure_azure::endpoint::Endpoint;
use tenure_azure::{BlobName, Operation, Request};

use crate::answer::wall;

/// Asserts that HTTP can carry the request, to its own origin.
pub(crate) fn assert_sendable(request: &Request) {
    let is_plain = |text: &str| text.bytes().all(|byte| (0x21..0x7f).contains(&byte));
    assert!(is_plain(&request.origin) && request.origin.starts_with("http"), "{request:?}");
    assert!(is_plain(&request.path_and_query), "{request:?}");
    assert!(request.path_and_query.starts_with('/'), "{request:?}");
    for (name, value) in &request.headers {
        assert!(is_plain(name), "{request:?}");
        assert!(value.bytes().all(|byte| (0x20..0x7f).contains(&byte)), "{name} of {request:?}");
    }
}

/// Tests a connection string, an address or a SAS.
///
/// Accepted input produces requests that can be sent. `Debug` output and messages show no secret.
pub fn account(data: &[u8]) {
    let Ok(text) = str::from_utf8(data) else { return };
    let _ = Endpoint::parse(text);
    let _ = Endpoint::parse_account(text);
    if let Ok(sas) = Sas::parse(text) {
        let _ = (sas.validity_note(wall()), sas.validity_bounds(), sas.is_for_one_blob());
        assert_eq!(format!("{sas:?}"), "Sas(Secret(..))");
    }
    match Account::from_connection_string(text) {
        Ok(account) => {
            let election = BlobName::parse("leases/leader").unwrap();
            let authorization = account.credential().authorization(&AuthSource::Credential);
            let read = Operation::Read { lease: None };
            assert_sendable(&read.request(&account, &election, wall(), 3, authorization));
        }
        Err(problems) => assert!(!problems.is_empty()),
    }
}
