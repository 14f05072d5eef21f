//! Compares Shared Key with signatures by the official SDKs (`testdata/sharedkey-vectors.json`).

#![allow(clippy::unwrap_used, clippy::panic)]

use chrono::DateTime;
use serde_json::Value;
use tenure_azure::shared_key::{Key, authorization, decoded_query, string_to_sign};
use tenure_azure::{Account, BlobName, ETag, LeaseId, Metadata, Operation};

type Pairs = Vec<(String, String)>;

const LEASE: &str = "aaaaaaaa-bbbb-4ccc-8ddd-eeeeeeeeeeee";

fn vectors() -> Vec<Value> {
    let file: Value =
        serde_json::from_str(include_str!("../testdata/sharedkey-vectors.json")).unwrap();
    file["vectors"].as_array().unwrap().clone()
}

fn text<'a>(vector: &'a Value, field: &str) -> &'a str {
    vector[field].as_str().unwrap()
}

fn headers(vector: &Value) -> Pairs {
    let headers = vector["headers"].as_object().unwrap();
    headers
        .iter()
        .map(|(name, value)| (name.clone(), value.as_str().unwrap().to_string()))
        .collect()
}

/// Splits a URL into origin, path and query.
fn taken_apart(url: &str) -> (&str, &str, &str) {
    let (address, query) = url.split_once('?').unwrap_or((url, ""));
    let slash = "https://".len() + address["https://".len()..].find('/').unwrap();
    (&address[..slash], &address[slash..], query)
}

#[test]
fn every_vector_is_signed_as_the_sdks_sign_it() {
    let vectors = vectors();
    assert_eq!(vectors.len(), 26);
    for vector in &vectors {
        let name = text(vector, "name");
        let (_, path, query) = taken_apart(text(vector, "url"));
        let account = text(vector, "account");
        let key = Key::from_base64(text(vector, "key")).unwrap();

        let signed = string_to_sign(
            text(vector, "method"),
            path,
            &decoded_query(query),
            &headers(vector),
            account,
        );

        assert_eq!(signed, text(vector, "string_to_sign"), "{name}");
        assert_eq!(key.sign(&signed), text(vector, "signature"), "{name}");
        assert_eq!(authorization(account, &key, &signed), text(vector, "authorization"), "{name}");
    }
}

/// Returns the operation of a vector, if it is one of ours.
fn operation(name: &str) -> Option<Operation> {
    let lease = LeaseId::parse(LEASE).unwrap();
    let metadata = [("foo1", "a"), ("foo_bar", "b"), ("foobar", "c"), ("foo", "d"), ("zed", "e")];
    Some(match name {
        "container-create-vhost" | "container-create-emulator" => Operation::CreateContainer,
        "put-blob-empty" | "put-blob-empty-emulator" => Operation::CreateBlob,
        "lease-acquire" | "lease-acquire-emulator" => {
            Operation::Acquire { lease, seconds: 15, if_match: None }
        }
        "lease-renew" => Operation::Renew { lease },
        "lease-release-emulator" => Operation::Release { lease },
        "root-container-blob" => Operation::Read { lease: None },
        "set-metadata-sort" => Operation::WriteMetadata {
            lease,
            if_match: ETag(String::new()),
            metadata: Metadata::from_iter(metadata),
        },
        _ => return None,
    })
}

/// The SDKs send headers that we do not (a request id, a content type), and we send a timeout.
/// Everything else must be the same, byte for byte, and our own signature must be valid for our
/// request.
#[test]
fn our_requests_are_those_of_the_sdks() {
    let mut compared = Vec::new();
    for vector in &vectors() {
        let name = text(vector, "name");
        let Some(operation) = operation(name) else { continue };
        let (origin, path, _) = taken_apart(text(vector, "url"));
        let account = text(vector, "account");
        let prefix = if path.starts_with("/devstoreaccount1/") { "/devstoreaccount1" } else { "" };
        let settings = format!(
            "AccountName={account};AccountKey={};BlobEndpoint={origin}{prefix}",
            text(vector, "key")
        );
        let settings = Account::from_connection_string(&settings).unwrap();
        let container = if name.starts_with("root-container") { "$root" } else { "leases" };
        let blob = BlobName::parse(&format!("{container}/leader")).unwrap();

        let sent = operation.request(
            &settings,
            &blob,
            DateTime::from_timestamp(1_767_323_045, 0).unwrap(),
            7,
            settings.authorization(),
        );

        assert_eq!(sent.origin, origin, "{name}");
        let (sent_path, query) = sent.path_and_query.split_once('?').unwrap();
        assert_eq!(sent_path, path, "{name}");
        let query = decoded_query(query);
        let mut headers: Pairs = sent.headers.clone();
        let (_, sent_authorization) = headers.pop().unwrap();

        let signed = string_to_sign(sent.method.as_str(), sent_path, &query, &headers, account);
        let key = Key::from_base64(text(vector, "key")).unwrap();
        assert_eq!(sent_authorization, authorization(account, &key, &signed), "{name}");

        let without_timeout: Pairs =
            query.into_iter().filter(|(name, _)| name != "timeout").collect();
        headers.retain(|(name, value)| !(name == "if-match" && value.is_empty()));
        headers.extend(self::headers(vector).into_iter().filter(|(name, _)| {
            name.eq_ignore_ascii_case("content-type")
                || name.eq_ignore_ascii_case("x-ms-client-request-id")
        }));
        let as_the_sdk =
            string_to_sign(sent.method.as_str(), sent_path, &without_timeout, &headers, account);
        assert_eq!(as_the_sdk, text(vector, "string_to_sign"), "{name}");
        compared.push(name.to_string());
    }
    assert_eq!(compared.len(), 10, "{compared:?}");
}
