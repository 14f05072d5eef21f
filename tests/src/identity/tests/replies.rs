//! Tests the replies of each service, including scripted ones.

use std::time::Duration;

use chrono::Utc;

use super::super::{Reply, Spelling};
use super::*;
use crate::Certificates;

#[tokio::test]
async fn each_service_reports_token_expiry_in_its_own_format() {
    let entra = entra(Proof::Secret(SECRET.into()));
    let cases = [
        (imds(), imds_request(), ["text", "text"]),
        (app_service(), app_service_request(), ["none", "text"]),
        (entra, entra_request(), ["number", "none"]),
    ];
    let spelling = |value: &Value| match value {
        Value::String(_) => "text",
        Value::Number(_) => "number",
        _ => "none",
    };
    for (expected, request, spellings) in cases {
        let endpoint = Endpoint::start(expected).await.unwrap();
        let (status, body) = request.send_to(&endpoint).await;
        assert_eq!(status, StatusCode::OK, "{endpoint:?}");
        assert_eq!([&body["expires_in"], &body["expires_on"]].map(spelling), spellings);
        let issued = endpoint.issued();
        assert_eq!([body["access_token"].as_str().unwrap()], *issued);
        assert!(!format!("{endpoint:?}").contains(&issued[0]), "{endpoint:?}");

        let hour = Duration::from_secs(3600);
        let numeric_expiry = Reply::token(hour).expires_on(Spelling::Number);
        let both_fields = Reply::token(hour).expires_in(Spelling::Text).expires_on(Spelling::Text);
        endpoint.add_replies([numeric_expiry, both_fields]);
        let now = u64::try_from(Utc::now().timestamp()).unwrap();
        let body = request.send_to(&endpoint).await.1;
        assert!(body["expires_on"].as_u64().unwrap() >= now + 3600, "{body}");
        assert_eq!(body["expires_in"], Value::Null);
        let body = request.send_to(&endpoint).await.1;
        assert_eq!(body["expires_in"], "3600");
        assert_eq!(spelling(&body["expires_on"]), "text");
    }
}

#[tokio::test]
async fn scripted_replies_are_used_in_order() {
    let endpoint = Endpoint::start(imds()).await.unwrap();
    let rate_limited = || Reply::text(429, "").header("retry-after", "7");
    endpoint.add_replies([rate_limited(), Reply::text(200, "<html>"), Reply::invalid_resource()]);
    // A rejected request consumes no scripted reply.
    imds_request().header("x-more", "1").send_to(&endpoint).await;
    let client = client(None).unwrap();
    let limited = imds_request().request(&endpoint, &client).send().await.unwrap();
    assert_eq!(
        (limited.status().as_u16(), &limited.headers()["retry-after"]),
        (429, &"7".parse().unwrap())
    );
    let not_json = imds_request().request(&endpoint, &client).send().await.unwrap();
    assert_eq!(not_json.text().await.unwrap(), "<html>");
    let (status, body) = imds_request().send_to(&endpoint).await;
    assert_eq!((status.as_u16(), &body["error"]), (400, &"invalid_resource".into()));
    assert!(imds_request().send_to(&endpoint).await.1["access_token"].is_string());
    endpoint.set_default_reply(Reply::invalid_client());
    for _ in 0..2 {
        let (status, body) = imds_request().send_to(&endpoint).await;
        assert_eq!(status, StatusCode::UNAUTHORIZED);
        assert!(body["error_description"].as_str().unwrap().starts_with("AADSTS7000215: "));
    }
    assert_eq!(endpoint.issued().len(), 1);
    assert_eq!(endpoint.requests().len(), 7);
}

#[tokio::test]
async fn a_reply_can_be_delayed() {
    let endpoint = Endpoint::start(imds()).await.unwrap();
    let hour = Duration::from_secs(3600);
    endpoint.add_replies([Reply::token(hour).delayed_by(hour)]);
    let request = imds_request();
    let mut delayed_reply = std::pin::pin!(request.send_to(&endpoint));
    let next = async {
        endpoint.wait_for(1).await;
        imds_request().send_to(&endpoint).await.0
    };
    let first = tokio::select! {
        biased;
        answered = &mut delayed_reply => answered.0,
        answered = next => answered,
    };
    assert_eq!(first, StatusCode::OK);
    assert_eq!((endpoint.requests().len(), endpoint.issued().len()), (2, 1));
}

#[tokio::test]
async fn tls_requires_trust_in_the_authority() {
    let certificates = Certificates::generate().unwrap();
    let expected = entra(Proof::Secret(SECRET.into()));
    let endpoint = Endpoint::start_tls(expected, &certificates).await.unwrap();
    assert_eq!(endpoint.url(), format!("{}{ENTRA}", endpoint.origin()));
    let trusting = client(Some(&certificates.ca())).unwrap();
    // A client that never starts its handshake does not block others.
    let address = endpoint.origin().replace("https://", "");
    let _silent = tokio::net::TcpStream::connect(address).await.unwrap();
    let answer = entra_request().request(&endpoint, &trusting).send().await.unwrap();
    assert_eq!(answer.status(), StatusCode::OK);
    let untrusted = entra_request().request(&endpoint, &client(None).unwrap()).send().await;
    assert!(untrusted.unwrap_err().is_connect());
    assert_eq!(endpoint.requests().len(), 1);
}
