//! Requests to the embedded store.

use std::time::Duration;

use bytes::Bytes;
use chrono::{DateTime, Utc};
use tenure_azure::encoding;
use tenure_azure::shared_key::{Key, authorization, decoded_query, string_to_sign};
use tenure_store::{Account, EMULATOR_ACCOUNT, EMULATOR_KEY, Now, Request, Service, request_head};

use crate::answer::{pieces, wall};

/// Tests the head of a request from a connection.
pub fn store_head(data: &[u8]) {
    if let Ok(Some((_, length))) = request_head(data) {
        assert!((1..=data.len()).contains(&length));
        assert!(matches!(request_head(&data[..length]), Ok(Some(_))));
        assert!(!matches!(request_head(&data[..length - 1]), Ok(Some(_))));
    }
}

/// Tests requests in sequence, each signed with the account's key: a head, and its body.
pub fn store_requests(data: &[u8]) {
    let mut service = Service::new(vec![Account::emulator()], 1);
    let mut elapsed = Duration::ZERO;
    for piece in pieces(data).take(16) {
        let Ok(Some((mut request, length))) = request_head(piece) else { continue };
        request.body = Bytes::copy_from_slice(&piece[length..]);
        let now = Now { elapsed, wall: wall() + elapsed };
        let response = service.handle(now, &signed(request, now.wall));
        assert!((200..600).contains(&response.status), "{}", response.status);
        elapsed += Duration::from_secs(4);
    }
}

/// Adds the headers that every request needs, unless it has them.
fn signed(mut request: Request, date: DateTime<Utc>) -> Request {
    let length = request.body.len().to_string();
    let date = encoding::format_http_date(date);
    for (name, value) in
        [("x-ms-version", "2021-12-02"), ("x-ms-date", &date), ("content-length", &length)]
    {
        if request.header(name).is_none() {
            request = request.with(name, value);
        }
    }
    if request.header("authorization").is_some() {
        return request;
    }
    let (path, query) = request.target.split_once('?').unwrap_or((&request.target, ""));
    let query = decoded_query(query);
    let text = string_to_sign(&request.method, path, &query, &request.headers, EMULATOR_ACCOUNT);
    let key = Key::from_base64(EMULATOR_KEY).expect("Base64");
    let value = authorization(EMULATOR_ACCOUNT, &key, &text);
    request.with("Authorization", &value)
}
