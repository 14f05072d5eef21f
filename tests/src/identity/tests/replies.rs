//! What each service tells, and what the test has it tell.

use std::time::Duration;

use chrono::Utc;

use super::super::{Reply, Spelling};
use super::*;
use crate::Certificates;

#[tokio::test]
async fn each_service_tells_the_end_of_a_token_in_its_own_way() {
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
    for (expected, sent, told) in cases {
        let endpoint = Endpoint::start(expected).await.unwrap();
        let (status, body) = sent.to(&endpoint).await;
        assert_eq!(status, StatusCode::OK, "{endpoint:?}");
        assert_eq!([&body["expires_in"], &body["expires_on"]].map(spelling), told);
        let issued = endpoint.issued();
        assert_eq!([body["access_token"].as_str().unwrap()], *issued);
        assert!(!format!("{endpoint:?}").contains(&issued[0]), "{endpoint:?}");

        let hour = Duration::from_secs(3600);
        let by_number = Reply::token(hour).expires_on(Spelling::Number);
        let by_both = Reply::token(hour).expires_in(Spelling::Text).expires_on(Spelling::Text);
        endpoint.script([by_number, by_both]);
        let now = u64::try_from(Utc::now().timestamp()).unwrap();
        let body = sent.to(&endpoint).await.1;
        assert!(body["expires_on"].as_u64().unwrap() >= now + 3600, "{body}");
        assert_eq!(body["expires_in"], Value::Null);
        let body = sent.to(&endpoint).await.1;
        assert_eq!(body["expires_in"], "3600");
        assert_eq!(spelling(&body["expires_on"]), "text");
    }
}

#[tokio::test]
async fn requests_are_answered_as_it_is_written() {
    let endpoint = Endpoint::start(imds()).await.unwrap();
    let again = || Reply::text(429, "").header("retry-after", "7");
    endpoint.script([again(), Reply::text(200, "<html>"), Reply::invalid_resource()]);
    // What is refused takes nothing away from it.
    imds_request().header("x-more", "1").to(&endpoint).await;
    let client = client(None).unwrap();
    let limited = imds_request().request(&endpoint, &client).send().await.unwrap();
    assert_eq!(
        (limited.status().as_u16(), &limited.headers()["retry-after"]),
        (429, &"7".parse().unwrap())
    );
    let garbage = imds_request().request(&endpoint, &client).send().await.unwrap();
    assert_eq!(garbage.text().await.unwrap(), "<html>");
    let (status, body) = imds_request().to(&endpoint).await;
    assert_eq!((status.as_u16(), &body["error"]), (400, &"invalid_resource".into()));
    assert!(imds_request().to(&endpoint).await.1["access_token"].is_string());
    endpoint.otherwise(Reply::invalid_client());
    for _ in 0..2 {
        let (status, body) = imds_request().to(&endpoint).await;
        assert_eq!(status, StatusCode::UNAUTHORIZED);
        assert!(body["error_description"].as_str().unwrap().starts_with("AADSTS7000215: "));
    }
    assert_eq!(endpoint.issued().len(), 1);
    assert_eq!(endpoint.requests().len(), 7);
}

#[tokio::test]
async fn an_answer_can_take_its_time() {
    let endpoint = Endpoint::start(imds()).await.unwrap();
    let hour = Duration::from_secs(3600);
    endpoint.script([Reply::token(hour).after(hour)]);
    let request = imds_request();
    let mut late = std::pin::pin!(request.to(&endpoint));
    let next = async {
        endpoint.wait_for(1).await;
        imds_request().to(&endpoint).await.0
    };
    let first = tokio::select! {
        biased;
        answered = &mut late => answered.0,
        answered = next => answered,
    };
    assert_eq!(first, StatusCode::OK);
    assert_eq!((endpoint.requests().len(), endpoint.issued().len()), (2, 1));
}

#[tokio::test]
async fn over_tls_only_those_come_who_trust_the_authority() {
    let certificates = Certificates::mint().unwrap();
    let expected = entra(Proof::Secret(SECRET.into()));
    let endpoint = Endpoint::start_tls(expected, &certificates).await.unwrap();
    assert_eq!(endpoint.url(), format!("{}{ENTRA}", endpoint.origin()));
    let trusting = client(Some(&certificates.ca())).unwrap();
    // One that never begins its handshake keeps nobody waiting.
    let address = endpoint.origin().replace("https://", "");
    let _silent = tokio::net::TcpStream::connect(address).await.unwrap();
    let answer = entra_request().request(&endpoint, &trusting).send().await.unwrap();
    assert_eq!(answer.status(), StatusCode::OK);
    let stranger = entra_request().request(&endpoint, &client(None).unwrap()).send().await;
    assert!(stranger.unwrap_err().is_connect());
    assert_eq!(endpoint.requests().len(), 1);
}
